// The queue beside a question: which of its rows are shown, in which order, and which are selected.
// How the queue is filtered and sorted goes with every page that shows it, until it is changed.
let sifting = location.pathname === "/" && /[?&](wanted|order)=/.test(location.search) ? location.search : "";

export function sifted(path, part) {
  return part === "detail" || !/^\/(review\/[^/?]+)?$/.test(path) ? path : path + sifting;
}

// The rows are taken from what was fetched; what is typed and selected stays, as long as it is about the same.
export function renew(queue, fresh) {
  const top = queue.scrollTop;
  const held = document.activeElement?.name === "ask" ? document.activeElement.value : null;
  const chosen = new Set(selected().map((box) => box.value));
  queue.dataset.pending = fresh.dataset.pending;
  queue.querySelector("#sift").hidden = fresh.querySelector("#sift").hidden;
  for (const part of ["h1", "#rows"]) queue.querySelector(part).replaceWith(document.adoptNode(fresh.querySelector(part)));
  for (const box of queue.querySelectorAll("[name=ask]")) {
    if (chosen.has(box.value)) box.checked = true;
    if (box.value === held) box.focus({ preventScroll: true });
  }
  queue.scrollTop = top;
}

export function selected() {
  return [...document.querySelectorAll("#rows [name=ask]:checked")];
}

// Take what is typed and chosen.
export function sift(form) {
  const wanted = form.elements.wanted.value.trim();
  const order = form.elements.order;
  const plainly = !wanted && order.selectedIndex === 0;
  sifting = plainly ? "" : `?${new URLSearchParams({ wanted, order: order.value })}`;
}
