// Buttons that cannot be pressed by accident: dead for a moment after what they decide about has appeared, so that the
// second press of a double click decides nothing about the next request; and, where there is something to be read to its
// end, until the end was on the screen.
const DEAD = 400;

export function arm(place) {
  const buttons = [...place.querySelectorAll("button[data-arming]:not([data-since])")];
  for (const button of buttons) {
    button.dataset.since = "Infinity";
    button.setAttribute("aria-disabled", "true");
  }
  // From the moment it is painted: until then nobody can have seen it, however slow the machine.
  requestAnimationFrame(() => {
    for (const button of buttons) {
      button.dataset.since = String(performance.now());
      if (button.dataset.reads) reads(button);
      setTimeout(() => button.dataset.reads || button.removeAttribute("aria-disabled"), DEAD);
    }
  });
}

function reads(button) {
  const note = button.closest(".decide").querySelector(".unread");
  note.hidden = false;
  const seen = new IntersectionObserver((entries) => {
    if (!entries.some((entry) => entry.isIntersecting)) return;
    seen.disconnect();
    delete button.dataset.reads;
    note.hidden = true;
    const rest = DEAD - (performance.now() - Number(button.dataset.since));
    setTimeout(() => button.removeAttribute("aria-disabled"), Math.max(0, rest));
  });
  seen.observe(document.getElementById(button.dataset.reads));
}

export function armed(button) {
  return !button.dataset.reads && performance.now() - Number(button.dataset.since ?? "Infinity") >= DEAD;
}
