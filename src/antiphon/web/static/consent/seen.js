// How much of each text has been on the screen. What was not is named on the button that would let it pass.
const BIN = 100;

const seen = new WeakMap();

// The characters that are in the page, and those that it has not fetched.
const missing = (text) => Number(text.nextElementSibling?.querySelector("[data-rest]")?.dataset.left ?? 0);
const loaded = (text) => Math.max(1, Number(text.dataset.size) - missing(text));

function bins(text) {
  const known = seen.get(text) ?? new Uint8Array(Math.ceil(Number(text.dataset.size) / BIN) || 1);
  seen.set(text, known);
  return known;
}

function look(text, top, bottom) {
  const place = text.getBoundingClientRect();
  if (!place.height || !text.checkVisibility()) return;
  const first = text.scrollTop + Math.max(0, top - place.top);
  const last = text.scrollTop + Math.min(place.bottom, bottom) - place.top;
  const perPixel = loaded(text) / text.scrollHeight;
  // A line that is cut by an edge counts as seen: its middle is what matters.
  const [from, to] = [(first - 8) * perPixel, (last + 8) * perPixel].map((at) => at / BIN);
  if (last > first) bins(text).fill(1, Math.max(0, Math.round(from)), Math.ceil(Math.min(to, loaded(text) / BIN)));
}

export const texts = (place) => [...place.querySelectorAll("[data-size]")].filter((text) => !text.closest(".raw, #piece"));

export function unseen(place) {
  return texts(place).reduce((sum, text) => {
    const size = Number(text.dataset.size);
    const rest = bins(text).reduce((left, bin, at) => left + (bin ? 0 : Math.min(BIN, size - at * BIN)), 0);
    return sum + Math.max(rest, missing(text));
  }, 0);
}

export const spelled = (count) => count.toLocaleString(document.documentElement.lang);

let soon = 0;

// The head and the bar at the bottom cover what is behind them.
function looked() {
  soon = 0;
  if (document.visibilityState !== "visible") return;
  const view = document.getElementById("view");
  const covers = [...view.querySelectorAll(".dock, .decide, .tray")].map((each) => each.getBoundingClientRect());
  const bottom = Math.min(innerHeight, ...covers.filter((place) => place.height && place.bottom >= innerHeight - 2).map((place) => place.top));
  const top = Math.max(0, document.querySelector(".top").getBoundingClientRect().bottom);
  for (const text of texts(view)) look(text, top, bottom);
  for (const note of view.querySelectorAll("#detail [data-unseen]")) {
    const count = unseen(document.getElementById("detail"));
    const said = count ? document.body.dataset.unseen.replace("%", spelled(count)) : "";
    if (note.textContent !== said) note.textContent = said;
  }
  document.dispatchEvent(new Event("seen"));
}

export function watchTexts() {
  soon ||= requestAnimationFrame(looked);
}

for (const happens of ["scroll", "resize", "toggle", "visibilitychange"])
  addEventListener(happens, watchTexts, { capture: true, passive: true });
