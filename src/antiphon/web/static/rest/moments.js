// Moments in the time of whoever looks. The page is written in UTC, which stays in the title; without a script it is UTC.
const language = document.documentElement.lang;
const own = navigator.languages.find((name) => name.split("-")[0] === language.split("-")[0]);
const format = new Intl.DateTimeFormat(own ?? language, { dateStyle: "medium", timeStyle: "medium" });

function told(root) {
  for (const time of root.querySelectorAll("time[datetime]:not([title])")) {
    time.title = time.textContent;
    time.textContent = format.format(new Date(time.dateTime));
  }
}

new MutationObserver((changes) => {
  for (const change of changes) if (change.addedNodes.length) told(change.target);
}).observe(document.body, { childList: true, subtree: true });
told(document);
