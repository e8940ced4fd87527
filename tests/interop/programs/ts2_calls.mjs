// The TypeScript SDK v2 as a client that does what it is told. Usage: ts2_calls.mjs MODE, with MODE legacy or
// 2026-07-28. The commands are those of python2_calls.py, which says what they mean.
import { createInterface } from "node:readline";
import { peer } from "./walk.mjs";

const { Client, StreamableHTTPClientTransport } = peer("@modelcontextprotocol/client");
const { StdioClientTransport } = peer("@modelcontextprotocol/client/stdio");

const [, , mode] = process.argv;
const versions = { mode: mode === "legacy" ? mode : { pin: mode } };
const places = new Map();
const calls = new Map(); // what gives each call up, by its id

const say = (members) => process.stdout.write(JSON.stringify(members) + "\n");

function transport({ target, token }) {
  if (typeof target !== "string") return new StdioClientTransport({ command: target[0], args: target.slice(1) });
  const headers = token ? { Authorization: `Bearer ${token}` } : {};
  return new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } });
}

// A gateway that is killed breaks streams that nobody waits for.
process.on("unhandledRejection", () => {});
process.on("uncaughtException", () => {});

async function connect(command) {
  const client = new Client({ name: "ts2", version: "2.4.0" }, { versionNegotiation: versions });
  client.onerror = () => {};
  await client.connect(transport(command));
  return client;
}

async function carryOut(client, { id, do: verb, tool, arguments: values, meta, progress, uri }, reports) {
  if (verb === "close") return (await client.close(), {});
  if (verb === "tools") return client.listTools();
  if (verb === "read") return client.readResource({ uri });
  const giving = new AbortController();
  calls.set(id, giving);
  const options = { timeout: 1000 * 200, signal: giving.signal };
  if (progress) options.onprogress = ({ message }) => reports.push(message);
  return client.callTool({ name: tool, arguments: values, ...(meta && { _meta: meta }) }, options);
}

for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  const { id, target, token } = command;
  if (command.do === "give up") {
    calls.get(id).abort();
    continue;
  }
  const key = JSON.stringify([target, token]);
  if (!places.has(key)) places.set(key, connect(command));
  const place = places.get(key);
  if (command.do === "close") places.delete(key);
  const reports = [];
  place
    .then((client) => carryOut(client, command, reports))
    .then((result) => say({ id, result, reports }))
    .catch((error) => {
      if (command.do !== "call" || error.code === undefined) places.delete(key);
      say({ id, error: `${error.name}: ${error.message}`, reports });
    });
}
process.exit(0);
