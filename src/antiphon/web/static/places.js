// The parts of the page by their names, and the two places where it says something.
export const view = () => document.getElementById("view");
export const detail = () => document.getElementById("detail");
export const rows = () => [...document.querySelectorAll("#queue [data-row]")];
export const selected = () => [...document.querySelectorAll("#rows [name=ask]:checked")];
export const csrf = () => document.querySelector("meta[name=csrf]").content;

// The page never makes HTML of anything but the server's own answers.
export function parsed(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

// About whose request something is said, in the words of the server that made it, comes first.
export function say(text, about = "") {
  const subject = document.createElement("q");
  subject.className = "theirs";
  subject.textContent = about;
  document.getElementById("said").replaceChildren(...(about ? [subject, " "] : []), text);
}

export function banner(text) {
  const place = document.getElementById("banner");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

// Where there is no room for all views, the name of the one that is shown is in sight.
export function inSight() {
  const name = document.querySelector(".top nav [aria-current]");
  if (!name) return;
  const [place, around] = [name, name.closest("nav")].map((each) => each.getBoundingClientRect());
  name.closest("nav").scrollLeft += Math.max(0, place.right - around.right) - Math.max(0, around.left - place.left);
}

// What has ended stays so: a request that was sent before may fail later, and in another way.
export function lost(error) {
  const { ended, lost, stale } = document.body.dataset;
  const over = error.message === "ended" || document.getElementById("banner").textContent === ended;
  banner(over ? ended : error.message === "stale" ? stale : lost);
}
