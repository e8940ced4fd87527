// The interface of a shop's prices, as an author writes it with the extension's own library.
import { App } from "@modelcontextprotocol/ext-apps";

const app = new App({ name: "prices", version: "1" }, {});
const show = (result) => (document.querySelector("output").textContent = JSON.stringify(result.structuredContent));

app.ontoolresult = show;
document.querySelector("button").onclick = async () => show(await app.callServerTool({ name: "refresh", arguments: {} }));
document.querySelector("a").onclick = async () => {
  const said = await fetch("https://elsewhere.example/").then(() => "reached", (error) => String(error));
  document.querySelector("p").textContent = said;
};
await app.connect();
