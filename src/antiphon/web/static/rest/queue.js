// The queue beside a question: which of its rows are shown, in which order, and which are selected.
import { selected } from "../places.js";
import { sifted } from "../sifting.js";

// What is drawn, if it is drawn as it is sifted now: then the rows that have changed since are enough.
export function drawn(queue) {
  return queue.dataset.sifting === sifted("/").slice(1) ? queue.dataset.version : "";
}

// What is typed, selected and held stays, as long as it is about the same; and the list stays where it was scrolled to.
function keeping(queue, change) {
  const top = queue.scrollTop;
  const on = document.activeElement;
  const held = queue.contains(on) ? { row: on.dataset.row, ask: on.name === "ask" && on.value } : {};
  const chosen = new Set(selected().map((box) => box.value));
  const done = change();
  for (const box of chosen.size ? queue.querySelectorAll("[name=ask]") : []) if (chosen.has(box.value)) box.checked = true;
  if (!on.isConnected) {
    const again = held.row ? `[data-row="${CSS.escape(held.row)}"]` : held.ask ? `[value="${CSS.escape(held.ask)}"]` : "";
    if (again) queue.querySelector(again)?.focus({ preventScroll: true });
  }
  queue.scrollTop = top;
  return done;
}

function swap(queue, fresh, names) {
  for (const name of names) queue.querySelector(name).replaceWith(document.adoptNode(fresh.querySelector(name)));
  const { pending, version } = fresh.dataset;
  Object.assign(queue.dataset, { pending, version });
  queue.querySelector("#sift").hidden = pending === "0" && sifted("/") === "/";
}

// All rows anew.
export function renew(queue, fresh, as) {
  keeping(queue, () => swap(queue, fresh, ["h1", "#nothing", "#beyond", "#rows"]));
  queue.dataset.sifting = as;
}

// Only the rows that have changed. False where they do not fit what is drawn, so that all has to be fetched.
export function change(queue, changes) {
  const list = queue.querySelector("#rows");
  return keeping(queue, () => {
    // From the last to the first: what a group stands before is in its place already.
    for (const fresh of [...changes.querySelectorAll("[data-group]")].reverse()) if (!regroup(list, fresh)) return false;
    swap(queue, changes, ["h1", "#nothing", "#beyond"]);
    return true;
  });
}

function named(list, key) {
  return list.querySelector(`:scope > [data-group="${CSS.escape(key)}"]`);
}

function regroup(list, fresh) {
  const { group: key, before, rows } = fresh.dataset;
  const old = named(list, key);
  if (rows === undefined) {
    old?.remove();
    return true;
  }
  const next = before ? named(list, before) : null;
  if (before && !next) return false;
  const all = [...(old?.querySelectorAll("li") ?? []), ...fresh.querySelectorAll("li")];
  const known = new Map(all.map((row) => [row.querySelector("[data-row]").dataset.row, row]));
  const wanted = rows.split(" ").map((id) => known.get(id));
  if (wanted.includes(undefined)) return false;
  const group = old ?? document.adoptNode(fresh);
  if (old) group.querySelector("h2").replaceWith(document.adoptNode(fresh.querySelector("h2")));
  settle(group.querySelector("ul"), wanted);
  if (group.nextElementSibling !== next || !group.parentElement) list.insertBefore(group, next);
  return true;
}

// What stands where it shall is not touched: it keeps the focus, and nothing of it is laid out again.
function settle(place, wanted) {
  const stay = new Set(wanted);
  for (const row of [...place.children]) if (!stay.has(row)) row.remove();
  wanted.forEach((row, at) => {
    if (place.children[at] !== row) place.insertBefore(document.adoptNode(row), place.children[at] ?? null);
  });
}
