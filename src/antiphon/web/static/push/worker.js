// Receives notices by Web Push: a path of this page, and on further lines what is said. A tap opens the path, and decides
// nothing.
self.addEventListener("push", (event) => {
  const [path, ...lines] = (event.data?.text() ?? "").split("\n");
  const shown = { body: lines.join("\n"), data: path, tag: path || "/", renotify: true, icon: "/static/icon.svg" };
  event.waitUntil(self.registration.showNotification("Antiphon", shown));
});

self.addEventListener("notificationclick", (event) => {
  event.notification.close();
  const path = event.notification.data;
  event.waitUntil(self.clients.openWindow(/^\/(review\/[\w-]+|settings)$/.test(path) ? path : "/"));
});
