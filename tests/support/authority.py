"""An authorization server and a protected MCP server on loopback, whose every answer a test can change.

The authorization server asks nobody: its page redirects at once. It rotates refresh tokens, and ends a login when one
comes twice, as real ones do. The MCP server speaks 2026-07-28, as far as one tool needs.
"""

from __future__ import annotations

import base64
import hashlib
import json
import secrets
from contextlib import asynccontextmanager
from urllib.parse import parse_qsl, urlencode

from aiohttp import ClientSession, web

TOOLS = [{"name": "echo", "inputSchema": {"type": "object"}}, {"name": "write", "inputSchema": {"type": "object"}}]


class Authority:
    """An authorization server. ``metadata``: changes to what it says of itself; ``None`` leaves a member out."""

    def __init__(self):
        self.url = ""
        self.changes = {}
        self.requests = []
        self.clients = {}
        self.codes = {}
        self.tokens = {}
        """Access tokens that are good, and the scopes of each."""
        self.refresh = {}
        self.used = set()
        self.lasts = 3600
        self.grants = None
        """What ``scope`` a token gets instead of what was asked for."""
        self.answers = {}
        """Functions that answer requests for further paths."""
        self.answer = None
        """A function that answers a token request instead."""
        self.redirect = {}
        """Changes to the parameters that the browser brings back."""
        self.ended = 0
        """How many logins were ended since a refresh token came twice."""

    def metadata(self):
        said = {
            "issuer": self.url,
            "authorization_endpoint": f"{self.url}/authorize",
            "token_endpoint": f"{self.url}/token",
            "registration_endpoint": f"{self.url}/register",
            "code_challenge_methods_supported": ["S256"],
            "token_endpoint_auth_methods_supported": ["none", "client_secret_basic"],
            "authorization_response_iss_parameter_supported": True,
            **self.changes,
        }
        return {name: value for name, value in said.items() if value is not None}

    def seen(self, path):
        """The requests for a path, in order: their parameters or their JSON."""
        return [what for where, what, _ in self.requests if where == path]

    async def handle(self, request):
        body = await request.read()
        path = request.path
        if request.content_type == "application/json":
            what = json.loads(body or b"{}")
        else:
            what = dict(parse_qsl(body.decode() or request.query_string))
        self.requests.append((path, what, request.headers))
        if path == "/.well-known/oauth-authorization-server":
            return web.json_response(self.metadata())
        known = {"/register": self._register, "/authorize": self._authorize, "/token": self._token, **self.answers}
        return known[path](what, request) if path in known else web.Response(status=404)

    def _register(self, what, request):
        client = f"client-{len(self.clients)}"
        self.clients[client] = what
        return web.json_response({**what, "client_id": client}, status=201)

    def _authorize(self, what, request):
        code = secrets.token_hex(8)
        self.codes[code] = what
        back = {"code": code, "state": what["state"], "iss": self.url, **self.redirect}
        query = urlencode({name: value for name, value in back.items() if value is not None})
        raise web.HTTPFound(f"{what['redirect_uri']}?{query}")

    def _token(self, what, request):
        if self.answer is not None:
            return self.answer(what, request)
        kind = what["grant_type"]
        if kind == "authorization_code":
            asked = self.codes.pop(what["code"])
            digest = hashlib.sha256(what["code_verifier"].encode()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b"=").decode() == asked["code_challenge"]
            return self.grant(asked.get("scope", ""))
        if kind == "refresh_token":
            return self._refreshed(what["refresh_token"])
        return self.grant(what.get("scope", ""), refreshable=False)

    def _refreshed(self, token):
        if token in self.used:
            # It came twice: whoever has stolen it, nobody keeps the login.
            self.ended += 1
            self.refresh.clear()
            self.tokens.clear()
        if token not in self.refresh:
            return web.json_response({"error": "invalid_grant"}, status=400)
        self.used.add(token)
        return self.grant(self.refresh.pop(token))

    def grant(self, scope, *, refreshable=True, **more):
        scope = scope if self.grants is None else self.grants
        token, refresh = f"access-{secrets.token_hex(8)}", f"refresh-{secrets.token_hex(8)}"
        self.tokens[token] = set(scope.split())
        said = {"access_token": token, "token_type": "Bearer", "expires_in": self.lasts, "scope": scope, **more}
        if refreshable:
            self.refresh[refresh] = scope
            said["refresh_token"] = refresh
        return web.json_response(said)


class Resource:
    """An MCP server that lets in who has a token of its authority."""

    def __init__(self, authority):
        self.authority = authority
        self.url = ""
        self.requests = []
        self.changes = {}
        self.hint = True
        self.scopes = {"tools/list": set(), "echo": set(), "write": {"write"}}
        """What each method or tool needs."""
        self.challenge = None
        """A function that answers a request that is not let in, instead."""

    def metadata(self):
        said = {"resource": self.url, "authorization_servers": [self.authority.url], **self.changes}
        return {name: value for name, value in said.items() if value is not None}

    def seen(self):
        """What each request to the server itself carried as ``Authorization``."""
        return [headers.get("Authorization") for path, headers in self.requests if path == "/mcp"]

    async def handle(self, request):
        self.requests.append((request.path, request.headers))
        if request.path == "/.well-known/oauth-protected-resource/mcp":
            return web.json_response(self.metadata())
        if request.path != "/mcp":
            return web.Response(status=404)
        message = json.loads(await request.read())
        refusal = self._refusal(request, message)
        return refusal if refusal is not None else web.json_response(reply(message))

    def _refusal(self, request, message):
        scheme, _, token = request.headers.get("Authorization", "").partition(" ")
        granted = self.authority.tokens.get(token) if scheme in ("Bearer", "DPoP") else None
        if granted is None:
            return self.refuse(401, error="invalid_token" if token else None)
        method = message["method"]
        needed = self.scopes.get(message["params"]["name"] if method == "tools/call" else method, set())
        if not needed <= granted:
            return self.refuse(403, error="insufficient_scope", scope=" ".join(sorted(needed)))
        return None

    def refuse(self, status, **parameters):
        if self.hint:
            parameters["resource_metadata"] = self.url.replace("/mcp", "/.well-known/oauth-protected-resource/mcp")
        said = ", ".join(f'{name}="{value}"' for name, value in parameters.items() if value is not None)
        return web.Response(status=status, headers={"WWW-Authenticate": f"Bearer {said}".strip()})


def reply(message):
    """Answer a request of 2026-07-28."""
    known = {
        "server/discover": {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}},
        "tools/list": {"tools": TOOLS, "ttlMs": 0, "cacheScope": "private"},
        "tools/call": {"content": [{"type": "text", "text": "done"}]},
    }
    if message["method"] not in known:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "Method not found"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": {"resultType": "complete", **known[message["method"]]}}


@asynccontextmanager
async def listening(handle):
    """Serve requests on loopback; the value is the origin."""
    app = web.Application(client_max_size=1024 * 1024)
    app.router.add_route("*", "/{rest:.*}", handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def protected():
    """Run both; the value is the resource, which knows its authority."""
    authority = Authority()
    resource = Resource(authority)
    async with listening(authority.handle) as one, listening(resource.handle) as other:
        authority.url, resource.url = one, f"{other}/mcp"
        yield resource


class Person:
    """Somebody who signs in as soon as a page is shown; ``pages`` are those that were."""

    def __init__(self, *, pastes=True):
        self.pages = []
        self.pastes = pastes

    async def __call__(self, address):
        self.pages.append(address)
        async with ClientSession() as session, session.get(address, allow_redirects=False) as response:
            back = response.headers["Location"]
        if self.pastes:
            return back
        # As a browser does: whatever comes of it is for the person to see.
        async with ClientSession() as session, session.get(back) as response:
            await response.read()
        return None

    @property
    def asked(self):
        """The parameters of each page."""
        return [dict(parse_qsl(page.partition("?")[2])) for page in self.pages]
