// The stream that says that something has changed. It comes back by itself; what was missed does not matter.
import { arrived } from "./notify.js";

const PAUSE = 250;

export function follow({ refresh, banner }) {
  let pending = null;
  let version = null;
  let waiting = false;
  let again = false;
  let down = false;
  let stream = null;

  async function soon() {
    again = true;
    if (waiting) return;
    waiting = true;
    while (again) {
      again = false;
      await refresh();
      await new Promise((done) => setTimeout(done, PAUSE));
    }
    waiting = false;
  }

  function told(event) {
    const news = JSON.parse(event.data);
    if (pending !== null && news.pending > pending) arrived();
    const first = version === null;
    const shown = Number(document.getElementById("queue")?.dataset.pending ?? news.pending);
    pending = news.pending;
    version = news.version;
    const count = document.getElementById("count");
    count.textContent = String(pending);
    count.hidden = pending === 0;
    if (!first || shown !== pending) soon();
  }

  async function ended() {
    const answer = await fetch("/live", { method: "HEAD" }).catch(() => null);
    return answer?.status === 401;
  }

  function open() {
    stream = new EventSource("/live");
    stream.addEventListener("change", told);
    stream.addEventListener("open", () => {
      if (down) {
        banner("");
        soon();
      }
      down = false;
    });
    stream.addEventListener("error", async () => {
      down = true;
      const closed = stream.readyState === EventSource.CLOSED;
      const over = closed && (await ended());
      banner(over ? document.body.dataset.ended : document.body.dataset.lost);
      if (closed && !over) setTimeout(open, 1000);
    });
  }

  // A page that is left keeps no connection: a browser has six for all pages of one server.
  addEventListener("pagehide", () => stream.close());
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
}
