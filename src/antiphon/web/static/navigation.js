// Moving from one place of the page to another. Between two questions only the question is fetched: the queue beside it
// stays as it is. Of several ways that are under way, the last one counts, whichever answer comes first.
import { arm } from "./consent/arming.js";
import { flush, kept } from "./drafts.js";
import { complete } from "./later.js";
import { detail, inSight, lost, parsed, rows, view } from "./places.js";
import { sifted } from "./sifting.js";
import { watchTexts } from "./consent/seen.js";
import { ask } from "./session.js";

let turn = 0;
let underway = null;
let drawnPath = location.pathname + location.search;

// Tells later whether somebody has gone elsewhere since.
export function here() {
  const mine = turn;
  return () => mine === turn;
}

// What is being left can be read still, and nothing of it be pressed: buttons and keys belong to what is drawn.
function freeze() {
  const old = detail();
  if (!old) return;
  old.inert = true;
  old.setAttribute("aria-busy", "true");
}

function thaw() {
  const old = detail();
  if (!old) return;
  old.inert = false;
  old.removeAttribute("aria-busy");
  current(location.pathname);
}

export function shown() {
  arm(view());
  watchTexts();
  document.dispatchEvent(new Event("shown"));
  document.querySelector(".skip[href='#detail']").hidden = !detail();
  first();
  prepare();
}

// Where there is room beside the queue, the first that waits is shown without being asked for; not if somebody is on the
// way elsewhere.
export function first() {
  const path = rows()[0]?.pathname;
  if (!path || underway !== null || !document.querySelector(".two.alone > .empty")) return;
  if (matchMedia("(min-width: 60rem)").matches) go(path, { replace: true, focus: false });
}

export async function get(path, part, more = {}) {
  const answer = await ask(sifted(path, part), { headers: part ? { "X-Part": part, ...more } : {} });
  return parsed(await answer.text());
}

// The question after this one is fetched before it is asked for; once it has changed, what was fetched is forgotten.
const ahead = new Map();

// As the first one is, when it comes with the page itself.
const given = document.getElementById("ahead");
if (given) ahead.set(given.dataset.path, given.content);

export function prepare() {
  const path = following();
  if (path === "/" || ahead.has(path) || !detail()?.dataset.id) return;
  ahead.clear();
  // With what was just typed about it.
  ahead.set(path, kept(path).then(() => get(path, "detail")).catch(() => null));
}

export function forget(changed = null) {
  for (const path of ahead.keys()) if (!changed || changed.has(path.split("/")[2])) ahead.delete(path);
}

async function fetched(path) {
  const kept = ahead.get(path);
  ahead.delete(path);
  return (await kept) ?? get(path, "detail");
}

export function current(path) {
  const id = path.startsWith("/review/") ? path.split("/")[2] : "";
  for (const row of document.querySelectorAll("#queue [data-row][aria-current]"))
    if (row.dataset.row !== id) row.removeAttribute("aria-current");
  const row = id && document.querySelector(`#queue [data-row="${CSS.escape(id)}"]`);
  if (!row) return;
  row.setAttribute("aria-current", "true");
  row.scrollIntoView({ block: "nearest" });
}

// Where to go once this question, or those that are named, are decided: the one after it, else before it, else the queue.
export function following(gone = new Set([detail()?.dataset.id])) {
  const all = rows();
  const at = all.findIndex((row) => row.dataset.row === detail()?.dataset.id);
  const stays = (row) => !gone.has(row.dataset.row);
  const near = at < 0 ? null : (all.slice(at).find(stays) ?? all.slice(0, at).findLast(stays));
  return near ? near.pathname : "/";
}

export async function go(path, { push = true, replace = false, focus = true } = {}) {
  const mine = ++turn;
  underway = path;
  const typed = kept(path);
  const inside = /^\/review\/[^/]+$/.test(path) && document.getElementById("queue");
  if (inside) current(path);
  freeze();
  try {
    await typed;
    if (!inside) await complete;
    const page = await (inside ? fetched(path) : get(path, ""));
    if (mine !== turn) return;
    if (replace) history.replaceState(null, "", path);
    else if (push) history.pushState(null, "", path);
    drawnPath = location.pathname + location.search;
    draw(page, inside && page.getElementById("detail"));
    underway = null;
    shown();
    if (focus) (view().querySelector("#detail:not(.empty) h1, h1") || view()).focus({ preventScroll: true });
    scrollTo(0, 0);
  } catch (error) {
    if (mine === turn) thaw();
    lost(error);
  } finally {
    if (mine === turn) underway = null;
  }
}

// Back and forward. A link within the page says the same of itself, but leads nowhere else: what is drawn stays.
export function back() {
  const path = location.pathname + location.search;
  if (path !== drawnPath || underway !== null) go(path, { push: false });
}

function draw(page, found) {
  if (found) {
    document.querySelector(".two").classList.remove("alone");
    detail().replaceWith(document.adoptNode(found));
    return;
  }
  view().replaceChildren(...[...page.getElementById("view").childNodes].map((node) => document.adoptNode(node)));
  document.title = page.title;
  marked(page);
}

function marked(page) {
  const now = page.querySelector(".top nav [aria-current]")?.getAttribute("href");
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.getAttribute("href") === now) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  inSight();
}

// The form in which a question is edited takes its place, at the same address.
export async function edit(path) {
  const mine = ++turn;
  freeze();
  try {
    await Promise.all([flush(), complete]);
    const found = (await get(path, "detail")).getElementById("detail");
    if (mine !== turn) return;
    detail().replaceWith(document.adoptNode(found));
    arm(detail());
    watchTexts();
    document.dispatchEvent(new Event("shown"));
    (detail().querySelector("[name^=text-]") ?? detail().querySelector("textarea, input:not([type=hidden])"))?.focus();
  } catch (error) {
    if (mine === turn) thaw();
    lost(error);
  }
}
