// A server written with the TypeScript SDK v2: what our client is tested against. Usage: ts2_server.mjs stdio or PORT.
//
// Its handlers ask in the way that SDK has for both eras: they return `inputRequired`, and are entered again with the
// answers. What was answered in earlier rounds travels in a signed request state. With the `initialize` handshake the SDK
// sends the same asks as requests of its own.
import { randomBytes, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import { peer } from "./walk.mjs";

const { McpServer, ResourceTemplate, acceptedContent, createMcpHandler, createRequestStateCodec, inputRequired, inputResponse } =
  peer("@modelcontextprotocol/server");
const { serveStdio } = peer("@modelcontextprotocol/server/stdio");
const { NodeStreamableHTTPServerTransport, toNodeHandler } = peer("@modelcontextprotocol/node");
const z = peer("zod/v4");

const MAX_ROUNDS = 40; // of the handshake's era; the SDK's default is 8
const states = createRequestStateCodec({ key: randomBytes(32) });
const weather = { name: "weather", description: "Weather of a city", inputSchema: { type: "object" } };
const booking = z.object({ guests: z.number().int(), window: z.boolean().default(false) });

const text = (said) => ({ content: [{ type: "text", text: said }] });
const message = (said, more = {}) =>
  inputRequired.createMessage({ messages: [{ role: "user", content: { type: "text", text: said } }], maxTokens: 50, ...more });

/** Asks once under one key; `use` makes the result of the view of the answer. */
function asking(ctx, kind, ask, use) {
  const view = inputResponse(ctx.mcpReq.inputResponses, "it");
  return view.kind === kind ? use(view) : inputRequired({ inputRequests: { it: ask() } });
}

/** Asks one question after another, a round each. */
async function survey({ questions }, ctx) {
  const answers = ctx.mcpReq.requestState() ?? [];
  const view = inputResponse(ctx.mcpReq.inputResponses, "next");
  if (view.kind === "sampling") answers.push(view.result.content.text);
  if (answers.length === questions.length) return text(answers.join(" | "));
  return inputRequired({ inputRequests: { next: message(questions[answers.length]) }, requestState: await states.mint(answers) });
}

/** Asks several questions in one round. */
function compare({ products }, ctx) {
  const views = products.map((product) => inputResponse(ctx.mcpReq.inputResponses, product));
  if (views.every((view) => view.kind === "sampling")) return text(views.map((view) => view.result.content.text).join(" | "));
  return inputRequired({
    inputRequests: Object.fromEntries(products.map((product) => [product, message(`Describe ${product}`)])),
  });
}

function book({ day }, ctx) {
  const requestedSchema = booking;
  return asking(ctx, "elicit", () => inputRequired.elicit({ message: `Book a table for ${day}`, requestedSchema }), ({ action }) => {
    const form = acceptedContent(ctx.mcpReq.inputResponses, "it", booking);
    return text(form ? `${day}: ${form.guests} guests, window=${form.window}` : `${day}: ${action}`);
  });
}

function make() {
  const server = new McpServer(
    { name: "ts2", version: "2.4.0" },
    { requestState: { verify: states.verify }, inputRequired: { maxRounds: MAX_ROUNDS } },
  );
  const tool = (name, shape, run) => server.registerTool(name, { description: name, inputSchema: z.object(shape) }, run);
  tool("echo", { text: z.string() }, ({ text: said }) => text(said));
  tool("ask_model", { question: z.string() }, ({ question }, ctx) =>
    asking(ctx, "sampling", () => message(question, { systemPrompt: "Be brief.", temperature: 0.5 }), ({ result }) =>
      text(`${result.model}: ${result.content.text}`),
    ),
  );
  tool("use_tool", { city: z.string() }, ({ city }, ctx) =>
    asking(ctx, "sampling", () => message(`Weather in ${city}?`, { tools: [weather] }), ({ result }) =>
      text([result.content].flat().map((block) => `${block.type}:${block.name}`).join(",")),
    ),
  );
  tool("folders", {}, (_, ctx) =>
    asking(ctx, "roots", () => inputRequired.listRoots(), ({ roots }) => text(roots.map((root) => root.uri).join(","))),
  );
  tool("book", { day: z.string() }, book);
  tool("survey", { questions: z.array(z.string()) }, survey);
  tool("compare", { products: z.array(z.string()) }, compare);
  server.registerPrompt("brief", { description: "brief", argsSchema: z.object({ product: z.string() }) }, ({ product }, ctx) =>
    asking(ctx, "sampling", () => message(`Brief on ${product}`), ({ result }) => ({
      messages: [{ role: "user", content: result.content }],
    })),
  );
  server.registerResource("note", new ResourceTemplate("note://{title}", { list: undefined }), {}, (uri, _, ctx) =>
    asking(ctx, "sampling", () => message(`Note on ${uri.host}`), ({ result }) => ({
      contents: [{ uri: uri.href, text: result.content.text }],
    })),
  );
  return server;
}

/** Both eras under one address: sessions for those that shake hands, one exchange each for the others. */
function serveHttp(port) {
  const sessions = new Map();
  const modern = toNodeHandler(createMcpHandler(make, { legacy: "reject" }));
  async function session(request) {
    const known = sessions.get(request.headers["mcp-session-id"]);
    if (known) return known;
    const onsessioninitialized = (id) => sessions.set(id, transport);
    const transport = new NodeStreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, onsessioninitialized });
    await make().connect(transport);
    return transport;
  }
  const serve = async (request, response) => {
    if (request.headers["mcp-protocol-version"] === "2026-07-28") await modern(request, response);
    else await (await session(request)).handleRequest(request, response);
  };
  createServer((request, response) => serve(request, response).catch((error) => response.destroy(error))).listen(port, "127.0.0.1");
}

if (process.argv[2] === "stdio") serveStdio(make);
else serveHttp(Number(process.argv[2]));
