// What a person does about a question, or with any other form: it is sent once, and what became of it is said.
import { discard } from "./drafts.js";
import { following, go, here } from "./navigation.js";
import { later } from "./later.js";
import { banner, detail, lost, say, selected } from "./places.js";
import { fields, post } from "./session.js";

export function problem(form, text) {
  const around = form.closest(".decide, .further, section, li");
  // The bar holds a folded menu with places of its own, which nobody would see.
  const place = form.querySelector(".problem:not(.fault)") ?? around?.querySelector(":scope > .problem") ?? around?.querySelector(".problem");
  if (!place) return banner(text);
  place.textContent = text;
  place.hidden = !text;
  if (text && place.tabIndex === -1) place.focus();
}

const SLOW = 1000;

// What was sent is not pressed again, nor anything against it, until the answer is there; that it is on its way is seen,
// and said where that takes long.
function hold(place, still) {
  const held = document.activeElement;
  const slow = setTimeout(() => still() && say(document.body.dataset.sending), SLOW);
  place?.setAttribute("aria-busy", "true");
  if (place) place.inert = true;
  return () => {
    clearTimeout(slow);
    if (document.getElementById("said").textContent === document.body.dataset.sending) say("");
    // Whoever has gone on meanwhile finds it held for that.
    if (!place?.inert || !still()) return;
    place.inert = false;
    place.removeAttribute("aria-busy");
    if (document.activeElement === document.body) held.focus({ preventScroll: true });
  };
}

export async function send(form, button) {
  if (form.dataset.busy || form.closest("[inert]")) return;
  form.dataset.busy = "1";
  const still = here();
  // Those that are ticked, or that a grant covers, are decided with it.
  const also = form.id === "several" ? selected() : [detail(), ...form.querySelectorAll("[name=also]")];
  const next = following(new Set(also.map((each) => each?.dataset.id ?? each?.value?.split(" ")[0])));
  const release = hold(form.closest("#detail") ?? button, still);
  try {
    const path = form.getAttribute("action").split("?")[0];
    if (path.endsWith("/draft")) await discard(path);
    const answer = await post(form.getAttribute("action"), fields(form, button));
    const told = await answer.json().catch(() => ({ problem: document.body.dataset.failed }));
    release();
    if (answer.ok) await sent(form, told, next, still);
    else problem(form, [told.problem, told.detail].filter(Boolean).join(" "));
  } catch (error) {
    release();
    lost(error);
  } finally {
    delete form.dataset.busy;
  }
  // Still here: what was held back meanwhile is shown now.
  if (form.isConnected) await later("refresh");
}

async function sent(form, told, next, still) {
  for (const each of (form.closest("li") ?? form).querySelectorAll(".problem")) each.hidden = true;
  say(told.done, told.about);
  if (told.reload) return location.assign(told.reload);
  if (told.address) {
    const place = form.querySelector("output");
    place.textContent = told.address;
    place.hidden = false;
    return;
  }
  if (told.of || "undo" in form.dataset) later("watch", told.seconds);
  if (form.id === "several") {
    form.elements.reason.value = "";
    if (next === location.pathname) return later("refresh");
  }
  // Whoever went on before the answer came stays where they are.
  if (still()) await go(form.dataset.then ?? next);
  await later("refresh");
}
