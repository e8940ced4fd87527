// The keys that decide nothing by themselves, and the list of all that has a key.
import { send } from "../decisions.js";
import { actions, ACTIONS, fold } from "../keys.js";
import { go } from "../navigation.js";
import { lost, rows, say, selected } from "../places.js";
import { resift } from "./refresh.js";
import { ask } from "../session.js";

const FURTHER = {
  history: () => go("/history"),
  yesterday: () => go("/history?day=yesterday"),
  grants: () => go("/grants"),
  spending: () => go("/spending"),
  model: () => {
    const pick = document.querySelector("#detail [data-models]");
    if (pick) return pick.focus();
    const place = document.getElementById("model");
    place?.scrollIntoView({ block: "start" });
    place?.focus({ preventScroll: true });
  },
  help: () => document.getElementById("help").showModal(),
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
    const title = document.getElementById("sure").dataset.title.replace("%", words.length);
    sure(title, words, form.querySelector("button.danger"), () => send(form));
  },
  stop: () => reach("call"),
  block: () => reach("server"),
  palette: () => offer(),
  export: () => document.querySelector("a[download][href*='.csv']")?.click(),
  risk: () => nextRisk(),
};

export const addActions = () => Object.assign(ACTIONS, FURTHER);

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

// What reaches further than one request is asked about once, with what it withdraws counted and named.
const NAMED = 10;

function sure(title, words, pressed, act) {
  const place = document.getElementById("sure");
  // Without the key that is written behind it.
  place.querySelector(".danger").textContent = pressed.firstChild.textContent.trim();
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
    if (button.isConnected && answer.ok) sure(title, about, button, () => button.isConnected && send(button.form, button));
  } catch (error) {
    lost(error);
  }
}

// What an action is about, where it is not on every page: only what would do something is offered.
const ABOUT = {
  next: "#queue [data-row]",
  previous: "#queue [data-row]",
  mark: "#rows",
  deny_marked: "#rows :checked",
  filter: "#sift",
  sort: "#sift",
  stop: "#detail button[name=reach][value=call]",
  block: "#detail button[name=reach][value=server]",
  model: "#model, #detail [data-models]",
  undo: "#undo form, #detail form[action^='/undo']",
  risk: "#detail mark, #detail .risky",
  fold: "#detail pre.long",
  export: "a[download][href*='.csv']",
};

// Everything that has a key, by its name; and the servers and requests that wait.
export function offer() {
  const place = document.getElementById("palette");
  const field = place.querySelector("input");
  const known = [...document.querySelectorAll("#help .keys > div")].map((row) => [row.querySelector("dd").textContent, row.dataset.action, row.querySelector("kbd").textContent]);
  const around = (action) => ABOUT[action] ?? (ACTIONS[action] ? "body" : `#detail:not([inert]) [data-key="${CSS.escape(keyOf(action))}"]`);
  const doable = ([, action]) => document.querySelector(around(action));
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
    // Of an input method, Enter and the arrows choose a word.
    if (event.isComposing) return;
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

export function perform(action) {
  if (ACTIONS[action]) return ACTIONS[action]();
  const button = document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(keyOf(action))}"]`);
  if (button?.matches("summary")) fold(button);
  else button?.click();
}
