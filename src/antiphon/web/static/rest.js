// The rest of the page's script: all that nobody needs to decide about the first request.
import "./rest/moments.js";
import "./rest/asked.js";
import "./consent/alike.js";
import { arm } from "./consent/arming.js";
import { outcomes, watch } from "./consent/outcomes.js";
import { tick } from "./rest/clock.js";
import { draft } from "./drafts.js";
import { bring, save } from "./rest/files.js";
import { addActions, offer, perform } from "./rest/further_keys.js";
import { inPage, later, supply } from "./later.js";
import { follow, recount } from "./rest/live.js";
import { ready } from "./notify.js";
import { lost, parsed, view } from "./places.js";
import { dropPreview, preview } from "./rest/preview.js";
import { refresh, resift, siftSoon } from "./rest/refresh.js";
import { ask, plain } from "./session.js";
import { copyable, more } from "./rest/texts.js";

document.addEventListener("click", (event) => {
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
  if (event.target.closest("[data-palette]")) later("offer");
  if (event.target.closest("[data-help]")) later("perform", "help");
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
  if (editing && "preview" in editing.dataset) dropPreview();
  const place = event.target.closest?.(".field")?.querySelector(".fault");
  if (place) place.hidden = true;
  event.target.removeAttribute?.("aria-invalid");
});

function show() {
  copyable(view());
  recount();
  tick();
  ready();
  if (plain) bring(view()).catch(lost);
}

document.addEventListener("shown", show);
show();

// A page that was opened leaves out what only a script opens, and the other decisions about its request: they are taken
// from the page that anybody gets who asks again.
const given = document.getElementById("ahead");

async function fill() {
  const page = parsed(await (await ask(given?.dataset.path ?? "/")).text());
  const fresh = page.getElementById("detail");
  document.getElementById("dialogs").replaceWith(document.adoptNode(page.getElementById("dialogs")));
  for (const around of given ? [document, given.content] : []) {
    const place = around.querySelector(`#detail[data-hash="${fresh?.dataset.hash}"] .further:empty`);
    const further = place && fresh.querySelector(".further");
    if (!further) continue;
    place.replaceWith(document.adoptNode(further));
    if (around === document) arm(further);
  }
}

async function fillSoon() {
  for (;;) {
    try {
      return await fill();
    } catch (error) {
      if (error.message === "ended") return lost(error);
      await new Promise((done) => setTimeout(done, 1000));
    }
  }
}

const filled = (inPage ? fillSoon() : Promise.resolve()).then(addActions);
const withDialogs = (act) => (value) => filled.then(() => act(value));
supply({ offer: withDialogs(offer), perform: withDialogs(perform), outcomes, preview, refresh, resift, watch });
follow(async () => {
  outcomes();
  await refresh();
});
document.body.dataset.ready = "1";
// The fonts come last: whoever waits can read and decide without them. What stood in the page itself is then fetched as
// files, which the browser keeps for the pages that follow.
const { files } = document.body.dataset;
const fonts = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${files}/fonts.css` });
if (inPage) fonts.onload = () => ["js", "css"].map((kind) => fetch(`${files}/page.${kind}`).catch(() => null));
document.head.append(fonts);
