// The TypeScript SDK v2 signs in at a protected server. Usage: ts2_sign_in.mjs URL. Everything is the SDK's but the
// browser: the pages of the authorization server agree by themselves, so its redirects are followed.
import { peer } from "./walk.mjs";

const { Client, StreamableHTTPClientTransport, UnauthorizedError } = peer("@modelcontextprotocol/client");

const CALLBACK = "http://127.0.0.1:39997/callback";
const kept = {};
let wanted;

const authProvider = {
  redirectUrl: CALLBACK,
  clientMetadata: { redirect_uris: [CALLBACK], client_name: "interop", application_type: "native", token_endpoint_auth_method: "none" },
  clientInformation: () => kept.client,
  saveClientInformation: (client) => void (kept.client = client),
  tokens: () => kept.tokens,
  saveTokens: (tokens) => void (kept.tokens = tokens),
  redirectToAuthorization: (url) => void (wanted = url),
  saveCodeVerifier: (verifier) => void (kept.verifier = verifier),
  codeVerifier: () => kept.verifier,
  saveDiscoveryState: (state) => void (kept.discovery = state),
  discoveryState: () => kept.discovery,
};

/** Follows the redirects as a browser does, with its cookies, and returns what the last one brings. */
async function browse(url) {
  const cookies = new Map();
  for (let place = new URL(url); ; ) {
    if (place.href.startsWith(CALLBACK)) return place.searchParams;
    const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join("; ");
    const response = await fetch(place, { redirect: "manual", headers: { cookie } });
    for (const line of response.headers.getSetCookie()) {
      const [pair] = line.split(";");
      cookies.set(pair.slice(0, pair.indexOf("=")), pair.slice(pair.indexOf("=") + 1));
    }
    place = new URL(response.headers.get("location"), place);
  }
}

const url = new URL(process.argv[2]);

/** Connects and does something; signs in first if that is wanted, and then begins again. */
async function signedIn(use) {
  for (let times = 0; times < 4; times += 1) {
    const transport = new StreamableHTTPClientTransport(url, { authProvider });
    const client = new Client({ name: "ts2", version: "1" }, { versionNegotiation: { mode: "auto" } });
    try {
      await client.connect(transport);
      const result = await use(client);
      await client.close();
      return result;
    } catch (error) {
      if (!(error instanceof UnauthorizedError) && !wanted) throw error;
      await transport.finishAuth(await browse(wanted));
      wanted = undefined;
    }
  }
  throw new Error("signing in does not end");
}

const call = (name, values) => async (client) => (await client.callTool({ name, arguments: values })).content[0].text;
const orders = await signedIn(call("orders", {}));
const order = await signedIn(call("order", { what: "tea" }));
console.log(JSON.stringify({ orders, order }));
process.exit(0);
