// The TypeScript SDK v2 as a client. Usage: ts2_client.mjs ERA COMMAND... or URL, with ERA legacy, modern or auto.
import { MAX_ROUNDS, capabilities, elicit, log, peer, roots, sample, walk } from "./walk.mjs";

const { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } = peer("@modelcontextprotocol/client");
const { StdioClientTransport } = peer("@modelcontextprotocol/client/stdio");

const MODES = { legacy: "legacy", auto: "auto", modern: { pin: "2026-07-28" } };
const [, , era, command, ...args] = process.argv;
const client = new Client(
  { name: "ts2", version: "2.4.0" },
  { capabilities, versionNegotiation: { mode: MODES[era] }, inputRequired: { maxRounds: MAX_ROUNDS } },
);
client.setRequestHandler("sampling/createMessage", sample);
client.setRequestHandler("elicitation/create", elicit);
client.setRequestHandler("roots/list", roots);
client.setNotificationHandler("notifications/message", log);

const transport = command.includes("://")
  ? new StreamableHTTPClientTransport(new URL(command))
  : new StdioClientTransport({ command, args, env: process.env });
await client.connect(transport);
const version = client.getNegotiatedProtocolVersion();
const modern = client.getProtocolEra() === "modern";
const _meta = modern ? { [LOG_LEVEL_META_KEY]: "info" } : undefined;
const legacySteps = { ping: () => client.ping(), level: () => client.setLoggingLevel("info") };
const record = await walk(
  client,
  (name, values, options) => client.callTool({ name, arguments: values, _meta }, options),
  modern ? {} : legacySteps,
);
await client.close();
console.log(JSON.stringify({ version, ...record }));
