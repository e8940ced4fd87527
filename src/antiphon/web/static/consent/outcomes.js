// What was decided here last, and what became of each: a list that the page sends, renewed whenever something may have changed.
import { lost, parsed } from "../places.js";
import { ask } from "../session.js";

let asking = false;
let again = false;

export async function outcomes() {
  again = true;
  if (asking) return;
  asking = true;
  try {
    while (again) {
      again = false;
      const answer = await ask("/outcomes");
      if (answer.ok) renewOutcomes(parsed(await answer.text()).getElementById("outcomes"));
    }
  } catch (error) {
    lost(error);
  } finally {
    asking = false;
  }
}

// Whatever is not known yet is asked for again, and a button is gone once it is too late to press it.
function renewOutcomes(fresh) {
  const old = document.getElementById("outcomes");
  if (!fresh || !old || old.querySelector("[data-busy]")) return;
  const held = old.contains(document.activeElement) && document.activeElement.closest("li")?.dataset.of;
  // What went wrong stays said beside what it was about; as a part of the list, so that it is not read out again.
  const wrong = new Map([...old.querySelectorAll(".problem:not([hidden])")].map((each) => [each.closest("li").dataset.of, each]));
  const opened = new Set([...old.querySelectorAll("details[open]")].map((each) => each.closest("li").dataset.of));
  old.replaceWith(document.adoptNode(fresh));
  for (const each of fresh.querySelectorAll("li[data-of]")) {
    if (opened.has(each.dataset.of)) each.querySelector("details").open = true;
    if (wrong.has(each.dataset.of)) keep(each, wrong.get(each.dataset.of));
    if (held === each.dataset.of) each.querySelector("button, summary")?.focus({ preventScroll: true });
  }
  for (const form of fresh.querySelectorAll("[data-seconds]")) setTimeout(outcomes, Number(form.dataset.seconds) * 1000 + 200);
}

function keep(entry, told) {
  told.removeAttribute("role");
  entry.querySelector(".problem")?.remove();
  entry.append(told);
}

export function watch(seconds = 0) {
  outcomes();
  for (const after of [1, 3]) setTimeout(outcomesIfOpen, (seconds + after) * 1000);
}

export function outcomesIfOpen() {
  if (document.querySelector("#outcomes [data-open]")) outcomes();
}
