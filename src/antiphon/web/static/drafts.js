// What somebody types about a question is kept a moment after the last key, and at once when the place is left. One after
// the other: of two at once, the older could arrive last and be what is kept.
import { lost } from "./places.js";
import { fields, post } from "./session.js";

const AFTER_KEY = 300;
const KEEPALIVE = 60_000;

let keepTimer = 0;
let lastKept = Promise.resolve();
// Forms with a text that is not sent yet, forms whose text could not be kept, and questions whose drafts are on their way.
const unsent = new Map();
const unkept = new Map();
const underWay = [];

const nameDraft = (form) => `${form.dataset.draft} ${form.elements.of?.value ?? ""}`;

export function draft(form) {
  const name = nameDraft(form);
  if (unsent.get(name) !== form) flush();
  unsent.set(name, form);
  clearTimeout(keepTimer);
  keepTimer = setTimeout(flush, AFTER_KEY);
}

export function flush() {
  clearTimeout(keepTimer);
  // What could not be kept is sent again as soon as the page is back, or with the next text.
  const forms = new Map([...unkept, ...unsent]);
  unsent.clear();
  for (const [name, form] of forms) keepDraft(name, form);
  return lastKept;
}

function keepDraft(name, form) {
  const body = fields(form);
  const path = form.dataset.draft;
  // A page that is being closed still sends it, as far as browsers allow that: 64 kB.
  const keepalive = String(body).length < KEEPALIVE;
  underWay.push(path);
  const sent = lastKept.then(() => post(path, body, { keepalive })).then((answer) => {
    if (answer.status >= 500) throw new Error("lost");
    unkept.delete(name);
  });
  lastKept = sent
    .catch((error) => {
      unkept.set(name, form);
      lost(error);
    })
    .then(() => underWay.shift());
}

// What is fetched of a question waits until what was just typed about it is kept; another question does not wait.
export function kept(path) {
  flush();
  return underWay.includes(`${path}/draft`) ? lastKept : Promise.resolve();
}

// Nothing of what was typed about a question so far comes after this.
export function discard(path) {
  const drop = () => {
    for (const forms of [unsent, unkept]) for (const [name, form] of forms) if (form.dataset.draft === path) forms.delete(name);
  };
  drop();
  return lastKept.then(drop);
}

// A text that could not be kept is lost with this page: the browser asks first.
addEventListener("beforeunload", (event) => unkept.size && event.preventDefault());
addEventListener("pagehide", flush);
