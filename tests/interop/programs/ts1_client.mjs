// The TypeScript SDK v1 as a client. Usage: ts1_client.mjs legacy COMMAND... or URL (it knows no other era).
import { capabilities, elicit, log, peer, roots, sample, walk } from "./walk.mjs";

const { Client } = peer("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = peer("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = peer("@modelcontextprotocol/sdk/client/streamableHttp.js");
const {
  CallToolResultSchema,
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  ListRootsRequestSchema,
  LoggingMessageNotificationSchema,
} = peer("@modelcontextprotocol/sdk/types.js");

const [, , , command, ...args] = process.argv;
const client = new Client({ name: "ts1", version: "1.32.2" }, { capabilities });
client.setRequestHandler(CreateMessageRequestSchema, sample);
client.setRequestHandler(ElicitRequestSchema, elicit);
client.setRequestHandler(ListRootsRequestSchema, roots);
client.setNotificationHandler(LoggingMessageNotificationSchema, log);

let version;
const transport = command.includes("://")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env });
const told = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (agreed) => {
  version = agreed;
  told?.(agreed);
};
await client.connect(transport);
const record = await walk(client, (name, values, options) => client.callTool({ name, arguments: values }, CallToolResultSchema, options), {
  ping: () => client.ping(),
  level: () => client.setLoggingLevel("info"),
});
await client.close();
console.log(JSON.stringify({ version, ...record }));
