// Notifications of the browser, where the person asked for them here. They never say what is asked.
const WANTED = "antiphon-notify";

export function ready() {
  // What only a few places need is loaded there.
  const place = document.querySelector("[data-script]");
  if (place) import(place.dataset.script).then((script) => script.ready(place));
  const box = document.getElementById("notify");
  if (!box || box.dataset.ready) return;
  box.dataset.ready = "1";
  box.checked = localStorage.getItem(WANTED) === "1" && Notification.permission === "granted";
  box.addEventListener("change", async () => {
    if (box.checked && (await Notification.requestPermission()) !== "granted") box.checked = false;
    localStorage.setItem(WANTED, box.checked ? "1" : "0");
  });
}

export function arrived() {
  const wanted = localStorage.getItem(WANTED) === "1" && "Notification" in window && Notification.permission === "granted";
  if (wanted && document.hidden) new Notification("Antiphon", { body: document.body.dataset.arrived, tag: "antiphon" });
}
