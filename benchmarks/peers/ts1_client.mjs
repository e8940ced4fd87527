// The TypeScript SDK v1 as a client: ts1_client.mjs TRANSPORT TARGET LENGTH, as drive.py says.
import { drive, peer, target, transport } from "./drive.mjs";

const { Client } = peer("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = peer("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = peer("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { InMemoryTransport } = peer("@modelcontextprotocol/sdk/inMemory.js");
const { McpServer } = peer("@modelcontextprotocol/sdk/server/mcp.js");
const z = peer("zod/v4");

async function where() {
  if (transport === "http") return new StreamableHTTPClientTransport(new URL(target));
  if (transport === "stdio") {
    const [command, ...args] = JSON.parse(target);
    return new StdioClientTransport({ command, args });
  }
  const server = new McpServer({ name: "mem", version: "1" });
  const about = { description: "Echo the text back.", inputSchema: { text: z.string() } };
  server.registerTool("echo", about, async ({ text }) => ({ content: [{ type: "text", text }] }));
  const [mine, its] = InMemoryTransport.createLinkedPair();
  await server.connect(its);
  return mine;
}

const began = performance.now();
const client = new Client({ name: "bench", version: "1" }, { capabilities: {} });
await client.connect(await where());
const call = async (text) => (await client.callTool({ name: "echo", arguments: { text } })).content[0].text;
await drive(call, began, "2025-11-25");
await client.close();
process.exit(0);
