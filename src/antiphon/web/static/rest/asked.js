// An answer to a request of the person's own: waited for while its page is shown, and shown as soon as it is there.
import { go } from "../navigation.js";
import { ask } from "../session.js";

let waiting = "";

async function wait(id) {
  if (waiting === id) return;
  waiting = id;
  const here = () => document.querySelector("[data-asked]")?.dataset.asked === id;
  while (here()) {
    const answer = await ask(`/asked/${id}/done`).catch(() => null);
    if (answer?.ok && (await answer.json()).done) break;
    if (!answer?.ok) await new Promise((done) => setTimeout(done, 1000));
  }
  waiting = "";
  if (here()) await go(location.pathname, { push: false });
}

function waitIfAsked() {
  const place = document.querySelector("[data-asked]");
  if (place) wait(place.dataset.asked);
}

new MutationObserver(waitIfAsked).observe(document.getElementById("view"), { childList: true });
waitIfAsked();
