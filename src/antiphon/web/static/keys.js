// The keys of the page: what each does is in one table for page and terminals, which comes with the page.
import { go } from "./navigation.js";
import { later } from "./later.js";
import { rows } from "./places.js";

function move(by) {
  const all = rows();
  const at = all.findIndex((row) => row.hasAttribute("aria-current"));
  const row = all[at < 0 ? 0 : at + by];
  if (row) go(row.pathname);
}

// A panel that is opened by its key takes the focus; its summary gives it back when it is closed.
export function fold(summary) {
  const place = summary.parentElement;
  for (let around = place.parentElement.closest("details"); around; around = around.parentElement.closest("details")) around.open = true;
  place.open = !place.open || place.querySelector("form") !== null;
  place.querySelector("input:not([type=hidden], [type=checkbox]), textarea, select")?.focus();
}

function close() {
  const place = document.activeElement?.closest("details[data-fold][open]");
  if (place) {
    place.open = false;
    place.querySelector("summary").focus();
  } else if (document.querySelector("[data-editing]")) go(location.pathname, { push: false });
  else document.activeElement?.blur();
}

function submit() {
  const form = document.activeElement?.closest("form") ?? document.querySelector("#preview form");
  const buttons = [...(form?.elements ?? [])].filter((one) => one.type === "submit" && !one.formNoValidate);
  const button = buttons.find((one) => one.matches(".primary")) ?? buttons[0];
  if (button) form.requestSubmit(button);
}

const undoable = () => document.querySelector("#undo form, #detail form[action^='/undo']");
const undone = (form = undoable()) => form && new FormData(form).getAll("of").join();

// Those that decide nothing come later, with the rest of the script.
export const ACTIONS = {
  next: () => move(1),
  previous: () => move(-1),
  fold: () => document.querySelectorAll("#detail pre.long").forEach((text) => text.classList.toggle("whole")),
  filter: () => document.querySelector("#sift input")?.focus(),
  // Taken back is what could be taken back when the key was pressed: its time may be up since, and another's not.
  undo: (meant = undone()) => meant && undone() === meant && undoable().requestSubmit(),
};

// Keys and what they do are one table for page and terminals: it comes with the page.
export function actions() {
  const words = document.body.dataset.keys.split(" ");
  return Object.fromEntries(words.flatMap((word, at) => (at % 2 ? [] : [[word, words[at + 1]]])));
}

// Letters that follow one another quickly are a word, typed by somebody who takes another place for a field: nothing is
// decided by them, and nowhere is gone to.
const QUICK = 120;
const HARMLESS = new Set("next previous risk fold raw more mark filter sort model reason answer grant help".split(" "));
const DECIDING = new Set(["approve", "deny", "cancel"]);
const ASKING = new Set(["stop", "block", "deny_marked"]);

// A field may go while somebody types in it, as when the request is decided elsewhere. What is typed on is part of that
// text, until there is a pause.
const TYPING = 1000;

let before = -Infinity;
let typed = 0;
let field = null;
let typedAt = -Infinity;

function typesOn(event) {
  const goesOn = field && !field.isConnected && event.timeStamp - typedAt < TYPING;
  if (goesOn) typedAt = event.timeStamp;
  return goesOn;
}

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  if (typing) [field, typedAt] = [typing, event.timeStamp];
  if (event.metaKey || event.altKey || event.repeat || event.isComposing || document.querySelector("dialog[open]")) return;
  const key = (event.ctrlKey ? "Control+" : "") + event.key;
  const action = actions()[key];
  if (action === "palette") {
    event.preventDefault();
    return later("offer");
  }
  if (action === "close" || action === "send") {
    if (action === "send" && !typing && !event.target.closest?.("#detail form, #preview")) return;
    event.preventDefault();
    field = null;
    return action === "close" ? close() : submit();
  }
  const letter = !typing && !event.ctrlKey && event.key.length === 1;
  const quick = letter && event.timeStamp - before < QUICK;
  // One that decides nothing begins no word.
  if (letter && (quick || !HARMLESS.has(action))) before = event.timeStamp;
  if (letter) clearTimeout(typed);
  if (typing || event.ctrlKey || !action || typesOn(event)) return;
  const scrolled = event.key.startsWith("Arrow") && !event.target.closest?.("#queue");
  if (scrolled) return;
  const find = () => document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(event.key)}"]`);
  const button = find();
  const coming = !ACTIONS.palette && !DECIDING.has(action);
  if (!ACTIONS[action] && !button && !coming) return;
  event.preventDefault();
  const meant = action === "undo" ? undone() : undefined;
  const act = () => {
    if (ACTIONS[action]) ACTIONS[action](meant);
    else if (!button || ASKING.has(action)) later("perform", action);
    else if (button.matches("summary")) fold(button);
    else if (button.isConnected && find() === button) button.click();
  };
  if (!letter || HARMLESS.has(action)) act();
  else if (!quick || ASKING.has(action)) typed = setTimeout(act, QUICK);
});
