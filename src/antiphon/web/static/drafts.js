// What somebody types about a question is kept a moment after the last key, and at once when the place is left. One after
// the other: of two at once, the older could arrive last and be what is kept.
import { lost } from "./places.js";
import { fields, post } from "./session.js";

const AFTER_KEY = 300;
const KEEPALIVE = 60_000;

let keepTimer = 0;
let open = null;
let lastKept = Promise.resolve();
let last = "";
let unkept = false;

export function draft(form) {
  if (open !== form) flush();
  open = form;
  clearTimeout(keepTimer);
  keepTimer = setTimeout(flush, AFTER_KEY);
}

export function flush() {
  clearTimeout(keepTimer);
  if (!open) return lastKept;
  const form = open;
  const body = fields(form);
  const path = form.dataset.draft;
  last = path;
  open = null;
  // A page that is being closed still sends it, as far as browsers allow that: 64 kB.
  const keepalive = String(body).length < KEEPALIVE;
  lastKept = lastKept.then(() => post(path, body, { keepalive })).then(
    () => (unkept = false),
    (error) => {
      // It is sent again as soon as the page is back, or with the next text.
      open ??= form;
      unkept = true;
      lost(error);
    },
  );
  return lastKept;
}

// What is fetched of a question waits until what was just typed about it is kept; another question does not wait.
export function kept(path) {
  flush();
  return last === `${path}/draft` ? lastKept : Promise.resolve();
}

// Nothing of it comes after this.
export function discard() {
  clearTimeout(keepTimer);
  open = null;
  return lastKept.then(() => {
    open = null;
    unkept = false;
  });
}

// A text that could not be kept is lost with this page: the browser asks first.
addEventListener("beforeunload", (event) => unkept && event.preventDefault());
addEventListener("pagehide", flush);
