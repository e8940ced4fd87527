// The TypeScript SDK v1 calls a tool as a task of 2025-11-25, is asked, and gets the result.
// Usage: ts1_tasks.mjs COMMAND... or URL
import { peer } from "./walk.mjs";

const { Client } = peer("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = peer("@modelcontextprotocol/sdk/client/stdio.js");
const { StreamableHTTPClientTransport } = peer("@modelcontextprotocol/sdk/client/streamableHttp.js");
const { CallToolResultSchema, CreateMessageRequestSchema } = peer("@modelcontextprotocol/sdk/types.js");

const [, , command, ...args] = process.argv;
const asked = [];
const client = new Client({ name: "ts1", version: "1.32.2" }, { capabilities: { sampling: {} } });
client.setRequestHandler(CreateMessageRequestSchema, ({ params }) => {
  const { text } = params.messages.at(-1).content;
  asked.push(text);
  return { role: "assistant", content: { type: "text", text: text.toUpperCase() }, model: "peer", stopReason: "endTurn" };
});
const transport = command.includes("://")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env });
await client.connect(transport);
await client.listTools();
const statuses = [];
let text;
const stream = client.experimental.tasks.callToolStream({ name: "publish", arguments: {} }, CallToolResultSchema, { task: { ttl: 60_000 } });
for await (const message of stream) {
  if (message.type === "error") throw message.error;
  if (message.type === "result") text = message.result.content[0].text;
  else statuses.push(message.task.status);
}
let cancelled;
for await (const message of client.experimental.tasks.callToolStream({ name: "publish", arguments: {} }, CallToolResultSchema, { task: {} })) {
  cancelled = (await client.experimental.tasks.cancelTask(message.task.taskId)).status;
  break;
}
await client.close();
console.log(JSON.stringify({ statuses, text, asked, cancelled }));
