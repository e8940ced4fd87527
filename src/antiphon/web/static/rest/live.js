// The stream that says that something has changed. It comes back by itself; what was missed does not matter.
import { outcomesIfOpen } from "../consent/outcomes.js";
import { flush } from "../drafts.js";
import { arrived } from "../notify.js";
import { grown } from "./partials.js";
import { banner, inSight } from "../places.js";
import { ask, doubt } from "../session.js";

const PAUSE = 100;
const AGAIN = 1000;
// The page writes every 15 seconds. A connection that says nothing for longer is dead, as after a sleep of this machine.
const SILENT = 40_000;

let pending = null;

// How many wait stands beside the queue's name and in the title of the tab.
export function recount() {
  if (pending === null) return;
  const place = document.getElementById("count");
  place.textContent = String(pending);
  place.hidden = pending === 0;
  inSight();
  const title = document.title.replace(/^\(\d+\) /, "");
  document.title = pending ? `(${pending}) ${title}` : title;
}

// Shows the budget of which the least is left; the head has no sum where nothing limits what is spent.
function recost(budget) {
  const place = document.getElementById("budget");
  place.hidden = !budget;
  if (!budget) return;
  place.firstElementChild.textContent = budget.text;
  place.lastElementChild.value = budget.used;
}

export function follow(refresh) {
  let waiting = false;
  let again = false;
  let reading = null;

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

  function told(news) {
    const isMore = pending !== null && news.pending > pending;
    pending = news.pending;
    if (isMore) arrived(pending);
    recount();
    recost(news.budget);
    const queue = document.getElementById("queue");
    if (queue?.dataset.version !== news.list) soon();
    // The outcome of a decision changes no row of the queue.
    else outcomesIfOpen();
  }

  let alarm = 0;

  function hear(attempt) {
    clearTimeout(alarm);
    alarm = setTimeout(() => attempt.abort(), SILENT);
  }

  // What could not be kept meanwhile is sent now.
  function restore() {
    banner("");
    flush();
  }

  async function read(left) {
    const attempt = new AbortController();
    const signal = AbortSignal.any([left, attempt.signal]);
    hear(attempt);
    const answer = await ask("/live", { signal, headers: { Accept: "text/event-stream" } });
    if (!answer.ok) throw new Error("lost");
    restore();
    grown({ html: "" });
    const words = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { value, done } = await words.read();
      if (done) return;
      hear(attempt);
      // One request was lost, and the stream was not.
      if (document.getElementById("banner").textContent === document.body.dataset.lost) restore();
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const data = part.split("\n").find((line) => line.startsWith("data: "));
        if (data) (part.startsWith("event: partials") ? grown : told)(JSON.parse(data.slice(6)));
      }
    }
  }

  async function open() {
    reading?.abort();
    const mine = (reading = new AbortController());
    while (!mine.signal.aborted) {
      try {
        await read(mine.signal);
      } catch (error) {
        if (mine.signal.aborted) return;
        if (error.message === "ended") return banner(document.body.dataset.ended);
      }
      if (mine.signal.aborted) return;
      doubt();
      banner(document.body.dataset.lost);
      await new Promise((done) => setTimeout(done, AGAIN));
    }
  }

  // A page that is left keeps no connection: a browser has six for all pages of one server.
  addEventListener("pagehide", () => {
    reading?.abort();
    doubt();
  });
  addEventListener("pageshow", (event) => event.persisted && open());
  open();
}
