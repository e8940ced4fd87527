"""A protected server that listens by itself, an issuer it trusts, and requests to it as they travel."""

from __future__ import annotations

import contextlib
import json
import re
from contextlib import asynccontextmanager

import aiohttp

from antiphon import Context, Server
from antiphon.auth.server.resource_server import ResourceServer
from tests.support.asgi import taking_turns
from tests.support.issuer import AUDIENCE, Issuer
from tests.support.network import INITIALIZE, INITIALIZED, META, call, listening

HEADERS = {"accept": "application/json, text/event-stream", "content-type": "application/json", "host": "localhost"}


def shop(**options):
    """Make a server whose features want different things of a token."""
    server = Server("shop", **options)

    @server.tool
    async def whoami(ctx: Context) -> str:
        """Say who asks."""
        facts = ctx.request
        return json.dumps([facts.principal, sorted(facts.scopes), facts.claims.get("client_id")])

    @server.tool(scopes=["orders:read"])
    def orders() -> str:
        """List orders."""
        return "two"

    @server.tool(scopes=["orders:read", "orders:write"])
    def order(what: str) -> str:
        """Order something."""
        return what

    @server.resource("shop://stock", scopes=["stock:read"])
    def stock() -> str:
        """Count what is there."""
        return "7"

    @server.resource("shop://stock/{item}", scopes=["stock:read"])
    def item(item: str) -> str:
        """Count one thing."""
        return item

    @server.prompt(scopes=["prompts:use"])
    def greet(name: str) -> str:
        """Greet somebody."""
        return f"Hello {name}"

    @server.complete("greet", "name")
    def names(value: str) -> list[str]:
        """Complete a name."""
        return ["Ann"]

    return server


class Answer:
    """A response: status, headers, and what its body says."""

    def __init__(self, status, headers, body):
        self.status = status
        self.headers = headers
        self.body = body

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def text(self):
        """What a tool has said."""
        return self.json["result"]["content"][0]["text"]

    @property
    def challenge(self):
        """Return the scheme and the parameters of the challenge."""
        scheme, _, rest = self.headers.get("www-authenticate", "").partition(" ")
        return scheme, dict(re.findall(r'(\w+)="((?:[^"\\]|\\.)*)"', rest))

    @property
    def error(self):
        """Return the error of the challenge."""
        return self.challenge[1].get("error")


class Protected:
    """A server at work, and how to speak to it."""

    def __init__(self, place, issuer, auth, web, path="/mcp"):
        self.url = f"http://{place}{path}"
        self.origin = f"http://{place}"
        self.issuer = issuer
        self.auth = auth
        self._web = web

    async def send(self, method, url, headers, body=None):
        """Make a request; headers may come several times."""
        data = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        async with self._web.request(method, url, headers=headers, data=data, allow_redirects=False) as response:
            return Answer(response.status, response.headers, await response.read())

    async def tool(self, name="whoami", token=None, *, scheme="Bearer", url=None, arguments=None, **headers):
        """Call a tool, by the newest revision."""
        said = {"authorization": f"{scheme} {token}"} if token is not None else {}
        params = {"arguments": arguments or {}, "name": name}
        return await self.modern("tools/call", name, params, url, **said, **headers)

    async def modern(self, method, name=None, params=None, url=None, **headers):
        """Make a request of the newest revision."""
        sent = {**HEADERS, "mcp-protocol-version": "2026-07-28", "mcp-method": method}
        if name is not None:
            sent["mcp-name"] = name
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**(params or {}), "_meta": META}}
        return await self.send("POST", url or self.url, {**sent, **headers}, message)

    async def session(self, token):
        """Open a session of a legacy client; return the headers that name it."""
        bearer = {"authorization": f"Bearer {token}"}
        opened = await self.send("POST", self.url, {**HEADERS, **bearer}, INITIALIZE)
        assert opened.status == 200
        named = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": "2025-11-25"}
        done = await self.send("POST", self.url, {**HEADERS, **bearer, **named}, INITIALIZED)
        assert done.status == 202
        return named

    async def legacy(self, session, token, name="whoami", **arguments):
        """Call a tool in a session of a legacy client."""
        headers = {**HEADERS, **session, "authorization": f"Bearer {token}"}
        return await self.send("POST", self.url, headers, call(name, **arguments))


@asynccontextmanager
async def protected(issuer=None, server=None, *, issuers=None, transport="http", serve=None, **options):
    """Run a protected server. ``options``: of its ``ResourceServer``; ``serve``: of its endpoint."""
    async with contextlib.AsyncExitStack() as stack:
        if issuer is None:
            issuer = await stack.enter_async_context(Issuer().open())
        auth = ResourceServer(issuers or issuer.url, options.pop("audience", AUDIENCE), **options)
        network = await stack.enter_async_context(listening(server or shop(), transport, auth=auth, **(serve or {})))
        web = await stack.enter_async_context(aiohttp.ClientSession())
        yield Protected(network.place, issuer, auth, web, {"sse": "/sse", "websocket": "/ws"}.get(transport, "/mcp"))


@asynccontextmanager
async def protected_replicas():
    """Run three replicas of the server, of which each request reaches the next one."""
    async with (
        Issuer().open() as issuer,
        aiohttp.ClientSession() as web,
        taking_turns(shop, lambda: {"auth": ResourceServer(issuer.url, AUDIENCE)}) as place,
    ):
        yield Protected(place, issuer, None, web)
