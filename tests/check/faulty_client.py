"""A small client that keeps every rule, and faults that can be switched on in it: ``python -m ... FAULT ERA URL``.

It lists the tools of a server, calls each, and ends. It is written by hand, so that no part of the library hides a
fault. ``CLIENT_FAULTS`` says which rule each fault breaks, in which trial, and where that is found.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from itertools import count
from typing import Any, NamedTuple

Json = dict[str, Any]
MODERN = "2026-07-28"
LEGACY = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
META = "io.modelcontextprotocol/"
NAMED = {"tools/call": "name"}


class ClientFault(NamedTuple):
    """What is wrong: the rule, the trial in which it is found, and where."""

    rule: str
    trial: str
    place: str
    level: str = "error"
    era: str = "legacy"


CLIENT_FAULTS = {
    "no version of JSON-RPC": ClientFault("client.message", "older", "initialize"),
    "sends a batch": ClientFault("client.message", "older", "an answer"),
    "sends rubbish": ClientFault("client.message", "older", "an answer"),
    "fraction as id": ClientFault("client.id", "older", "tools/list"),
    "same ids": ClientFault("client.id-used", "older", "tools/list"),
    "no name": ClientFault("client.opening", "older", "initialize"),
    "capability is true": ClientFault("client.opening", "older", "initialize"),
    "not initialized": ClientFault("client.initialized", "older", "2025-03-26"),
    "any revision": ClientFault("client.revision", "unknown-revision", "1999-12-31", "advice"),
    "no capabilities": ClientFault("client.metadata", "rounds", "tools/list", era="modern"),
    "accepts JSON only": ClientFault("client.accept", "older", "tools/list"),
    "no revision header": ClientFault("client.revision-header", "asks", "tools/list"),
    "no session header": ClientFault("client.session-header", "older", "tools/list"),
    "no method header": ClientFault("client.method-header", "rounds", "tools/list", era="modern"),
    "no name header": ClientFault("client.method-header", "rounds", "tools/call", era="modern"),
    "refuses ping": ClientFault("client.ping", "asks", "the answer to ping"),
    "silent to the unknown": ClientFault("client.silent", "asks", "the server asks"),
    "silent to persons": ClientFault("client.silent-person", "asks", "the server asks", "advice"),
    "answers the unknown": ClientFault("client.unknown-method", "asks", "antiphon-check/nothing"),
    "code of the unknown": ClientFault("client.unknown-method-code", "asks", "antiphon-check/nothing", "advice"),
    "undeclared roots": ClientFault("client.undeclared", "asks", "roots/list"),
    "no model": ClientFault("client.completion", "asks", "sampling/createMessage: result"),
    "action is yes": ClientFault("client.elicited", "asks", "elicitation/create: result.action"),
    "number is text": ClientFault("client.elicited-content", "asks", "elicitation/create: result", "advice"),
    "root on the web": ClientFault("client.roots", "asks", "roots/list: result.roots[0].uri"),
    "model of the modern": ClientFault(
        "client.completion", "rounds", "tools/call: params.inputResponses.sampling", era="modern"
    ),
    "no state": ClientFault("client.round", "rounds", "tools/call", era="modern"),
    "one answer of three": ClientFault("client.round", "rounds", "tools/call", era="modern"),
    "fails at the unknown": ClientFault("client.unknown-notification", "notification", "unknown notif", "advice"),
    "takes any reply": ClientFault("client.wrong-id", "unknown-id", "answers no request", "advice"),
    "crashes": ClientFault("client.crashed", "deep", "nested", "advice"),
    "waits for ever": ClientFault("client.stuck", "wrong-type", "a number", "advice"),
    "same page again": ClientFault("client.repeated-cursor", "repeated-cursor", "the same cursor", "advice"),
    "first page only": ClientFault("client.first-page", "endless", "pages", "advice"),
    "does not resume": ClientFault("client.not-resumed", "cut", "cut", "advice"),
    "another event": ClientFault("client.not-resumed", "cut", "cut", "advice"),
    "comes back at once": ClientFault("client.retry", "cut", "cut"),
    "keeps its session": ClientFault("client.session-kept", "lost", "session that has ended"),
    "leaves its session": ClientFault("client.session-left", "lost", "session that has ended", "advice"),
    "follows": ClientFault("client.redirected", "redirect", "another origin", "advice"),
    "gives its token": ClientFault("client.token", "redirect", "another origin"),
    "calls nothing": ClientFault("client.unreached", "asks", "during which the server asks", "advice"),
    "never ends": ClientFault("client.unfinished", "older", "2025-03-26", "advice"),
}
"""Each fault by what is wrong."""


class Gone(Exception):
    """The server refused a request with this status."""


class TriedClient:
    """The client, with one fault."""

    def __init__(self, fault: str, era: str, url: str) -> None:
        self.fault, self.modern, self.url = fault, era == "modern", url
        self.token = os.environ["ANTIPHON_CHECK_TOKEN"]
        self.ids = count(1)
        self.revision, self.session = MODERN if self.modern else "", ""

    @property
    def capabilities(self) -> Json:
        """What the client declares."""
        found: Json = {"roots": {}, "sampling": {}, "elicitation": {}}
        if self.fault == "undeclared roots":
            del found["roots"]
        return {**found, "roots": True} if self.fault == "capability is true" else found

    def make_headers(self, message: Json) -> dict[str, str]:
        """Return the headers of a POST."""
        accept = "application/json" if self.fault == "accepts JSON only" else "application/json, text/event-stream"
        found = {"Content-Type": "application/json", "Accept": accept, "Authorization": f"Bearer {self.token}"}
        if self.revision and self.fault != "no revision header":
            found["MCP-Protocol-Version"] = self.revision
        if self.session and self.fault != "no session header":
            found["Mcp-Session-Id"] = self.session
        method = message.get("method")
        if self.modern and method and self.fault != "no method header":
            found["Mcp-Method"] = method
        if self.modern and method in NAMED and self.fault != "no name header":
            found["Mcp-Name"] = message["params"][NAMED[method]]
        return found

    def send(self, message: Any, verb: str = "POST", headers: dict[str, str] | None = None, url: str = "") -> Any:
        """Send an HTTP request, and return its response."""
        host, _, path = (url or self.url).removeprefix("http://").partition("/")
        import http.client  # not above: the client over stdio, which uses this module, starts often and needs none

        connection = http.client.HTTPConnection(host)
        body = message if isinstance(message, bytes) else json.dumps(message).encode()
        given = headers or self.make_headers(message if isinstance(message, dict) else {})
        connection.request(verb, f"/{path}", body if verb == "POST" else None, given)
        response = connection.getresponse()
        if response.status == 307 and self.fault in ("follows", "gives its token"):
            kept = given if self.fault == "gives its token" else {"Accept": given["Accept"]}
            return self.send(message, verb, kept, str(response.headers["Location"]))
        if response.status >= 300:
            raise Gone(response.status)
        return response

    def request(self, method: str, params: Json, **members: Any) -> Json:
        """Send a request, answer what is asked meanwhile, and return the result."""
        if self.modern:
            meta = {"protocolVersion": self.revision, "clientInfo": {"name": "x", "version": "1"}}
            stated = {} if self.fault == "no capabilities" else {"clientCapabilities": self.capabilities}
            params = {**params, "_meta": {f"{META}{name}": value for name, value in (meta | stated).items()}}
        number: Any = 1 if self.fault == "same ids" else next(self.ids)
        if self.fault == "fraction as id" and method != "initialize":
            number += 0.5
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params, **members}
        if self.fault == "no version of JSON-RPC":
            del message["jsonrpc"]
        response = self.send(message)
        self.session = response.headers.get("Mcp-Session-Id") or self.session
        return self.wait_for_reply(response, message["id"])

    def wait_for_reply(self, response: Any, number: object) -> Json:
        """Read a response until it has the reply; go on by a GET where its stream was cut."""
        event, retry = "", 0
        for name, data in self.read_fields(response):
            event = data.decode() if name == b"id" else event
            retry = int(data) if name == b"retry" else retry
            found = self.take(data, number) if name == b"data" and data else None
            if found is not None:
                return found
        if not event or self.fault == "does not resume":
            raise Gone(0)
        time.sleep(0 if self.fault == "comes back at once" else retry / 1000)
        event = "another" if self.fault == "another event" else event
        headers = {**self.make_headers({}), "Accept": "text/event-stream", "Last-Event-ID": event}
        return self.wait_for_reply(self.send(None, "GET", headers), number)

    def read_fields(self, response: Any) -> Iterator[tuple[bytes, bytes]]:
        """Yield the fields of the events of a response, or its only message."""
        if "json" in response.headers["Content-Type"]:
            yield b"data", response.read()
            return
        while line := response.readline():
            name, _, data = line.rstrip(b"\n").partition(b": ")
            yield name, data

    def take(self, data: bytes, number: object) -> Json | None:
        """Take a message: answer it if it is a request, return its result if it is the awaited reply."""
        try:
            message: Json = json.loads(data)
        except UnicodeDecodeError:
            return None
        except RecursionError:
            if self.fault == "crashes":
                os.kill(os.getpid(), signal.SIGSEGV)
            return None
        except ValueError:
            return None
        if "method" not in message:
            is_ours = message["id"] == number or self.fault == "takes any reply"
            return message.get("result", {}) if is_ours else None
        if "id" in message:
            answer = self.answer(message["method"])
            if answer is not None:
                self.send({"jsonrpc": "2.0", "id": message["id"], **answer})
        elif self.fault == "fails at the unknown":
            raise Gone(0)
        return None

    def answer(self, method: str) -> Json | None:
        """Answer a request of the server."""
        refusal = {"error": {"code": -32601, "message": "unknown"}}
        root = "https://example.com" if self.fault == "root on the web" else "file:///project"
        completion = {"role": "assistant", "content": {"type": "text", "text": "hello"}, "model": "x"}
        if self.fault in ("no model", "model of the modern"):
            del completion["model"]
        number = "three" if self.fault == "number is text" else 3
        action = "yes" if self.fault == "action is yes" else "accept"
        answers = {
            "ping": {"result": {}} if self.fault != "refuses ping" else refusal,
            "roots/list": {"result": {"roots": [{"uri": root}]}},
            "sampling/createMessage": {"result": completion},
            "elicitation/create": {"result": {"action": action, "content": {"number": number}}},
        }
        if method in answers:
            is_silent = self.fault == "silent to persons" and method == "sampling/createMessage"
            return None if is_silent else answers[method]
        unknown: dict[str, Json | None] = {
            "silent to the unknown": None,
            "answers the unknown": {"result": {}},
            "code of the unknown": {"error": {"code": -32000, "message": "what?"}},
        }
        return unknown.get(self.fault, refusal)

    def open(self) -> None:
        """Open a session, on a revision that both speak."""
        self.session = ""
        if self.modern:
            return
        info = {"version": "1"} if self.fault == "no name" else {"name": "x", "version": "1"}
        params = {"protocolVersion": LEGACY[-1], "capabilities": self.capabilities, "clientInfo": info}
        self.revision = ""
        self.revision = self.request("initialize", params).get("protocolVersion", "")
        if self.revision not in LEGACY and self.fault != "any revision":
            raise Gone(0)
        if self.fault != "not initialized":
            self.send({"jsonrpc": "2.0", "method": "notifications/initialized"})

    def list_tools(self) -> list[str]:
        """List the tools, on at most 50 pages."""
        names: list[str] = []
        cursors: list[str] = []
        while True:
            page = self.request("tools/list", {"cursor": cursors[-1]} if cursors else {})
            tools = page.get("tools")
            if not isinstance(tools, list):
                if self.fault == "waits for ever":
                    time.sleep(3600)
                raise Gone(0)
            names += [tool["name"] for tool in tools]
            cursor = page.get("nextCursor")
            is_known = cursor in cursors and self.fault != "same page again"
            if cursor is None or is_known or self.fault == "first page only" or len(cursors) > 150:
                return [*dict.fromkeys(names)]
            cursors.append(cursor)

    def call(self, name: str) -> None:
        """Call a tool; give the input that its result asks for."""
        params: Json = {"name": name, "arguments": {}}
        result = self.request("tools/call", params)
        if result.get("resultType") == "input_required":
            asks = result["inputRequests"].items()
            responses: Json = {key: (self.answer(ask["method"]) or {})["result"] for key, ask in asks}
            if self.fault == "one answer of three":
                responses = {"roots": responses["roots"]}
            state = {} if self.fault == "no state" else {"requestState": result["requestState"]}
            self.request("tools/call", {**params, "inputResponses": responses, **state})

    def run(self) -> None:
        """List the tools and call each; in a new session where the old one has ended."""
        self.open()
        if self.fault in ("sends a batch", "sends rubbish"):
            ping = {"jsonrpc": "2.0", "id": "p", "method": "ping"}
            self.send([ping, ping] if self.fault == "sends a batch" else b"hello")
        try:
            names = self.list_tools()
        except Gone as gone:
            if gone.args[0] != 404 or self.fault == "leaves its session":
                return
            if self.fault != "keeps its session":
                self.open()
            names = self.list_tools()
        while self.fault == "never ends":
            self.request("ping", {})
            time.sleep(0.02)
        for name in names if self.fault != "calls nothing" else ():
            self.call(name)


if __name__ == "__main__":
    try:
        TriedClient(*sys.argv[1:]).run()
    except Gone as refused:
        sys.exit(f"refused: {refused}")
