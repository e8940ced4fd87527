// The TypeScript SDK v2 as a server: `stdio`, or `http PORT`. JSON=1 for JSON answers, EXTRA_TOOLS=n.
// PEER is the folder its packages are installed in. Over HTTP it serves both eras as its documentation composes them:
// sessions of 2025-11-25 by the Node transport, 2026-07-28 by createMcpHandler.
import { createServer } from "node:http";
import { randomUUID } from "node:crypto";
import { createRequire } from "node:module";
import { join } from "node:path";

const peer = createRequire(join(process.env.PEER, "package.json"));
const z = peer("zod/v4");
const { McpServer, createMcpHandler, inputRequired, inputResponse } = peer("@modelcontextprotocol/server");
const { serveStdio } = peer("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler } = peer("@modelcontextprotocol/node");

const BIG = "x".repeat(1 << 20);
const EXTRA = Number(process.env.EXTRA_TOOLS || 0);
const text = (value) => ({ content: [{ type: "text", text: value }] });
// Made once: createMcpHandler makes a server for each request.
const TEXT = z.object({ text: z.string() });
const NUMBER = z.object({ n: z.number().int() });
const DATA = z.object({ data: z.string() });
const THREE = z.object({ a: z.number().int(), b: z.string(), c: z.boolean() });

async function sample(era, value, context) {
  const messages = [{ role: "user", content: { type: "text", text: value } }];
  const params = { messages, maxTokens: 64 };
  if (era === "modern") {
    const answer = inputResponse(context.mcpReq.inputResponses, "s");
    if (answer.kind === "sampling") return text(answer.result.content.text);
    return inputRequired({ inputRequests: { s: inputRequired.createMessage(params) } });
  }
  // Not requestSampling(): in 2.4.0 that sends over HTTP to a stream which need not be open, and the call hangs.
  const answer = await context.mcpReq.send({ method: "sampling/createMessage", params });
  return text(answer.content.text);
}

function make(about) {
  const server = new McpServer({ name: "bench", version: "1" });
  const tool = (name, description, inputSchema, body) => server.registerTool(name, { description, inputSchema }, body);
  tool("echo", "Echo the text back.", TEXT, async (values) => text(values.text));
  tool("big", "Return n characters.", NUMBER, async ({ n }) => text(n === BIG.length ? BIG : "x".repeat(n)));
  tool("blob", "Return the length of data.", DATA, async ({ data }) => text(String(data.length)));
  tool("sample", "Ask the client's model.", TEXT, async (values, context) => sample(about?.era, values.text, context));
  for (let i = 0; i < EXTRA; i++) {
    const description = `Synthetic tool number ${i} used for the listing benchmark.`;
    tool(`tool_${String(i).padStart(3, "0")}`, description, THREE, async () => text("ok"));
  }
  return server;
}

async function transportOf(sessions, id) {
  if (id) return sessions.get(id);
  const transport = new NodeStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    enableJsonResponse: Boolean(process.env.JSON),
    onsessioninitialized: (made) => sessions.set(made, transport),
  });
  transport.onclose = () => sessions.delete(transport.sessionId);
  await make().connect(transport);
  return transport;
}

if (process.argv[2] === "stdio") serveStdio(make);
else {
  const sessions = new Map();
  const modern = toNodeHandler(createMcpHandler(make, { legacy: "reject" }));
  createServer(async (request, response) => {
    if (request.headers["mcp-protocol-version"] === "2026-07-28") return modern(request, response);
    const transport = await transportOf(sessions, request.headers["mcp-session-id"]);
    if (transport) return transport.handleRequest(request, response);
    return response.writeHead(404).end();
  }).listen(Number(process.argv[3]), "127.0.0.1");
}
