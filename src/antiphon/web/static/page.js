// The page's one script: what is clicked, submitted, typed. Each kind of thing that follows has a module of its own.
import "./moments.js";
import "./asked.js";
import "./consent/alike.js";
import { armed } from "./consent/arming.js";
import { preview, send } from "./decisions.js";
import { draft } from "./drafts.js";
import { offer } from "./keys.js";
import { follow } from "./live.js";
import { back, edit, go, shown } from "./navigation.js";
import { outcomes } from "./consent/outcomes.js";
import { lost } from "./places.js";
import "./consent/prices.js";
import { refresh, resift, siftSoon } from "./refresh.js";
import { fields, plain, save } from "./session.js";
import { more } from "./texts.js";

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-go]");
  if (link && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
    event.preventDefault();
    // How the queue is sifted goes with a link for whoever has no script; here it is known.
    go(/^\/(review\/|$)/.test(link.pathname) ? link.pathname : link.getAttribute("href"));
  }
  const button = event.target.closest("[data-edit]");
  if (button) {
    event.preventDefault();
    edit(button.getAttribute("href"));
  }
  const take = event.target.closest("[data-take]");
  if (take) {
    event.preventDefault();
    suggest(take.closest("form"));
  }
  const rest = event.target.closest("[data-rest]");
  if (rest) {
    event.preventDefault();
    more(rest);
  }
  const file = plain && event.target.closest("a[download]");
  if (file) {
    event.preventDefault();
    save(file.getAttribute("href")).catch(lost);
  }
  if (event.target.closest("[data-palette]")) offer();
  if (event.target.closest("[data-help]")) document.getElementById("help").showModal();
});

// What the server suggests is put into the fields, where it is seen before it is sent.
function suggest(form) {
  for (const { dataset } of form.querySelectorAll("[data-suggests]")) {
    const values = JSON.parse(dataset.suggests);
    if (!values.length) continue;
    for (const control of form.querySelectorAll(`[name="${dataset.field}"]`)) {
      if (control.type === "checkbox") control.checked = values.includes(control.value);
      else control.value = values[0];
    }
  }
  draft(form);
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog") return;
  event.preventDefault();
  const button = event.submitter;
  if (button?.hasAttribute("data-arming") && !armed(button)) return;
  if ("post" in form.dataset) send(form, button);
  else if ("preview" in form.dataset) preview(form);
  else if ("sift" in form.dataset) resift(form);
  else if ("get" in form.dataset) go(`${form.getAttribute("action")}?${fields(form)}`);
});

// What does not fit is said beside its field, in the language of the page, and the first such field has the focus.
document.addEventListener(
  "invalid",
  (event) => {
    const place = event.target.closest(".field")?.querySelector(".fault");
    if (!place) return;
    const { needed, fits } = document.body.dataset;
    const { rule } = event.target.closest(".field").dataset;
    place.textContent = event.target.validity.valueMissing || !rule ? needed : fits.replace("%", rule);
    place.hidden = false;
    event.target.setAttribute("aria-invalid", "true");
  },
  true,
);

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-sift]");
  if (form) siftSoon(form);
  const editing = event.target.closest?.("form[data-draft]");
  if (editing) draft(editing);
  const place = event.target.closest?.(".field")?.querySelector(".fault");
  if (place) place.hidden = true;
  event.target.removeAttribute?.("aria-invalid");
});

addEventListener("popstate", back);
shown();
follow(async () => {
  outcomes();
  await refresh();
});
document.body.dataset.ready = "1";
// The fonts come last: whoever waits can read and decide without them. What stood in the page itself is then fetched as
// files, which the browser keeps for the pages that follow.
const fonts = Object.assign(document.createElement("link"), { rel: "stylesheet", href: document.body.dataset.fonts });
if (document.querySelector("head > style")) {
  fonts.onload = () => ["js", "css"].map((kind) => fetch(fonts.href.replace("fonts.css", `page.${kind}`)).catch(() => null));
}
document.head.append(fonts);
