// The texts of a request: each can be copied as it is shown, and the rest of a very long one is fetched where it stands.
import { lost, parsed, say } from "../places.js";
import { watchTexts } from "../consent/seen.js";
import { ask } from "../session.js";

// Buttons are made here: without a script there are none, as they would do nothing.
export function copyable(place) {
  for (const text of place.querySelectorAll("[data-copy]:not([data-copyable])")) {
    text.dataset.copyable = "";
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = document.body.dataset.copyDo;
    button.setAttribute("aria-label", `${document.body.dataset.copyDo}: ${text.dataset.copy}`);
    button.addEventListener("click", () => copy(text));
    text.before(button);
  }
}

// Where the clipboard is not allowed, the text is selected: the browser's own key copies it then.
async function copy(text) {
  const { copied, copyByHand } = document.body.dataset;
  try {
    await navigator.clipboard.writeText(text.textContent);
    say(copied);
  } catch {
    getSelection().selectAllChildren(text);
    say(copyByHand);
  }
}

export async function more(link) {
  if (link.dataset.busy) return;
  link.dataset.busy = "1";
  try {
    const answer = await ask(link.getAttribute("href"));
    const piece = parsed(await answer.text()).getElementById("piece");
    const text = link.parentElement.previousElementSibling;
    if (!piece || !link.isConnected) return;
    text.append(...[...piece.querySelector("pre").childNodes].map((node) => document.adoptNode(node)));
    const rest = piece.querySelector(".rest");
    // Whoever came by key goes on from here, also where there is no more.
    if (rest) link.parentElement.replaceWith(document.adoptNode(rest));
    else link.parentElement.remove();
    watchTexts();
    (text.nextElementSibling?.querySelector("[data-rest]") ?? text).focus({ preventScroll: true });
  } catch (error) {
    lost(error);
  } finally {
    delete link.dataset.busy;
  }
}
