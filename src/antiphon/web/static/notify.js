// Notifications of the browser, where the person asked for them here. They never say what is asked.
const WANTED = "antiphon-notify";

// A browser may keep nothing for the page, or have no room: then nothing is wanted, and nothing is said to be.
function isWanted() {
  try {
    return localStorage.getItem(WANTED) === "1" && Notification.permission === "granted";
  } catch {
    return false;
  }
}

function keepWanted(box) {
  try {
    localStorage.setItem(WANTED, box.checked ? "1" : "0");
  } catch {
    box.checked = isWanted();
  }
}

export function ready() {
  // What only a few places need is loaded there.
  const place = document.querySelector("[data-script]");
  if (place) import(place.dataset.script).then((script) => script.ready(place));
  const box = document.getElementById("notify");
  if (!box || box.dataset.ready) return;
  box.dataset.ready = "1";
  box.checked = isWanted();
  box.addEventListener("change", async () => {
    if (box.checked && (await Notification.requestPermission()) !== "granted") box.checked = false;
    keepWanted(box);
  });
}

export function arrived(pending) {
  // For who cannot see the number: read aloud each time, since it is another text each time.
  document.getElementById("news").textContent = `${document.body.dataset.arrived} (${pending})`;
  if (document.hidden && isWanted()) new Notification("Antiphon", { body: document.body.dataset.arrived, tag: "antiphon" });
}
