// A real authorization server, oidc-provider, for the tests: it logs "ann" in and agrees to everything without a page.
//
// Usage: server.mjs PORT [SECONDS [PAGE]]   SECONDS: how long access tokens are good; 600 by default. PAGE: the address
// of a review page, on which whoever the login_hint names signs in, "ann" by default. Prints its issuer when it is ready. Its access tokens are JWTs for the `resource` that was asked for, or opaque for one whose path ends with
// /opaque. It has PKCE, registration, resource indicators, introspection, revocation, DPoP, the device flow, client
// credentials, and rotates refresh tokens: one that is used twice ends its whole family.
import { createServer } from "node:http";
import { createRequire } from "node:module";
import { join } from "node:path";

const peer = createRequire(join(process.env.ANTIPHON_INTEROP_DIR, "npm", "package.json"));
const { default: Provider } = peer("oidc-provider");
const { exportJWK, generateKeyPair } = peer("jose");

const port = Number(process.argv[2]);
const seconds = Number(process.argv[3] ?? 600);
const page = process.argv[4] ?? "http://127.0.0.1:1";
const issuer = `http://127.0.0.1:${port}`;
const SCOPES = "orders:read orders:write";

const key = async (alg, kid) => {
  const { privateKey } = await generateKeyPair(alg, { extractable: true });
  return { ...(await exportJWK(privateKey)), alg, kid, use: "sig" };
};

/** Everybody who may use the server without registering: a program with a secret, and an application of a person. */
const clients = [
  {
    client_id: "program",
    client_secret: "program-secret-of-32-characters!",
    grant_types: ["client_credentials", "authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    redirect_uris: ["http://127.0.0.1/callback"],
    response_types: ["code"],
    application_type: "native",
  },
  {
    client_id: "application",
    token_endpoint_auth_method: "none",
    grant_types: ["authorization_code", "refresh_token", "urn:ietf:params:oauth:grant-type:device_code"],
    redirect_uris: ["http://127.0.0.1/callback"],
    response_types: ["code"],
    application_type: "native",
  },
  {
    client_id: "review-page",
    client_secret: "secret-of-the-page-of-32-characters!",
    redirect_uris: [`${page}/sign-in/callback`],
    post_logout_redirect_uris: [`${page}/signed-out`],
  },
];

/** The groups of those who decide on a review page. */
const GROUPS = { ann: ["finance"], bob: ["finance"], cy: ["lookers"], dee: ["platform"] };

const provider = new Provider(issuer, {
  clients,
  jwks: { keys: [await key("RS256", "rsa"), await key("ES256", "ec")] },
  cookies: { keys: ["of the tests"] },
  scopes: ["openid", "offline_access", "groups", ...SCOPES.split(" ")],
  claims: { openid: ["sub"], groups: ["groups", "name"] },
  conformIdTokenClaims: false,
  findAccount: (_ctx, id) => ({ accountId: id, claims: () => ({ sub: id, name: `Person ${id}`, groups: GROUPS[id] ?? [] }) }),
  interactions: { url: (_ctx, interaction) => `/interaction/${interaction.uid}` },
  rotateRefreshToken: true,
  issueRefreshToken: (_ctx, client) => client.grantTypeAllowed("refresh_token"),
  pkce: { required: () => true },
  features: {
    devInteractions: { enabled: false },
    clientCredentials: { enabled: true },
    deviceFlow: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    revocation: { enabled: true },
    dPoP: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: SCOPES,
        audience: resource,
        accessTokenTTL: seconds,
        accessTokenFormat: new URL(resource).pathname.endsWith("/opaque") ? "opaque" : "jwt",
        jwt: { sign: { alg: "ES256" } },
      }),
    },
  },
});
provider.on("server_error", (_ctx, error) => console.error(error));

/** Does what a person would do on the pages. */
async function interact(request, response) {
  const details = await provider.interactionDetails(request, response);
  const { prompt, params, session } = details;
  if (prompt.name === "login") {
    await provider.interactionFinished(request, response, { login: { accountId: params.login_hint ?? "ann" } });
    return;
  }
  const grant = new provider.Grant({ accountId: session.accountId, clientId: params.client_id });
  grant.addOIDCScope(`openid offline_access groups ${SCOPES}`);
  for (const resource of [params.resource ?? []].flat()) grant.addResourceScope(resource, params.scope ?? SCOPES);
  const grantId = await grant.save();
  await provider.interactionFinished(request, response, { consent: { grantId } }, { mergeWithLastSubmission: true });
}

const answer = provider.callback();

/** Registers a client for all scopes, whichever it names: clients name those of their first request, and want more later. */
async function register(request, response) {
  let text = "";
  for await (const piece of request.setEncoding("utf8")) text += piece;
  const { scope, ...about } = JSON.parse(text);
  request.body = about;
  await answer(request, response);
}

const routes = { "/interaction/": interact, "/reg": register };
createServer((request, response) => {
  const route = Object.keys(routes).find((path) => request.url.startsWith(path) && (path !== "/reg" || request.method === "POST"));
  (routes[route] ?? answer)(request, response).catch((error) => {
    console.error(error);
    response.writeHead(500).end();
  });
}).listen(port, "127.0.0.1", () => console.log(issuer));
