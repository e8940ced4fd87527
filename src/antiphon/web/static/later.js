// What nobody needs for a decision about the first request comes once that is shown: the rest of the script and of the style sheet.
const { promise: arrived, resolve } = Promise.withResolvers();
export const supply = resolve;

// Calls a function of the rest; whoever comes early waits.
export async function later(name, ...values) {
  return (await arrived)[name](...values);
}

// A page in which its first files stand fetches the others here; any other has all of them in its head.
async function load() {
  const { files } = document.body.dataset;
  const sheet = Object.assign(document.createElement("link"), { rel: "stylesheet", href: `${files}/rest.css` });
  const drawn = new Promise((done) => (sheet.onload = sheet.onerror = done));
  document.head.append(sheet);
  await Promise.all([drawn, import(`${files}/rest.js`)]);
}

export const inPage = document.querySelector("head > style") !== null;
export const complete = inPage ? load() : arrived;
