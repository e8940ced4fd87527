// The TypeScript SDK v2 as a client that is checked: lists the tools of a URL, and calls each.
import { peer } from "./walk.mjs";

const { Client, StreamableHTTPClientTransport } = peer("@modelcontextprotocol/client");

const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const client = new Client({ name: "ts2", version: "2.4.0" }, { capabilities, versionNegotiation: { mode: "auto" } });
client.setRequestHandler("sampling/createMessage", () => ({
  role: "assistant",
  content: { type: "text", text: "hello" },
  model: "peer",
}));
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { number: 3 } }));
client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///project" }] }));

await client.connect(new StreamableHTTPClientTransport(new URL(process.argv[2])));
const { tools } = await client.listTools();
for (const name of new Set(tools.map((tool) => tool.name))) await client.callTool({ name, arguments: {} });
await client.close();
