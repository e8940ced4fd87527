// How the queue is narrowed and sorted goes with every page that shows it, until it is changed.
let sifting = document.getElementById("queue")?.dataset.sifting ?? "";

export function sifted(path, part) {
  return part === "detail" || !/^\/(review\/[^/?]+)?$/.test(path) ? path : path + sifting;
}

// Take what is typed and chosen.
export function sift(form) {
  const wanted = form.elements.wanted.value.trim();
  const { order, only } = form.elements;
  const plainly = !wanted && order.selectedIndex === 0 && !only.value;
  const asked = { wanted, order: order.value, ...(only.value && { only: only.value }) };
  sifting = plainly ? "" : `?${new URLSearchParams(asked)}`;
}
