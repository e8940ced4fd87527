// The vendors' clients for JavaScript, unmodified: address and token come from the environment alone. Prints one JSON object.
import { peer } from "./walk.mjs";

const { OpenAI } = peer("openai");
const { Anthropic } = peer("@anthropic-ai/sdk");

const schema = { type: "object", properties: { city: { type: "string" } }, required: ["city"] };
const said = (content) => [{ role: "user", content }];

async function openai() {
  const client = new OpenAI();
  const model = "gpt-5";
  const tools = [{ type: "function", function: { name: "weather", parameters: schema } }];
  const plain = await client.chat.completions.create({ model, messages: said("hello") });
  const messages = said("weather?");
  const asked = await client.chat.completions.create({ model, messages, tools });
  const call = asked.choices[0].message.tool_calls[0];
  messages.push(asked.choices[0].message, { role: "tool", tool_call_id: call.id, content: "snow" });
  const told = await client.chat.completions.create({ model, messages, tools });
  let streamed = "";
  for await (const chunk of await client.chat.completions.create({ model, messages: said("hello"), stream: true })) {
    streamed += chunk.choices[0]?.delta?.content ?? "";
  }
  const response_format = { type: "json_schema", json_schema: { name: "place", schema } };
  const formed = await client.chat.completions.create({ model, messages: said("where?"), response_format });
  const refused = await client.chat.completions.create({ model, messages: said("forbidden") }).catch((error) => error);
  const hurried = new OpenAI({ timeout: 400, maxRetries: 20 });
  const retried = await hurried.chat.completions.create({ model, messages: said("think, JavaScript of OpenAI") });
  const cancelling = new AbortController();
  const cancelled = await client.chat.completions
    .create({ model, messages: said("hello"), stream: true }, { signal: cancelling.signal })
    .then(async (stream) => {
      cancelling.abort();
      for await (const _ of stream);
      return "ended";
    });
  const response = await client.responses.create({ model, input: "hello" });
  return {
    text: plain.choices[0].message.content,
    tool: [call.function.name, JSON.parse(call.function.arguments), told.choices[0].message.content],
    streamed,
    formed: JSON.parse(formed.choices[0].message.content),
    refused: [refused.status, refused.code],
    retried: retried.choices[0].message.content,
    cancelled,
    response: response.output_text,
  };
}

async function anthropic() {
  const client = new Anthropic();
  const base = { model: "claude", max_tokens: 100 };
  const tools = [{ name: "weather", input_schema: schema }];
  const plain = await client.messages.create({ ...base, messages: said("hello") });
  const messages = said("weather?");
  const asked = await client.messages.create({ ...base, messages, tools });
  const use = asked.content.find((block) => block.type === "tool_use");
  messages.push({ role: "assistant", content: asked.content });
  messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: use.id, content: "snow" }] });
  const told = await client.messages.create({ ...base, messages, tools });
  const streamed = await client.messages.stream({ ...base, messages: said("hello") }).finalText();
  const refused = await client.messages.create({ ...base, messages: said("forbidden") }).catch((error) => error);
  const hurried = new Anthropic({ timeout: 400, maxRetries: 20 });
  const retried = await hurried.messages.create({ ...base, messages: said("think, JavaScript of Anthropic") });
  const counted = await client.messages.countTokens({ model: "claude", messages: said("hello") });
  return {
    text: plain.content[0].text,
    tool: [use.name, use.input, told.content[0].text],
    streamed,
    refused: [refused.status, refused.error?.error?.type],
    retried: retried.content[0].text,
    counts: counted.input_tokens > 0,
  };
}

console.log(JSON.stringify({ openai: await openai(), anthropic: await anthropic() }));
