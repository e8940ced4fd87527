// The queue beside a question: which of its rows are shown, in which order, and which are selected.
// How the queue is narrowed and sorted goes with every page that shows it, until it is changed.
let sifting = document.getElementById("queue")?.dataset.sifting ?? "";

export function sifted(path, part) {
  return part === "detail" || !/^\/(review\/[^/?]+)?$/.test(path) ? path : path + sifting;
}

// What is drawn, if it is drawn as it is sifted now: then the rows that have changed since are enough.
export function drawn(queue) {
  return queue.dataset.sifting === sifting ? queue.dataset.version : "";
}

export function selected() {
  return [...document.querySelectorAll("#rows [name=ask]:checked")];
}

// Take what is typed and chosen.
export function sift(form) {
  const wanted = form.elements.wanted.value.trim();
  const { order, only } = form.elements;
  const plainly = !wanted && order.selectedIndex === 0 && !only.value;
  const asked = { wanted, order: order.value, ...(only.value && { only: only.value }) };
  sifting = plainly ? "" : `?${new URLSearchParams(asked)}`;
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
  queue.querySelector("#sift").hidden = pending === "0" && !sifting;
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
