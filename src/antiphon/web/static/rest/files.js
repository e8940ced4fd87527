// Files of the page where no cookie is safe: each is fetched with the header, and shown or saved from there.
import { ask } from "../session.js";

// What a browser would fetch without the header: pictures and sounds of a request.
export async function bring(place) {
  for (const one of place.querySelectorAll("[data-src]")) {
    const answer = await ask(one.dataset.src);
    if (answer.ok) one.src = URL.createObjectURL(await answer.blob());
    delete one.dataset.src;
  }
}

export async function save(path) {
  const answer = await ask(path);
  if (!answer.ok) throw new Error("lost");
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = path.split("/").pop().split("?")[0];
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
