// The TypeScript SDK v2 as a client that is checked: lists the tools of a URL, or of a command, and calls each.
import { peer } from "./walk.mjs";

const { Client, StreamableHTTPClientTransport } = peer("@modelcontextprotocol/client");
const { StdioClientTransport } = peer("@modelcontextprotocol/client/stdio");

const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const client = new Client({ name: "ts2", version: "2.4.0" }, { capabilities, versionNegotiation: { mode: "auto" } });
client.setRequestHandler("sampling/createMessage", () => ({
  role: "assistant",
  content: { type: "text", text: "hello" },
  model: "peer",
}));
client.setRequestHandler("elicitation/create", () => ({ action: "accept", content: { number: 3 } }));
client.setRequestHandler("roots/list", () => ({ roots: [{ uri: "file:///project" }] }));

const [command, ...args] = process.argv.slice(2);
await client.connect(
  args.length ? new StdioClientTransport({ command, args }) : new StreamableHTTPClientTransport(new URL(command)),
);
const { tools } = await client.listTools();
for (const name of new Set(tools.map((tool) => tool.name))) await client.callTool({ name, arguments: {} });
await client.close();
