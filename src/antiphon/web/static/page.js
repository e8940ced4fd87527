// The page's first script: what a decision about a request needs. All else comes with rest.js, once the request is shown.
import { armed } from "./consent/arming.js";
import "./consent/prices.js";
import { send } from "./decisions.js";
import "./keys.js";
import { complete, later } from "./later.js";
import { back, edit, go, shown } from "./navigation.js";
import { lost } from "./places.js";
import { ask, doubt, fields } from "./session.js";

const ASKED = { several: "deny_marked", call: "stop", server: "block" };

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
});

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form.method === "dialog" || "leave" in form.dataset) return;
  event.preventDefault();
  const button = event.submitter;
  if (button?.hasAttribute("data-arming") && !armed(button)) return;
  // What reaches further than one request is named first, whether its button or its key was pressed.
  const reach = button?.name === "reach" ? button.value : form.id;
  if (reach in ASKED) return later("perform", ASKED[reach]);
  if ("post" in form.dataset) send(form, button);
  else if ("preview" in form.dataset) later("preview", form);
  else if ("sift" in form.dataset) later("resift", form);
  else if ("get" in form.dataset) go(`${form.getAttribute("action")}?${fields(form)}`);
});

addEventListener("popstate", back);
shown();
complete.catch(reloadSoon);

// A module that could not be fetched cannot be imported again. Who answers here by now may be somebody else, so it is to
// prove that it is not.
async function reloadSoon(error) {
  doubt();
  for (let last = error; ; ) {
    lost(last);
    if (last.message === "ended") return;
    await new Promise((done) => setTimeout(done, 1000));
    try {
      await ask("/");
      return location.reload();
    } catch (failed) {
      last = failed;
    }
  }
}
