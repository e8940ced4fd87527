// The keys of the page: what each does is in one table for page and terminals, which comes with the page.
import { go } from "./navigation.js";
import { lost, rows, say } from "./places.js";
import { selected } from "./queue.js";
import { resift } from "./refresh.js";
import { ask } from "./session.js";

function move(by) {
  const all = rows();
  const at = all.findIndex((row) => row.hasAttribute("aria-current"));
  const row = all[at < 0 ? 0 : at + by];
  if (row) go(row.pathname);
}

// A panel that is opened by its key takes the focus; its summary gives it back when it is closed.
function fold(summary) {
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

const ACTIONS = {
  next: () => move(1),
  previous: () => move(-1),
  risk: () => nextRisk(),
  fold: () => document.querySelectorAll("#detail pre.long").forEach((text) => text.classList.toggle("whole")),
  filter: () => document.querySelector("#sift input")?.focus(),
  sort: () => {
    const order = document.querySelector("#sift [name=order]");
    if (!order) return;
    order.selectedIndex = (order.selectedIndex + 1) % order.length;
    say(order.selectedOptions[0].textContent);
    resift(order.form);
  },
  mark: () => {
    const at = document.activeElement?.closest("#rows li") ?? document.querySelector("#rows [aria-current]")?.closest("li");
    at?.querySelector("[name=ask]").click();
  },
  deny_marked: () => {
    const form = document.getElementById("several");
    if (!form) return;
    const words = selected().map((box) => box.closest("li").querySelector(".summary").textContent);
    if (!words.length) return say(form.dataset.none);
    sure(document.getElementById("sure").dataset.title.replace("%", words.length), words, () => form.requestSubmit());
  },
  stop: () => reach("call"),
  block: () => reach("server"),
  history: () => go("/history"),
  yesterday: () => go("/history?day=yesterday"),
  export: () => document.querySelector("a[download][href*='.csv']")?.click(),
  grants: () => go("/grants"),
  spending: () => go("/spending"),
  model: () => {
    const pick = document.querySelector("#detail [data-models]");
    if (pick) return pick.focus();
    const place = document.getElementById("model");
    place?.scrollIntoView({ block: "start" });
    place?.focus({ preventScroll: true });
  },
  undo: () => {
    const form = document.querySelector("#undo form, #detail form[action^='/undo']");
    form?.requestSubmit();
  },
  help: () => document.getElementById("help").showModal(),
  palette: () => offer(),
};

// What reaches further than one request is asked about once, with what it withdraws counted and named.
const NAMED = 10;

function sure(title, words, act) {
  const place = document.getElementById("sure");
  place.querySelector("h2").textContent = title;
  const more = words.length - NAMED;
  place.querySelector("p").textContent = more > 0 ? place.dataset.more.replace("%", more) : "";
  place.querySelector("ul").replaceChildren(
    ...words.slice(0, NAMED).map((text) => Object.assign(document.createElement("li"), { textContent: text })),
  );
  place.returnValue = "";
  place.onclose = () => place.returnValue === "yes" && act();
  place.showModal();
}

async function reach(far) {
  const button = document.querySelector(`#detail:not([inert]) button[name=reach][value="${far}"]`);
  if (!button) return;
  const { id } = document.getElementById("detail").dataset;
  try {
    const answer = await ask(`/review/${id}/withdrawn?reach=${far}`);
    const { title, about } = await answer.json();
    if (button.isConnected && answer.ok) sure(title, about, () => button.isConnected && button.click());
  } catch (error) {
    lost(error);
  }
}

// Everything that has a key, by its name; and the servers and requests that wait.
export function offer() {
  const place = document.getElementById("palette");
  const field = place.querySelector("input");
  const known = [...document.querySelectorAll("#help .keys > div")].map((row) => [row.querySelector("dd").textContent, row.dataset.action, row.querySelector("kbd").textContent]);
  const doable = ([, action]) => ACTIONS[action] || document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(keyOf(action))}"]`);
  const all = [
    ...known.filter(([, action]) => action !== "palette" && doable([0, action])).map(([text, action, key]) => [text, key, () => perform(action)]),
    ...[...document.querySelectorAll(".top nav a")].map((link) => [link.firstChild.textContent, "", () => link.click()]),
    ...rows().map((row) => [row.querySelector(".summary").textContent, row.closest(".group")?.querySelector(".who").textContent ?? "", () => go(row.pathname)]),
  ];
  const draw = () => {
    const words = field.value.toLowerCase().split(/\s+/);
    const found = all.filter(([text, more]) => words.every((word) => `${text} ${more}`.toLowerCase().includes(word))).slice(0, 9);
    place.querySelector("ul").replaceChildren(
      ...found.map(([text, more, act]) => {
        const [row, button, small] = ["li", "button", "small"].map((name) => document.createElement(name));
        small.textContent = more;
        button.append(Object.assign(document.createElement("span"), { textContent: text }), small);
        button.onclick = () => {
          place.close();
          act();
        };
        row.append(button);
        return row;
      }),
    );
  };
  field.value = "";
  field.oninput = draw;
  place.onkeydown = (event) => {
    const buttons = [...place.querySelectorAll("ul button")];
    const at = buttons.indexOf(document.activeElement);
    if (event.key === "ArrowDown") buttons[Math.min(at + 1, buttons.length - 1)]?.focus();
    else if (event.key === "ArrowUp") (buttons[at - 1] ?? field).focus();
    else if (event.key === "Enter" && at < 0) buttons[0]?.click();
    else return;
    event.preventDefault();
  };
  draw();
  place.showModal();
}

const keyOf = (action) => Object.entries(actions()).find(([, each]) => each === action)?.[0] ?? "";

function perform(action) {
  if (ACTIONS[action]) return ACTIONS[action]();
  const button = document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(keyOf(action))}"]`);
  if (button?.matches("summary")) fold(button);
  else button?.click();
}

let risk = -1;

function nextRisk() {
  // The raw data repeat what stands above them, and nobody can be led to what is folded away.
  const seen = (one) => !one.closest(".raw") && one.checkVisibility();
  const all = [...document.querySelectorAll("#detail mark, #detail .risky")].filter(seen);
  if (!all.length) return;
  all.forEach((one) => one.classList.remove("at"));
  risk = (risk + 1) % all.length;
  all[risk].classList.add("at");
  all[risk].scrollIntoView({ block: "center" });
}

// Keys and what they do are one table for page and terminals: it comes with the page.
function actions() {
  const words = document.body.dataset.keys.split(" ");
  return Object.fromEntries(words.flatMap((word, at) => (at % 2 ? [] : [[word, words[at + 1]]])));
}

// Letters that follow one another quickly are a word, typed by somebody who takes another place for a field: nothing is
// decided by them, and nowhere is gone to.
const QUICK = 120;
const HARMLESS = new Set("next previous risk fold raw more mark filter sort model reason answer grant help".split(" "));
const ASKING = new Set(["stop", "block", "deny_marked"]);

let before = -Infinity;
let later = 0;

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.altKey || event.repeat || event.isComposing || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  const key = (event.ctrlKey ? "Control+" : "") + event.key;
  const action = actions()[key];
  if (action === "palette") {
    event.preventDefault();
    return offer();
  }
  if (action === "close" || action === "send") {
    if (action === "send" && !typing && !event.target.closest?.("#detail form, #preview")) return;
    event.preventDefault();
    return action === "close" ? close() : submit();
  }
  const letter = !typing && !event.ctrlKey && event.key.length === 1;
  const quick = letter && event.timeStamp - before < QUICK;
  // One that decides nothing begins no word.
  if (letter && (quick || !HARMLESS.has(action))) before = event.timeStamp;
  if (letter) clearTimeout(later);
  if (typing || event.ctrlKey || !action) return;
  const scrolled = event.key.startsWith("Arrow") && !event.target.closest?.("#queue");
  if (scrolled) return;
  const find = () => document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(event.key)}"]`);
  const button = find();
  if (!ACTIONS[action] && !button) return;
  event.preventDefault();
  const act = () => {
    if (ACTIONS[action]) ACTIONS[action]();
    else if (button.matches("summary")) fold(button);
    else if (button.isConnected && find() === button) button.click();
  };
  if (!letter || HARMLESS.has(action)) act();
  else if (!quick || ASKING.has(action)) later = setTimeout(act, QUICK);
});
