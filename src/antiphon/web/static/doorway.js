// The entrance under a name where no cookie is safe: the token becomes a session of this tab, then the page is shown.
import { ask, enter } from "./session.js";

async function openPage() {
  const token = location.pathname === "/open" ? new URLSearchParams(location.search).get("token") : null;
  if (token !== null) {
    const answer = await fetch("/open", { method: "POST", body: new URLSearchParams({ token }) });
    const told = await answer.json();
    if (!answer.ok) return sayProblem(told.problem);
    enter(told.session);
    history.replaceState(null, "", "/");
  }
  const { scripts } = document.body.dataset;
  const answer = await ask(location.pathname + location.search);
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  document.documentElement.lang = page.documentElement.lang;
  document.documentElement.dataset.theme = page.documentElement.dataset.theme;
  for (const head of page.querySelectorAll("meta[name]")) document.head.append(document.adoptNode(head));
  document.title = page.title;
  document.body.replaceWith(document.adoptNode(page.body));
  for (const script of scripts.split(" ")) await import(script);
}

// The page may be drawn already while its script is on its way; what is said is then said where the page says it.
function sayProblem(text) {
  const place = document.getElementById("entrance") ?? document.getElementById("banner");
  place.textContent = text;
  place.hidden = false;
}

openPage().catch((error) => sayProblem(error.message === "ended" ? document.body.dataset.session : document.body.dataset.lost));
