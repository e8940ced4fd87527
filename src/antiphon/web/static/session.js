// Every request of the page's script. Under the page's own name the browser sends its cookie; under any other name
// (127.0.0.1) no cookie is safe, as cookies do not know ports: the session is kept for this tab, and sent as a header.
import { csrf } from "./places.js";

const KEY = "antiphon-session";

export const plain = !location.hostname.endsWith(".localhost");

// The page came by a printed address, whose token is spent: the queue has an address of its own.
if (!plain && location.pathname === "/open") history.replaceState(null, "", "/");

export function enter(secret) {
  sessionStorage.setItem(KEY, secret);
}

// A page that was stopped may have left its port to somebody else. Until it has proved that it is the one this tab came
// from, which it does by a key that was in its markup, nothing is sent there: no cookie, no session, no decision.
let proved = true;

export function doubt() {
  proved = false;
}

async function prove() {
  const [number, key] = (document.querySelector("meta[name=proof]")?.content ?? "").split(" ");
  if (!key || !crypto.subtle) return;
  const bytes = (text) => new TextEncoder().encode(text);
  const challenge = crypto.randomUUID();
  const options = { signal: AbortSignal.timeout(20_000), credentials: "omit", cache: "no-store", redirect: "error", referrerPolicy: "no-referrer" };
  const answer = await fetch(`/alive?session=${number}&challenge=${challenge}`, options);
  if (answer.status === 404) throw new Error("ended");
  const proof = (await answer.text()).match(/../g) ?? [];
  const known = await crypto.subtle.importKey("raw", bytes(key), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  const signed = Uint8Array.from(proof, (pair) => Number.parseInt(pair, 16));
  if (!(await crypto.subtle.verify("HMAC", known, signed, bytes(`${location.host} ${challenge}`)))) throw new Error("lost");
  proved = true;
}

export async function ask(path, { headers = {}, ...more } = {}) {
  if (!proved) await prove();
  const secret = plain ? sessionStorage.getItem(KEY) : null;
  const all = { ...more, headers: secret ? { ...headers, "X-Antiphon-Session": secret } : headers };
  const answer = await fetch(path, all).catch((error) => {
    if (error.name !== "AbortError") doubt();
    throw error;
  });
  if (answer.status === 401) throw new Error("ended");
  return answer;
}

export function fields(form, button) {
  const sent = new URLSearchParams(new FormData(form));
  if (button?.name) sent.append(button.name, button.value);
  return sent;
}

// The page's own refusals are data. A plain text is of its door: this browser was let in anew since this tab was opened.
export async function post(path, body, more = {}) {
  const headers = { "X-CSRF-Token": csrf(), "X-Part": "answer", Accept: "application/json" };
  const answer = await ask(path, { ...more, method: "POST", body, headers });
  if (answer.status === 403 && answer.headers.get("Content-Type")?.startsWith("text/plain")) throw new Error("stale");
  return answer;
}
