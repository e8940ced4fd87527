// How long a question still waits, and how long it has waited. Every second; the words come with the page.
const UNITS = [1, 60, 3600, 86400];

// How far the clock of this machine is ahead of the page's, which may run on another one.
const began = Date.now() - performance.now() + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const skew = began / 1000 - Number(document.body.dataset.now);

function left(seconds) {
  const minutes = Math.floor(seconds / 60);
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0");
  return minutes >= 60 ? `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

// In its largest unit, as it is written where it is drawn first.
function span(seconds, words) {
  const whole = Math.max(0, Math.floor(seconds));
  const at = Math.max(0, UNITS.findLastIndex((unit) => whole >= unit));
  return words[at].replace("%", Math.floor(whole / UNITS[at]));
}

function write(place, text) {
  if (place.textContent !== text) place.textContent = text;
}

export function tick(root = document) {
  const now = Date.now() / 1000 - skew;
  const { left: words, over, spans } = document.body.dataset;
  for (const clock of root.querySelectorAll(".clock[data-expires]")) {
    const seconds = Number(clock.dataset.expires) - now;
    write(clock, seconds > 0 ? ("bare" in clock.dataset ? "%" : words).replace("%", left(seconds)) : over);
  }
  const units = spans.split("|");
  for (const age of root.querySelectorAll("time[data-age]")) write(age, span(now - Number(age.dataset.age), units));
}

setInterval(() => tick(), 1000);
