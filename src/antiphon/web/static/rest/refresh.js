// What has changed somewhere is shown: in the queue, and in the question if it is not what it was.
import { tick } from "./clock.js";
import { leaveOutSettled } from "../consent/alike.js";
import { kept } from "../drafts.js";
import { first, forget, get, here, prepare, shown } from "../navigation.js";
import { detail, lost, say } from "../places.js";
import { change, drawn, renew } from "./queue.js";
import { sift, sifted } from "../sifting.js";

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
  const queue = document.getElementById("queue");
  try {
    if (!queue) {
      forget();
      return await leaveOutSettled();
    }
    const as = sifted("/", "queue").slice(1);
    const page = await get("/", "queue", { "X-Since": drawn(queue) });
    // Somebody went elsewhere meanwhile, where the queue may be another: the change is still to be shown.
    if (!queue.isConnected) return void (changed = true);
    drew(queue, page, as);
    const id = location.pathname.startsWith("/review/") ? location.pathname.split("/")[2] : "";
    mark(queue, id);
    tick();
    first();
    await compare(queue, id);
    prepare();
  } catch (error) {
    lost(error);
  }
}

function drew(queue, page, as) {
  const whole = page.getElementById("queue");
  const changes = page.getElementById("changes");
  if (whole) {
    renew(queue, whole, as);
    forget();
  } else if (changes && change(queue, changes)) forget(new Set(changes.dataset.rows.split(" ")));
  else if (changes) {
    queue.dataset.version = "";
    changed = true;
  }
}

// The row of what is on its way here is marked already.
function mark(queue, id) {
  if (!queue.querySelector("[aria-current]")) row(queue, id)?.setAttribute("aria-current", "true");
}

function row(queue, id) {
  return id ? queue.querySelector(`[data-row="${CSS.escape(id)}"]`) : null;
}

// The question is fetched again if it does not wait any more, or is another than the one that is drawn.
async function compare(queue, id) {
  const now = row(queue, id);
  const here = detail();
  if (!id || here?.dataset.id !== id || here.dataset.state !== "pending" || deciding()) return;
  const known = now?.parentElement.querySelector("[name=ask]").value === `${id} ${here.dataset.hash}`;
  if (!known || now.dataset.waits !== here.dataset.waits) await outdated(location.pathname);
}

// Whoever decides here hears of it from the answer, which the news may overtake.
function deciding() {
  return document.querySelector("form[data-busy]") !== null;
}

async function outdated(path) {
  const still = here();
  await kept(path);
  const found = (await get(path, "detail")).getElementById("detail");
  const old = detail();
  if (!found || !still() || deciding() || old.inert) return;
  const { state, hash, waits } = found.dataset;
  const isSame = state === "pending" && hash === old.dataset.hash;
  if (isSame && waits === old.dataset.waits) return;
  const told = found.querySelector(".banner")?.textContent ?? document.body.dataset.other;
  if (isSame) tellWaits(old, found);
  else {
    const held = old.contains(document.activeElement);
    old.replaceWith(document.adoptNode(found));
    shown();
    if (held) found.querySelector("h1").focus({ preventScroll: true });
  }
  say(told);
}

// What is asked is the same, so that all that is typed about it stays: only whether anybody waits for it is another.
function tellWaits(old, found) {
  old.dataset.waits = found.dataset.waits;
  old.querySelector("[data-nobody]")?.remove();
  const nobody = found.querySelector("[data-nobody]");
  if (nobody) (old.querySelector(".facts-line") ?? old.querySelector("h1")).after(document.adoptNode(nobody));
}

let siftTimer = 0;

export function resift(form) {
  clearTimeout(siftTimer);
  sift(form);
  refresh();
}

// What is typed is taken a moment after the last key.
export function siftSoon(form) {
  clearTimeout(siftTimer);
  siftTimer = setTimeout(() => resift(form), 150);
}
