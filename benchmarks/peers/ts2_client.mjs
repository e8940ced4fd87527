// The TypeScript SDK v2 as a client: ts2_client.mjs TRANSPORT TARGET LENGTH, as drive.py says.
import { drive, peer, target, transport } from "./drive.mjs";

const { Client, StreamableHTTPClientTransport } = peer("@modelcontextprotocol/client");
const { StdioClientTransport } = peer("@modelcontextprotocol/client/stdio");
const { InMemoryTransport, McpServer } = peer("@modelcontextprotocol/server");
const z = peer("zod/v4");

async function where() {
  if (transport === "http") return new StreamableHTTPClientTransport(new URL(target));
  if (transport === "stdio") {
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args });
  }
  const server = new McpServer({ name: "mem", version: "1" });
  const about = { description: "Echo the text back.", inputSchema: z.object({ text: z.string() }) };
  server.registerTool("echo", about, async ({ text }) => ({ content: [{ type: "text", text }] }));
  const [mine, its] = InMemoryTransport.createLinkedPair();
  await server.connect(its);
  return mine;
}

const began = performance.now();
const client = new Client({ name: "bench", version: "1" }, { capabilities: {}, versionNegotiation: { mode: "auto" } });
await client.connect(await where());
const call = async (text) => (await client.callTool({ name: "echo", arguments: { text } })).content[0].text;
await drive(call, began, client.getNegotiatedProtocolVersion());
await client.close();
process.exit(0);
