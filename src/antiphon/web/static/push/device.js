// The button by which this browser is told of questions by Web Push. Loaded where that button is, and only there; it is
// here, too, that browsers learn that the page can be installed.
export async function ready(form) {
  const button = form.querySelector("button[type=button]");
  const { key, known, on, off } = form.dataset;
  if (!document.querySelector("link[rel=manifest]")) {
    document.head.append(Object.assign(document.createElement("link"), { rel: "manifest", href: "/static/push/manifest.webmanifest" }));
  }
  if (!("PushManager" in window && navigator.serviceWorker)) return say(form, form.dataset.missing);
  const worker = await navigator.serviceWorker.getRegistration("/");
  const before = await worker?.pushManager.getSubscription();
  const told = Boolean(before) && known.split(" ").includes(before.endpoint);
  button.textContent = told ? off : on;
  button.disabled = false;
  button.onclick = async () => {
    say(form, "");
    try {
      const subscription = told ? before : await subscribe(key, before);
      if (!subscription) return say(form, form.dataset.refused);
      form.elements.subscription.value = JSON.stringify(subscription);
      form.elements.on.value = String(!told);
      form.requestSubmit();
      if (told) await before.unsubscribe();
    } catch (error) {
      say(form, `${form.dataset.failed} ${error.message}`);
    }
  };
  // Whoever signs out is told no longer: the push service then does not know this browser any more.
  document.querySelector("form[action='/sign-out']")?.addEventListener("submit", (event) => {
    if (!before) return;
    event.preventDefault();
    event.stopPropagation();
    before.unsubscribe().finally(() => event.target.submit());
  });
}

async function subscribe(key, before) {
  if ((await Notification.requestPermission()) !== "granted") return null;
  await navigator.serviceWorker.register("/static/push/worker.js", { scope: "/" });
  const worker = await navigator.serviceWorker.ready;
  // It may be by the key of another host.
  await before?.unsubscribe();
  return worker.pushManager.subscribe({ userVisibleOnly: true, applicationServerKey: key });
}

function say(form, text) {
  const place = form.querySelector(".problem");
  place.textContent = text;
  place.hidden = !text;
}
