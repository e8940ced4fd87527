// A host made of what others wrote: the official client, the extension's AppBridge, and a frame with the policy that the
// interface names.
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import {
  AppBridge,
  PostMessageTransport,
  RESOURCE_MIME_TYPE,
  getToolUiResourceUri,
  isToolVisibilityAppOnly,
} from "@modelcontextprotocol/ext-apps/app-bridge";

const info = { name: "host", version: "1" };
const client = new Client(info, {
  capabilities: { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: [RESOURCE_MIME_TYPE] } } },
});
await client.connect(new StreamableHTTPClientTransport(new URL("/mcp", location)));

const { tools } = await client.listTools();
const shown = tools.filter((tool) => !isToolVisibilityAppOnly(tool));
const tool = shown.find((tool) => tool.name === "prices");
const [page] = (await client.readResource({ uri: getToolUiResourceUri(tool) })).contents;
if (page.mimeType !== RESOURCE_MIME_TYPE) throw new Error(page.mimeType);

const domains = ["'self'", ...(page._meta.ui.csp.connectDomains ?? [])].join(" ");
const policy = `default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src ${domains}`;
const frame = document.querySelector("iframe");
const bridge = new AppBridge(client, info, { serverTools: {}, logging: {} });
bridge.oninitialized = async () => {
  await bridge.sendToolInput({ arguments: {} });
  await bridge.sendToolResult(await client.callTool({ name: tool.name, arguments: {} }));
};
await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
frame.srcdoc = page.text.replace("<head>", `<head><meta http-equiv="Content-Security-Policy" content="${policy}">`);
document.querySelector("p").textContent = shown.map((tool) => tool.name).join(" ");
