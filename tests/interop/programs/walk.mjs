// What both TypeScript clients do with a stdio server: the same steps as python2_client.py, the same JSON object at the end.
// Owns the steps; how a client is made and how its handlers are set is the business of ts1_client.mjs and ts2_client.mjs.
import { createRequire } from "node:module";
import { join } from "node:path";

/** Loads a package from where setup.sh installed the peers. */
export const peer = createRequire(join(process.env.ANTIPHON_INTEROP_DIR, "npm", "package.json"));

export const capabilities = { sampling: { tools: {} }, elicitation: { form: {} }, roots: { listChanged: true } };

/** Rounds that one call may have; the SDK's own default is 10. */
export const MAX_ROUNDS = 15;

export const seen = { asks: [], progress: [], logs: [] };

/** Answers as a model would: with a tool use when tools are offered, else with text. */
export function sample(request) {
  const { messages, tools } = request.params;
  seen.asks.push(request.params);
  const blocks = [messages.at(-1).content].flat();
  if (tools?.length && !blocks.some((block) => block.type === "tool_result")) {
    const content = { type: "tool_use", id: "use-1", name: tools[0].name, input: { city: "Oslo" } };
    return { role: "assistant", content, model: "peer", stopReason: "toolUse" };
  }
  const text = blocks.map((block) => block.text ?? block.type).join(" ");
  return { role: "assistant", content: { type: "text", text: `answer to ${text}` }, model: "peer", stopReason: "endTurn" };
}

/** Accepts a form, declines anything else. */
export function elicit(request) {
  seen.asks.push(request.params);
  if (request.params.mode === "url") return { action: "decline" };
  return { action: "accept", content: { guests: 4, window: true } };
}

export const roots = () => ({ roots: [{ uri: "file:///project", name: "project" }] });

export function log(notification) {
  seen.logs.push([notification.params.level, notification.params.data]);
}

async function attempt(step) {
  try {
    return await step();
  } catch (error) {
    return { error: { code: error.code, message: error.message } };
  }
}

function steps(client, call) {
  const onprogress = ({ progress, total, message }) => seen.progress.push([progress, total, message]);
  const ref = { type: "ref/prompt", name: "review" };
  return {
    tools: () => client.listTools(),
    resources: () => client.listResources(),
    templates: () => client.listResourceTemplates(),
    prompts: () => client.listPrompts(),
    read: () => client.readResource({ uri: "note://welcome" }),
    read_template: () => client.readResource({ uri: "note://tuesday" }),
    read_unknown: () => client.readResource({ uri: "nowhere://at/all" }),
    prompt: () => client.getPrompt({ name: "review", arguments: { language: "python" } }),
    complete: () => client.complete({ ref, argument: { name: "language", value: "p" } }),
    echo: () => call("echo", { text: "héllo ☃" }),
    add: () => call("add", { a: 2, b: 40 }),
    fail: () => call("fail", { reason: "on purpose" }),
    wrong: () => call("add", { a: "two", b: 40 }),
    unknown: () => call("no-such-tool", {}),
    describe: () => call("describe", { product: "sweater" }),
    use_tool: () => call("use_tool", { city: "Oslo" }),
    forecast: () => call("forecast", { city: "Oslo" }),
    compare: () => call("compare", { products: ["hat", "cap"] }),
    survey: () => call("survey", { topic: "Cloth", questions: 12 }),
    long_survey: () => call("survey", { topic: "Thread", questions: 18 }),
    book: () => call("book", { day: "Friday" }),
    folders: () => call("folders", {}),
    count: () => call("count", { to: 3 }, { onprogress }),
    speak: () => call("speak", { text: "up" }),
  };
}

/** Walks through a connected client's server. `call` is (name, arguments, options) => result; extra steps come first. */
export async function walk(client, call, extra = {}) {
  const record = { server: client.getServerVersion() };
  for (const [name, step] of Object.entries({ ...extra, ...steps(client, call) })) record[name] = await attempt(step);
  const describe = () => attempt(() => call("describe", { product: "sweater" }));
  record.together = await Promise.all([1, 2, 3, 4, 5].map(describe));
  return { ...record, ...seen };
}
