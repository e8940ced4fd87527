"""The small server over Streamable HTTP, and the faults that only HTTP has."""

from __future__ import annotations

import asyncio
import json
import secrets
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from aiohttp import web

from tests.check.faulty_server import LEGACY, MODERN, VERSION, answer, notify

SESSION, REVISION = "Mcp-Session-Id", "MCP-Protocol-Version"


@dataclass(frozen=True)
class WebFault:
    """What is wrong, where a check has to find it, and the rule that it breaks; its name switches it on."""

    rule: str
    place: str
    level: str = "error"


WEB_FAULTS = {
    "no fault": WebFault("", ""),
    "html": WebFault("http.content-type", "tools/list"),
    "200 for notifications": WebFault("http.accepted", "POST of a notification"),
    "body for notifications": WebFault("http.accepted", "POST of a notification"),
    "no get": WebFault("http.get", "GET"),
    "get of html": WebFault("http.get", "GET"),
    "no resumption": WebFault("http.resume", "GET with Last-Event-ID", "advice"),
    "grows with each session": WebFault("memory.session", "sessions opened and closed", "advice"),
    "redirects": WebFault("http.redirect", "initialize", "advice"),
    "takes garbage": WebFault("http.garbage", "POST of a broken body", "advice"),
    "fails on garbage": WebFault("http.garbage", "POST of a broken body", "advice"),
    "breaks when cancelled": WebFault("cancel.survival", "a request that is cancelled"),
    "breaks when a stream is closed": WebFault("cancel.survival", "a request that is cancelled"),
    "crosses answers": WebFault("session.crossed", "two sessions at the same moment"),
    "crosses progress": WebFault("session.crossed", "two sessions at the same moment"),
    "one session": WebFault("session.together", "two sessions at the same moment", "advice"),
    "any origin": WebFault("http.origin", "POST with origin: http://attacker.example"),
    "any host": WebFault("http.host", "POST with host: attacker.example", "advice"),
    "plain text": WebFault("http.plain-text", "POST with content-type: text/plain", "advice"),
    "any version": WebFault("http.version", "POST with mcp-protocol-version: 1999-12-31"),
    "odd session id": WebFault("http.session-id", "initialize: Mcp-Session-Id id"),
    "one session id": WebFault("http.session-shared", "Mcp-Session-Id of two sessions", "advice"),
    "short session id": WebFault("http.session-guess", "initialize: Mcp-Session-Id id", "advice"),
    "needs no session": WebFault("http.session-missing", "POST without Mcp-Session-Id", "advice"),
    "sessions never end": WebFault("http.session-ended", "POST after DELETE"),
    "400 for ended sessions": WebFault("http.session-ended", "POST after DELETE"),
    "no delete": WebFault("http.delete", "DELETE", "advice"),
    "any method header": WebFault("headers.mismatch", "POST with mcp-method: ping"),
    "no method header": WebFault("headers.mismatch", "POST without mcp-method"),
    "any revision header": WebFault("headers.mismatch", "POST with mcp-protocol-version: 2025-11-25"),
    "any name header": WebFault("headers.mismatch", "POST with mcp-name: antiphon-check://another"),
    "200 for unknown": WebFault("headers.unknown-method", "POST of an unknown method"),
    "bare 401": WebFault("auth.challenge", "POST: WWW-Authenticate", "advice"),
    "metadata elsewhere": WebFault("auth.challenge", "POST: WWW-Authenticate", "advice"),
    "metadata without resource": WebFault("auth.metadata", "/.well-known/oauth-protected-resource"),
    "metadata without servers": WebFault("auth.metadata", "authorization_servers"),
    "server without tls": WebFault("auth.metadata", "authorization_servers[0]"),
}
SIGNING_IN = {"bare 401", "server without tls", *(name for name in WEB_FAULTS if name.startswith("metadata"))}


class FaultyWeb:
    """One endpoint, with one fault."""

    def __init__(self, fault: str) -> None:
        self.fault = fault
        self.sessions: set[str] = set()
        self.ended: set[str] = set()
        self.kept: list[bytes] = []
        self.active: set[str] = set()
        self.waiting: dict[str, tuple[Any, asyncio.Future[Any]]] = {}
        self.is_broken = False
        self.root = ""

    async def handle(self, request: web.Request) -> web.Response:
        """Answer one HTTP request."""
        refused = self.guard(request)
        if refused is not None:
            return refused
        kinds: dict[str, Callable[[web.Request], Awaitable[web.Response]]] = {
            "POST": self.post, "GET": self.get, "DELETE": self.delete,
        }  # fmt: skip
        return await kinds[request.method](request)

    def guard(self, request: web.Request) -> web.Response | None:
        """Refuse what no method may do."""
        if self.fault == "redirects":
            return web.Response(status=307, headers={"Location": "http://attacker.example/mcp"})
        if self.fault != "any origin" and "Origin" in request.headers:
            return web.Response(status=403)
        if self.fault != "any host" and not request.host.startswith("127.0.0.1"):
            return web.Response(status=421)
        if self.fault in SIGNING_IN:
            place = (
                "http://other.example/metadata"
                if self.fault == "metadata elsewhere"
                else f"{self.root}/.well-known/oauth-protected-resource"
            )
            quoted = {} if self.fault == "bare 401" else {"WWW-Authenticate": f'Bearer resource_metadata="{place}"'}
            return web.Response(status=401, headers=quoted)
        return None

    async def metadata(self, _request: web.Request) -> web.Response:
        """Describe the resource."""
        if self.fault not in SIGNING_IN or self.fault in ("bare 401", "metadata elsewhere"):
            return web.Response(status=404)
        found: dict[str, Any] = {"resource": self.root, "authorization_servers": ["https://login.example"]}
        if self.fault == "metadata without resource":
            del found["resource"]
        if self.fault == "metadata without servers":
            found["authorization_servers"] = []
        if self.fault == "server without tls":
            found["authorization_servers"] = ["http://login.example"]
        return web.json_response(found)

    async def get(self, request: web.Request) -> web.Response:
        """Refuse to open a stream, since nothing would be sent on it."""
        if request.headers.get("Last-Event-ID") == "one" and self.fault == "resumes":
            return web.Response(text=": the stream goes on\n\n", content_type="text/event-stream")
        if self.fault == "get of html":
            return web.Response(text="<p>hello", content_type="text/html")
        return web.Response(status=404 if self.fault == "no get" else 405)

    async def delete(self, request: web.Request) -> web.Response:
        """End a session."""
        if self.fault == "no delete":
            return web.Response(status=400)
        self.ended.add(request.headers.get(SESSION, ""))
        return web.Response(status=204)

    async def post(self, request: web.Request) -> web.Response:
        """Take one message."""
        try:
            message = json.loads(await request.read())
        except ValueError:
            return web.Response(status={"takes garbage": 200, "fails on garbage": 500}.get(self.fault, 400))
        if self.fault != "plain text" and request.content_type != "application/json":
            return web.Response(status=415)
        many = cast("list[dict[str, Any]]", message if isinstance(message, list) else [message])
        modern = VERSION in (many[0].get("params", {}).get("_meta") or {}) or many[0].get("method") == "server/discover"
        refused = self.check_modern(request, many[0]) if modern else self.check_legacy(request, many[0])
        if refused is not None:
            return refused
        if "id" not in many[0]:
            self.active.add(request.headers.get(SESSION, ""))
            return self.accept(many[0])
        replies = [answer(one) for one in many]
        if self.fault.startswith("breaks"):
            await self.break_once(request, many[0]["method"])
        if self.fault.startswith("crosses") and str(many[0]["id"]).startswith("shared-"):
            return await self.cross(many[0], replies[0])
        return self.respond(many[0], replies if isinstance(message, list) else replies[0], modern=modern)

    def accept(self, notification: dict[str, Any]) -> web.Response:
        """Take a notification."""
        cancelled = notification.get("params", {}).get("requestId", "antiphon-check-nothing")
        self.is_broken = self.fault == "breaks when cancelled" and cancelled != "antiphon-check-nothing"
        if self.fault == "body for notifications":
            return web.json_response({"ok": True}, status=202)
        return web.Response(status=200 if self.fault == "200 for notifications" else 202)

    async def break_once(self, request: web.Request, method: str) -> None:
        """Fail once after a request was cancelled, or its stream closed."""
        if self.fault == "breaks when a stream is closed":
            try:
                # A list takes longer than a client waits that cancels it.
                await asyncio.sleep({"tools/list": 0.8, "server/discover": 0.4}.get(method, 0.0))
            except asyncio.CancelledError:
                self.is_broken = True
                raise
        if self.is_broken:
            self.is_broken = False
            assert request.transport is not None
            request.transport.abort()

    async def cross(self, request: dict[str, Any], reply: dict[str, Any]) -> web.Response:
        """Wait for a request of another session with the same id, and send what belongs to it."""
        mine = (reply, request["params"]["_meta"]["progressToken"])
        if request["id"] in self.waiting:
            theirs, waiting = self.waiting.pop(request["id"])
            waiting.set_result(mine)
        else:
            waiting = asyncio.get_running_loop().create_future()
            self.waiting[request["id"]] = (mine, waiting)
            theirs = await waiting
        if self.fault == "crosses answers":
            return web.json_response(theirs[0])
        progress = notify("notifications/progress", progressToken=theirs[1], progress=1)
        text = "".join(f"data: {json.dumps(one)}\n\n" for one in (progress, reply))
        return web.Response(text=text, content_type="text/event-stream")

    def respond(self, request: dict[str, Any], reply: Any, *, modern: bool) -> web.Response:
        """Answer a request."""
        headers: dict[str, str] = {}
        if request["method"] == "initialize":
            session = {
                "one session id": "s" * 32,
                "short session id": str(len(self.sessions)),
                "odd session id": f"a b {secrets.token_hex(16)}",
            }
            headers[SESSION] = session.get(self.fault, secrets.token_hex(16))
            self.sessions.add(headers[SESSION])
            self.kept.append(b"x" * (1_000_000 if self.fault == "grows with each session" else 0))
            self.ended.discard(headers[SESSION])
        if self.fault == "one session" and headers and self.active - self.ended:
            return web.Response(status=503)
        if self.fault == "html" and request["method"] == "tools/list":
            return web.Response(text=json.dumps(reply), content_type="text/html")
        if self.fault in ("resumes", "no resumption") and request["method"] == "tools/list":
            return web.Response(text=f"id: one\ndata: {json.dumps(reply)}\n\n", content_type="text/event-stream")
        error: dict[str, int] = {} if isinstance(reply, list) else reply.get("error", {})
        refusals = {-32601: 404, -32022: 400, -32020: 400} if modern and self.fault != "200 for unknown" else {}
        status = refusals.get(error.get("code", 0), 200)
        return web.json_response(reply, headers=headers, status=status)

    def check_legacy(self, request: web.Request, message: dict[str, Any]) -> web.Response | None:
        """Refuse what belongs to no session, or to no revision."""
        if message.get("method") == "initialize":
            return None
        session = request.headers.get(SESSION)
        if session is None:
            return None if self.fault == "needs no session" else web.Response(status=400)
        if (session in self.ended or session not in self.sessions) and self.fault != "sessions never end":
            return web.Response(status=400 if self.fault == "400 for ended sessions" else 404)
        known = request.headers.get(REVISION, LEGACY[0]) in LEGACY
        return None if known or self.fault == "any version" else web.Response(status=400)

    def check_modern(self, request: web.Request, message: dict[str, Any]) -> web.Response | None:
        """Refuse headers that disagree with the body."""
        params = message.get("params", {})
        version = params.get("_meta", {}).get(VERSION, MODERN)
        sent = request.headers.get(REVISION)
        served = self.fault == ("any revision header" if sent in LEGACY else "any version")
        if sent != version and not served:
            return self.refuse(message)
        method = request.headers.get("Mcp-Method")
        if method is None and self.fault != "no method header":
            return self.refuse(message)
        if method not in (None, message["method"]) and self.fault != "any method header":
            return self.refuse(message)
        named = {"prompts/get": "name", "resources/read": "uri"}.get(message["method"], "")
        wrong = named and request.headers.get("Mcp-Name") != params.get(named)
        return self.refuse(message) if wrong and self.fault != "any name header" else None

    def refuse(self, message: dict[str, Any]) -> web.Response:
        """Answer that header and body disagree."""
        error = {"code": -32020, "message": "header and body disagree"}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "error": error}, status=400)


@asynccontextmanager
async def start_web(fault: str) -> AsyncGenerator[str]:
    """Serve with a fault in a process of its own for as long as the context lasts; gives its URL."""
    words = [sys.executable, "-m", "tests.check.faulty_web", fault]
    root = Path(__file__).parents[2]
    process = await asyncio.create_subprocess_exec(*words, cwd=root, stdout=asyncio.subprocess.PIPE)
    assert process.stdout is not None
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


@asynccontextmanager
async def serve_web(fault: str) -> AsyncGenerator[str]:
    """Serve with a fault for as long as the context lasts; gives its URL."""
    faulty = FaultyWeb(fault)
    app = web.Application(client_max_size=32 * 1024 * 1024)
    app.router.add_route("*", "/.well-known/oauth-protected-resource", faulty.metadata)
    app.router.add_route("*", "/mcp", faulty.handle)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=1, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    try:
        address: Any = runner.addresses[0]
        faulty.root = f"http://127.0.0.1:{address[1]}"
        yield f"{faulty.root}/mcp"
    finally:
        await runner.cleanup()


async def main(fault: str) -> None:
    """Serve until the process is ended."""
    async with serve_web(fault) as url:
        print(url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
