// Buttons that cannot be pressed by accident: dead for a moment after what they decide about has appeared.
const DEAD = 400;

export function arm(place) {
  const since = performance.now();
  for (const button of place.querySelectorAll("button[data-arming]")) {
    if (button.dataset.since) continue;
    button.dataset.since = String(since);
    button.setAttribute("aria-disabled", "true");
    setTimeout(() => button.removeAttribute("aria-disabled"), DEAD);
  }
}

export function armed(button) {
  return performance.now() - Number(button.dataset.since ?? "Infinity") >= DEAD;
}
