// Answers while they come. What is there already is brought up to date: its place, its scrolling and its focus stay.
import { parsed } from "../places.js";

const partialOf = (article) => article.dataset.partial;

function renewPartial(old, fresh) {
  const text = old.querySelector("pre");
  const atEnd = text.scrollTop + text.clientHeight >= text.scrollHeight - 8;
  for (const part of ["pre", "strong", "[data-count]", "[data-more]"]) {
    const [now, then] = [old.querySelector(part), fresh.querySelector(part)];
    if (now.textContent !== then.textContent) now.textContent = then.textContent;
    now.hidden = then.hidden;
  }
  if (atEnd) text.scrollTop = text.scrollHeight;
}

export function grown({ html }) {
  const place = document.querySelector("#partials > div");
  const fresh = [...parsed(html).querySelectorAll("article")];
  const ids = new Set(fresh.map(partialOf));
  for (const old of [...place.children]) if (!ids.has(partialOf(old))) old.remove();
  for (const one of fresh) {
    const old = [...place.children].find((each) => partialOf(each) === partialOf(one));
    if (old) renewPartial(old, one);
    else place.append(document.adoptNode(one));
  }
  place.parentElement.hidden = !fresh.length;
}
