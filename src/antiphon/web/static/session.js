// Every request of the page's script. Under the page's own name the browser sends its cookie; under any other name
// (127.0.0.1) no cookie is safe, as cookies do not know ports: the session is kept for this tab, and sent as a header.
import { csrf } from "./places.js";

const KEY = "antiphon-session";

export const plain = !location.hostname.endsWith(".localhost");

export function enter(secret) {
  sessionStorage.setItem(KEY, secret);
}

export async function ask(path, { headers = {}, ...more } = {}) {
  const secret = plain ? sessionStorage.getItem(KEY) : null;
  const answer = await fetch(path, { ...more, headers: secret ? { ...headers, "X-Antiphon-Session": secret } : headers });
  if (answer.status === 401) throw new Error("ended");
  return answer;
}

export function fields(form, button) {
  const sent = new URLSearchParams(new FormData(form));
  if (button?.name) sent.append(button.name, button.value);
  return sent;
}

export function post(path, body, more = {}) {
  const headers = { "X-CSRF-Token": csrf(), "X-Part": "answer", Accept: "application/json" };
  return ask(path, { ...more, method: "POST", body, headers });
}

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
  const link = document.createElement("a");
  link.href = URL.createObjectURL(await answer.blob());
  link.download = path.split("/").pop().split("?")[0];
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
