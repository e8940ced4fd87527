// The page's one script: moving about, sending decisions, keys. It never makes HTML of anything but our own answers.
import { follow } from "./live.js";
import { arm, armed } from "./arming.js";
import { tick } from "./clock.js";
import { ready } from "./notify.js";
import { renew, selected, sift, sifted } from "./queue.js";
import { ask, bring, plain, save } from "./session.js";

const view = () => document.getElementById("view");
const detail = () => document.getElementById("detail");
const csrf = () => document.querySelector("meta[name=csrf]").content;
const rows = () => [...document.querySelectorAll("#queue [data-row]")];
let going = 0;
let news = null;

function parsed(text) {
  return new DOMParser().parseFromString(text, "text/html");
}

function say(text) {
  document.getElementById("said").textContent = text;
}

export function banner(text) {
  const place = document.getElementById("banner");
  if (place.textContent !== text) place.textContent = text;
  place.hidden = !text;
}

// What is being left can be read still, and nothing of it be pressed: buttons and keys belong to what is drawn.
function freeze() {
  const old = detail();
  if (!old) return;
  old.inert = true;
  old.setAttribute("aria-busy", "true");
}

function thaw() {
  const old = detail();
  if (!old) return;
  old.inert = false;
  old.removeAttribute("aria-busy");
  current(location.pathname);
}

function shown() {
  arm(view());
  if (plain) bring(view()).catch(lost);
  document.querySelector(".skip[href='#detail']").hidden = !detail();
  news?.recount();
  tick();
  ready();
  first();
  prepare();
}

// Where there is room beside the queue, the first that waits is shown without being asked for.
function first() {
  const row = rows()[0];
  if (row && document.querySelector(".two.alone > .empty") && matchMedia("(min-width: 60rem)").matches)
    go(row.getAttribute("href"), { replace: true, focus: false });
}

async function get(path, part) {
  const answer = await ask(sifted(path, part), { headers: part ? { "X-Part": part } : {} });
  return parsed(await answer.text());
}

// The question after this one is fetched before it is asked for; as soon as anything changes, it is fetched anew.
const ahead = new Map();

function prepare() {
  const path = following();
  if (path === "/" || ahead.has(path) || !detail()?.dataset.id) return;
  ahead.clear();
  ahead.set(path, get(path, "detail").catch(() => null));
}

async function fetched(path) {
  const kept = ahead.get(path);
  ahead.delete(path);
  return (await kept) ?? get(path, "detail");
}

function current(path) {
  const id = path.startsWith("/review/") ? path.split("/")[2] : "";
  for (const row of rows()) {
    if (row.dataset.row === id) {
      row.setAttribute("aria-current", "true");
      row.scrollIntoView({ block: "nearest" });
    } else row.removeAttribute("aria-current");
  }
}

// Between two questions only the question is fetched: the queue beside it stays as it is.
export async function go(path, { push = true, replace = false, focus = true } = {}) {
  const turn = ++going;
  const inside = /^\/review\/[^/]+$/.test(path) && document.getElementById("queue");
  if (inside) current(path);
  freeze();
  try {
    const page = await (inside ? fetched(path) : get(path, ""));
    if (turn !== going) return;
    if (replace) history.replaceState(null, "", path);
    else if (push) history.pushState(null, "", path);
    const found = inside && page.getElementById("detail");
    if (found) {
      document.querySelector(".two").classList.remove("alone");
      detail().replaceWith(document.adoptNode(found));
    } else {
      view().replaceChildren(...[...page.getElementById("view").childNodes].map((node) => document.adoptNode(node)));
      document.title = page.title;
      marked(page);
    }
    shown();
    if (focus) (view().querySelector("#detail:not(.empty) h1, h1") || view()).focus({ preventScroll: true });
    scrollTo(0, 0);
  } catch (error) {
    if (turn === going) thaw();
    lost(error);
  }
}

function marked(page) {
  const now = page.querySelector(".top nav [aria-current]")?.getAttribute("href");
  for (const link of document.querySelectorAll(".top nav a")) {
    if (link.getAttribute("href") === now) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

function lost(error) {
  banner(error.message === "ended" ? document.body.dataset.ended : document.body.dataset.lost);
}

// Something has changed somewhere: the queue is fetched again, and the question if it is not what it was. One fetch at a
// time, and one more if anything changed meanwhile: of two at once, the older could arrive last and be what stays shown.
let refreshing = null;
let changed = false;

export function refresh() {
  changed = true;
  refreshing ??= (async () => {
    try {
      while (changed) {
        changed = false;
        await renewed();
      }
    } finally {
      refreshing = null;
    }
  })();
  return refreshing;
}

async function renewed() {
  ahead.clear();
  if (watched.size) outcomes();
  if (!document.getElementById("queue")) return;
  const path = location.pathname;
  const held = document.activeElement?.dataset?.row;
  const chosen = document.querySelector("#queue [aria-current]")?.dataset.row;
  try {
    const page = await get("/", "queue");
    const fresh = page.getElementById("queue");
    // Somebody went elsewhere meanwhile: what was fetched is for another place, and the change is still to be shown.
    if (path !== location.pathname) return void (changed = true);
    if (!fresh) return;
    renew(document.getElementById("queue"), fresh);
    const id = path.startsWith("/review/") ? path.split("/")[2] : "";
    rows().find((row) => row.dataset.row === (chosen ?? id))?.setAttribute("aria-current", "true");
    if (held) rows().find((row) => row.dataset.row === held)?.focus({ preventScroll: true });
    tick();
    first();
    if (id && detail()?.dataset.state === "pending" && !rows().some((row) => row.dataset.row === id) && !deciding()) await outdated(path);
  } catch (error) {
    lost(error);
  }
}

// Whoever decides here hears of it from the answer, which the news may overtake.
function deciding() {
  return document.querySelector("form[data-busy]") !== null;
}

async function outdated(path) {
  const found = (await get(path, "detail")).getElementById("detail");
  if (!found || path !== location.pathname || found.dataset.state === "pending" || deciding() || detail().inert) return;
  detail().replaceWith(document.adoptNode(found));
  say(detail().querySelector(".banner")?.textContent ?? "");
}

function fields(form, button) {
  const sent = new URLSearchParams(new FormData(form));
  if (button?.name) sent.append(button.name, button.value);
  return sent;
}

function problem(form, text) {
  const place = form.querySelector(".problem:not(.fault)") ?? form.closest(".decide, .further, section, li")?.querySelector(".problem");
  if (!place) return banner(text);
  place.textContent = text;
  place.hidden = !text;
  if (text && place.tabIndex === -1) place.focus();
}

function post(form, button) {
  const headers = { "X-CSRF-Token": csrf(), "X-Part": "answer", Accept: "application/json" };
  return ask(form.getAttribute("action"), { method: "POST", body: fields(form, button), headers });
}

async function send(form, button) {
  if (form.dataset.busy || form.closest("[inert]")) return;
  form.dataset.busy = "1";
  const next = form.id === "several" ? following(new Set(selected().map((box) => box.value.split(" ")[0]))) : following();
  // The news of this very decision would have it fetched anew; what it shows is checked by its hash in any case.
  const kept = ahead.get(next);
  try {
    const answer = await post(form, button);
    if (kept) ahead.set(next, kept);
    const told = await answer.json().catch(() => ({ problem: document.body.dataset.failed }));
    if (answer.ok) await sent(form, told, next);
    else problem(form, [told.problem, told.detail].filter(Boolean).join(" "));
  } catch (error) {
    lost(error);
  } finally {
    delete form.dataset.busy;
  }
  // Still here: what was held back meanwhile is shown now.
  if (form.isConnected) await refresh();
}

async function sent(form, told, next) {
  say(told.done);
  if (told.reload) return location.assign(told.reload);
  if (told.address) {
    const place = form.querySelector("output");
    place.textContent = told.address;
    place.hidden = false;
    return;
  }
  if (told.of) became(told);
  if ("undo" in form.dataset) offer("", 0);
  if (form.id === "several") {
    form.elements.reason.value = "";
    if (next === location.pathname) return refresh();
  }
  await go(form.dataset.then ?? next);
  await refresh();
}

// A permission can be taken back for a moment; then the page says what became of it, as soon as anybody knows.
const watched = new Map();

function became({ of, done, undo, seconds }) {
  watched.set(of, done);
  if (watched.size > 20) watched.delete(watched.keys().next().value);
  if (undo) offer(undo, seconds, done);
  for (const after of [seconds, seconds + 1, seconds + 3]) setTimeout(outcomes, after * 1000 + 200);
}

function offer(id, seconds, done = "") {
  const place = document.getElementById("undo");
  place.hidden = !id;
  place.action = id ? `/review/${id}/undo` : "";
  place.dataset.then = `/review/${id}`;
  place.querySelector("span").textContent = done;
  clearTimeout(Number(place.dataset.timer));
  if (id) place.dataset.timer = String(setTimeout(() => offer("", 0), seconds * 1000));
}

async function outcomes() {
  for (const [id, done] of [...watched]) {
    const answer = await ask(`/review/${id}/outcome`).catch(() => null);
    const { state, text } = answer?.ok ? await answer.json() : {};
    if (state === "pending" || state === "gone") watched.delete(id);
    if (!text || !watched.has(id)) continue;
    watched.delete(id);
    say(`${done} ${text}`);
  }
}

let typed = 0;

function draft(form) {
  clearTimeout(typed);
  typed = setTimeout(() => {
    const headers = { "X-CSRF-Token": csrf(), Accept: "application/json" };
    ask(form.dataset.draft, { method: "POST", body: fields(form), headers }).catch(lost);
  }, 300);
}

// Where to go once this question, or those that are named, are decided: the one after it, else before it, else the queue.
function following(gone = new Set([detail()?.dataset.id])) {
  const all = rows();
  const at = all.findIndex((row) => row.dataset.row === detail()?.dataset.id);
  const stays = (row) => !gone.has(row.dataset.row);
  const near = at < 0 ? null : (all.slice(at).find(stays) ?? all.slice(0, at).findLast(stays));
  return near ? near.getAttribute("href") : "/";
}

async function preview(form) {
  try {
    const answer = await post(form);
    if (!answer.ok) {
      const told = await answer.json();
      return problem(form, [told.problem, told.detail].filter(Boolean).join(" "));
    }
    problem(form, "");
    const found = parsed(await answer.text()).getElementById("preview");
    document.getElementById("preview").replaceWith(document.adoptNode(found));
    arm(found);
    found.scrollIntoView({ block: "start" });
    found.querySelector("h2").focus({ preventScroll: true });
  } catch (error) {
    lost(error);
  }
}

async function edit(path) {
  try {
    detail().replaceWith(document.adoptNode((await get(path, "detail")).getElementById("detail")));
    detail().querySelector("textarea, input")?.focus();
  } catch (error) {
    lost(error);
  }
}

document.addEventListener("click", (event) => {
  const link = event.target.closest("a[data-go]");
  if (link && event.button === 0 && !event.metaKey && !event.ctrlKey && !event.shiftKey) {
    event.preventDefault();
    go(link.getAttribute("href"));
  }
  const button = event.target.closest("[data-edit]");
  if (button) {
    event.preventDefault();
    edit(button.getAttribute("href"));
  }
  const file = plain && event.target.closest("a[download]");
  if (file) {
    event.preventDefault();
    save(file.getAttribute("href")).catch(lost);
  }
  if (event.target.closest("[data-help]")) document.getElementById("help").showModal();
});

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

function move(by) {
  const all = rows();
  const at = all.findIndex((row) => row.hasAttribute("aria-current"));
  const row = all[at < 0 ? 0 : at + by];
  if (row) go(row.getAttribute("href"));
}

// A panel that is opened by its key takes the focus; its summary gives it back when it is closed.
function fold(summary) {
  const place = summary.parentElement;
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
  const form = document.activeElement?.closest("form");
  const button = form?.querySelector("button.primary, button:not([formnovalidate])");
  if (button) form.requestSubmit(button);
}

const ACTIONS = {
  next: () => move(1),
  previous: () => move(-1),
  risk: () => nextRisk(),
  fold: () => document.querySelectorAll("#detail pre.long").forEach((text) => text.classList.toggle("whole")),
  filter: () => document.querySelector("#sift input")?.focus(),
  sort: () => {
    const order = document.querySelector("#sift select");
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
    if (selected().length) form.requestSubmit();
    else say(form.dataset.none);
  },
  history: () => go("/history"),
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
    const form = document.querySelector("#undo:not([hidden]), #detail form[action$='/undo']");
    form?.requestSubmit();
  },
  help: () => document.getElementById("help").showModal(),
};

let risk = -1;

function nextRisk() {
  const all = [...document.querySelectorAll("#detail mark, #detail .risky")];
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

document.addEventListener("keydown", (event) => {
  if (event.metaKey || event.altKey || event.repeat || event.isComposing || document.querySelector("dialog[open]")) return;
  const typing = event.target.closest?.("input:not([type=checkbox]), textarea, select, [contenteditable]");
  const key = (event.ctrlKey ? "Control+" : "") + event.key;
  const action = actions()[key];
  if (action === "close" || action === "send") {
    if (action === "send" && !typing) return;
    event.preventDefault();
    return action === "close" ? close() : submit();
  }
  if (typing || event.ctrlKey || !action) return;
  const scrolled = event.key.startsWith("Arrow") && !event.target.closest?.("#queue");
  if (scrolled) return;
  const button = document.querySelector(`#detail:not([inert]) [data-key="${CSS.escape(event.key)}"]`);
  if (!ACTIONS[action] && !button) return;
  event.preventDefault();
  if (ACTIONS[action]) ACTIONS[action]();
  else if (button.matches("summary")) fold(button);
  else button.click();
});

// What does not fit is said beside its field, and the first such field has the focus: the browser does that.
document.addEventListener(
  "invalid",
  (event) => {
    const place = event.target.closest(".field")?.querySelector(".fault");
    if (!place) return;
    place.textContent = event.target.validationMessage;
    place.hidden = false;
    event.target.setAttribute("aria-invalid", "true");
  },
  true,
);

let sought = 0;

function resift(form) {
  clearTimeout(sought);
  sift(form);
  refresh();
}

document.addEventListener("input", (event) => {
  const form = event.target.closest?.("form[data-sift]");
  if (form) {
    clearTimeout(sought);
    sought = setTimeout(() => resift(form), 150);
  }
  const editing = event.target.closest?.("form[data-draft]");
  if (editing) draft(editing);
  const place = event.target.closest?.(".field")?.querySelector(".fault");
  if (place) place.hidden = true;
  event.target.removeAttribute?.("aria-invalid");
});

addEventListener("popstate", () => go(location.pathname + location.search, { push: false }));
shown();
news = follow({ refresh, banner });
document.body.dataset.ready = "1";
