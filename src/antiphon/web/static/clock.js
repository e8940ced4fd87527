// How long a question still waits. Every second; the words come with the page.
function left(seconds) {
  const minutes = Math.floor(seconds / 60);
  const rest = String(Math.floor(seconds % 60)).padStart(2, "0");
  return minutes >= 60 ? `${Math.floor(minutes / 60)}:${String(minutes % 60).padStart(2, "0")}:${rest}` : `${minutes}:${rest}`;
}

export function tick() {
  const now = Date.now() / 1000;
  for (const clock of document.querySelectorAll(".clock[data-expires]")) {
    const seconds = Number(clock.dataset.expires) - now;
    const { left: words, over } = document.body.dataset;
    const text = seconds > 0 ? words.replace("%", left(seconds)) : over;
    if (clock.textContent !== text) clock.textContent = text;
  }
}

setInterval(tick, 1000);
