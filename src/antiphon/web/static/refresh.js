// What has changed somewhere is shown: in the queue, and in the question if it is not what it was.
import { tick } from "./clock.js";
import { first, forget, get, here } from "./navigation.js";
import { detail, lost, rows, say } from "./places.js";
import { renew, sift } from "./queue.js";

// One fetch at a time, and one more if anything changed meanwhile: of two at once, the older could arrive last and be
// what stays shown.
let refreshing = null;
let changed = false;

export function refresh() {
  changed = true;
  refreshing ??= (async () => {
    try {
      while (changed) {
        changed = false;
        await renewed();
      }
    } finally {
      refreshing = null;
    }
  })();
  return refreshing;
}

async function renewed() {
  forget();
  if (!document.getElementById("queue")) return;
  const path = location.pathname;
  const held = document.activeElement?.dataset?.row;
  const chosen = document.querySelector("#queue [aria-current]")?.dataset.row;
  try {
    const page = await get("/", "queue");
    const fresh = page.getElementById("queue");
    // Somebody went elsewhere meanwhile: what was fetched is for another place, and the change is still to be shown.
    if (path !== location.pathname) return void (changed = true);
    if (!fresh) return;
    renew(document.getElementById("queue"), fresh);
    const id = path.startsWith("/review/") ? path.split("/")[2] : "";
    rows().find((row) => row.dataset.row === (chosen ?? id))?.setAttribute("aria-current", "true");
    if (held) rows().find((row) => row.dataset.row === held)?.focus({ preventScroll: true });
    tick();
    first();
    if (id && detail()?.dataset.state === "pending" && !rows().some((row) => row.dataset.row === id) && !deciding()) await outdated(path);
  } catch (error) {
    lost(error);
  }
}

// Whoever decides here hears of it from the answer, which the news may overtake.
function deciding() {
  return document.querySelector("form[data-busy]") !== null;
}

async function outdated(path) {
  const still = here();
  const found = (await get(path, "detail")).getElementById("detail");
  if (!found || !still() || found.dataset.state === "pending" || deciding() || detail().inert) return;
  detail().replaceWith(document.adoptNode(found));
  say(detail().querySelector(".banner")?.textContent ?? "");
}

let timer = 0;

export function resift(form) {
  clearTimeout(timer);
  sift(form);
  refresh();
}

// What is typed is taken a moment after the last key.
export function siftSoon(form) {
  clearTimeout(timer);
  timer = setTimeout(() => resift(form), 150);
}
