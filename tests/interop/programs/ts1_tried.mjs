// The TypeScript SDK v1 as a client that is checked: lists the tools of a URL, or of a command, page by page, and calls each.
import { peer } from "./walk.mjs";

const { Client } = peer("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = peer("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { StdioClientTransport } = peer("@modelcontextprotocol/sdk/client/stdio.js");
const { CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema } = peer("@modelcontextprotocol/sdk/types.js");

const capabilities = { sampling: {}, elicitation: { form: {} }, roots: {} };
const client = new Client({ name: "ts1", version: "1.32.2" }, { capabilities });
client.setRequestHandler(CreateMessageRequestSchema, () => ({
  role: "assistant",
  content: { type: "text", text: "hello" },
  model: "peer",
}));
client.setRequestHandler(ElicitRequestSchema, () => ({ action: "accept", content: { number: 3 } }));
client.setRequestHandler(ListRootsRequestSchema, () => ({ roots: [{ uri: "file:///project" }] }));

const [command, ...args] = process.argv.slice(2);
await client.connect(
  args.length ? new StdioClientTransport({ command, args }) : new StreamableHTTPClientTransport(new URL(command)),
);
const names = new Set();
let page = {};
do {
  page = await client.listTools(page.nextCursor === undefined ? {} : { cursor: page.nextCursor });
  page.tools.forEach((tool) => names.add(tool.name));
} while (page.nextCursor !== undefined);
for (const name of names) await client.callTool({ name, arguments: {} });
await client.close();
