// The TypeScript SDK v1 as a server: `stdio`, or `http PORT`. JSON=1 for JSON answers, EXTRA_TOOLS=n.
// PEER is the folder its packages are installed in.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

const peer = createRequire(join(process.env.PEER, "package.json"));
const z = peer("zod/v4");
const { McpServer } = peer("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = peer("@modelcontextprotocol/sdk/server/stdio.js");
const { StreamableHTTPServerTransport } = peer("@modelcontextprotocol/sdk/server/streamableHttp.js");
const { CreateMessageResultSchema } = peer("@modelcontextprotocol/sdk/types.js");

const BIG = "x".repeat(1 << 20);
const EXTRA = Number(process.env.EXTRA_TOOLS || 0);
const text = (value) => ({ content: [{ type: "text", text: value }] });

function make() {
  const server = new McpServer({ name: "bench", version: "1" });
  const tool = (name, description, inputSchema, body) => server.registerTool(name, { description, inputSchema }, body);
  tool("echo", "Echo the text back.", { text: z.string() }, async (values) => text(values.text));
  tool("big", "Return n characters.", { n: z.number().int() }, async ({ n }) => text(n === BIG.length ? BIG : "x".repeat(n)));
  tool("blob", "Return the length of data.", { data: z.string() }, async ({ data }) => text(String(data.length)));
  tool("sample", "Ask the client's model.", { text: z.string() }, async (values, extra) => {
    const messages = [{ role: "user", content: { type: "text", text: values.text } }];
    const request = { method: "sampling/createMessage", params: { messages, maxTokens: 64 } };
    const answer = await extra.sendRequest(request, CreateMessageResultSchema);
    return text(answer.content.text);
  });
  for (let i = 0; i < EXTRA; i++) {
    const schema = { a: z.number().int(), b: z.string(), c: z.boolean() };
    const description = `Synthetic tool number ${i} used for the listing benchmark.`;
    tool(`tool_${String(i).padStart(3, "0")}`, description, schema, async () => text("ok"));
  }
  return server;
}

async function transportOf(sessions, id) {
  if (id) return sessions.get(id);
  const transport = new StreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    enableJsonResponse: Boolean(process.env.JSON),
    onsessioninitialized: (made) => sessions.set(made, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await make().connect(transport);
  return transport;
}

if (process.argv[2] === "stdio") await make().connect(new StdioServerTransport());
else {
  const sessions = new Map();
  createServer(async (request, response) => {
    const transport = await transportOf(sessions, request.headers["mcp-session-id"]);
    if (transport) await transport.handleRequest(request, response);
    else response.writeHead(404).end();
  }).listen(Number(process.argv[3]), "127.0.0.1");
}
