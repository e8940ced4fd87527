// Several at once: what the one button would let pass is written on it, and only what was on the screen is ticked together.
import { parsed, say } from "../places.js";
import { ask } from "../session.js";
import { spelled, unseen } from "./seen.js";

const DOLLAR = 1e9;

// As `format_dollars` of the host writes it: rounded up, to cents or to two digits of less. A test compares both.
export function money(nano) {
  const step = 10 ** Math.min(7, Math.max(0, String(nano).length - 2));
  const rounded = Math.ceil(nano / step) * step;
  const rest = String(rounded % DOLLAR).padStart(9, "0").replace(/0+$/, "").padEnd(2, "0");
  return `$${Math.floor(rounded / DOLLAR).toLocaleString("en")}.${rest}`;
}

const boxes = (form) => [...form.querySelectorAll("[name=id]")];

function label() {
  const form = document.querySelector("form[data-together]");
  if (!form) return;
  form.querySelector("[data-tick-seen]").hidden = false;
  const chosen = boxes(form).filter((box) => box.checked);
  const { together, nothing, most, unseen: words } = document.body.dataset;
  const cost = chosen.reduce((sum, box) => sum + Number(box.dataset.most), 0);
  const left = chosen.reduce((sum, box) => sum + unseen(box.closest("fieldset")), 0);
  const models = [...new Set(chosen.map((box) => box.dataset.model))].join(", ");
  const parts = [models, cost && most.replace("%", money(cost)), left && words.replace("%", spelled(left))];
  const named = parts.map((part, at) => Object.assign(document.createElement("span"), { textContent: part || "", className: at ? "" : "yields" }));
  const button = form.querySelector("button.primary");
  button.querySelector("span").textContent = chosen.length ? together.replace("%", chosen.length) : nothing;
  button.querySelector("small").replaceChildren(...(chosen.length ? named : []));
}

// What does not wait any more, or is not as it is drawn, cannot be ticked: of several, all are approved or none.
export async function leaveOutSettled() {
  const form = document.querySelector("form[data-together]");
  if (!form || form.dataset.busy) return;
  const answer = await ask("/", { headers: { "X-Part": "queue" } });
  const queue = parsed(await answer.text()).getElementById("queue");
  const waiting = new Set([...(queue?.querySelectorAll("[name=ask]") ?? [])].map((each) => each.value));
  if (form.dataset.busy || !queue || Number(queue.dataset.pending) > waiting.size) return;
  const gone = boxes(form).filter((box) => !box.disabled && !waiting.has(`${box.value} ${form.elements[`hash-${box.value}`].value}`));
  for (const box of gone) {
    box.checked = false;
    box.disabled = true;
    box.closest("legend").append(Object.assign(document.createElement("span"), { className: "warning", textContent: form.dataset.gone }));
    box.closest("fieldset").classList.add("gone");
  }
  if (gone.length) say(form.dataset.gone);
  label();
}

document.addEventListener("seen", label);
document.addEventListener("input", (event) => event.target.closest?.("form[data-together]") && label());
document.addEventListener("click", (event) => {
  const form = event.target.closest("[data-tick-seen]")?.form;
  if (!form) return;
  for (const box of boxes(form)) if (!box.disabled && !unseen(box.closest("fieldset"))) box.checked = true;
  label();
});
