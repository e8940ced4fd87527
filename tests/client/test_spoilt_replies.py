"""Replies that break JSON, Unicode or their id: the call is answered or fails at once, on every transport."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from antiphon import CallTimeout, Client, PeerError, RemoteProtocolError, Server
from antiphon.errors import AntiphonError
from antiphon.gateway import Gateway
from tests.support.raw_server import RawServer
from tests.support.web import serving, stream

LEGACY = "2025-06-18"
TRANSPORTS = ["memory", "stdio", "http", "http stream", "websocket", "sse"]
FRAMED = ["http", "http stream", "websocket", "sse"]
CONTENT = '"content":[{"type":"text","text":"x"}]'
GOOD = '{"jsonrpc":"2.0","id":%d,"result":{' + CONTENT + "}}"
BOM = "\N{ZERO WIDTH NO-BREAK SPACE}"
PROGRAM = r"""
import json, sys
how = sys.argv[1].encode("latin-1").decode("unicode_escape").encode("latin-1")
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if id is None: continue
    text = how.replace(b"%d", b"%d" % id)
    if method != sys.argv[2]:
        info = {"name": "s", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
        text = json.dumps({"jsonrpc": "2.0", "id": id, "result": result}).encode()
    sys.stdout.buffer.write(text + b"\n")
    sys.stdout.buffer.flush()
"""

READ = {
    "float id": (GOOD.replace('"id":%d', '"id":%d.0').encode(), "x"),
    "byte order mark": ((BOM + GOOD).encode(), "x"),
    "half a pair, escaped": (GOOD.replace('"x"', '"a\\ud83d"').encode(), "a\ufffd"),
    "the other half, escaped": (GOOD.replace('"x"', '"\\ude00a"').encode(), "\ufffda"),
    "a pair and two halves": (GOOD.replace('"x"', r'"\ud83d\ude00\ude00\ud83d"').encode(), "\U0001f600\ufffd\ufffd"),
    "an escaped backslash": (GOOD.replace('"x"', r'"\\ud83d \ud83d"').encode(), "\\ud83d \ufffd"),
    "half a pair, raw": (GOOD.replace('"x"', '"a\ud83d"').encode("utf-8", "surrogatepass"), "a\ufffd\ufffd\ufffd"),
    "latin-1": (GOOD.replace('"x"', '"\xe9"').encode("latin-1"), "\ufffd"),
    "error: null": (GOOD.replace('"result"', '"error":null,"result"').encode(), "x"),
    "all that it lacks: null": (GOOD.encode()[:-1] + b',"method":null,"params":null}', "x"),
    "text id": (GOOD.replace('"id":%d', '"id":"%d"').encode(), "x"),
}
SPOILT = {
    "null id": GOOD.replace('"id":%d', '"id":null').encode(),
    "no id": GOOD.replace('"id":%d,', "").encode(),
    "true id": GOOD.replace('"id":%d', '"id":true').encode(),
    "list id": GOOD.replace('"id":%d', '"id":[%d]').encode(),
    "another id": GOOD.replace('"id":%d', '"id":%d77').encode(),
    "half an id": GOOD.replace('"id":%d', '"id":%d.5').encode(),
    "NaN": GOOD.replace('"content"', '"structuredContent":{"v":NaN},"content"').encode(),
    "raw tab": GOOD.replace('"x"', '"a\tb"').encode(),
    "cut off": GOOD.encode()[:-8],
    "trailing comma": GOOD.encode()[:-1] + b",}",
    "no version": GOOD.replace('"jsonrpc":"2.0",', "").encode(),
    "result is a text": b'{"jsonrpc":"2.0","id":%d,"result":"x"}',
    "no result": b'{"jsonrpc":"2.0","id":%d,"result":null}',
    "error is a text": b'{"jsonrpc":"2.0","id":%d,"error":"no"}',
    "neither result nor error": b'{"jsonrpc":"2.0","id":%d}',
    "in a batch": b"[" + GOOD.encode() + b"]",
    "too deep": GOOD.replace('"content"', '"_meta":{"a":' + "[" * 3000 + "]" * 3000 + '},"content"').encode(),
    "with a method": GOOD.encode()[:-1] + b',"method":"tools/call"}',
    "a dict of Python": GOOD.replace('"', "'").encode(),
    "error without an id": b'{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"Parse error"}}',
}


def opening(id: Any) -> str:
    """Return the reply to the handshake."""
    result = {"protocolVersion": LEGACY, "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    return json.dumps({"jsonrpc": "2.0", "id": id, "result": result})


@asynccontextmanager
async def connected(transport: str, reply: bytes, method: str = "tools/call") -> AsyncGenerator[Client]:
    """Connect to a server that gives ``reply`` to each request of this kind; its id replaces ``%d``."""
    options: dict[str, Any] = {"revision": LEGACY, "timeout": 20}
    if transport == "stdio":
        written = "".join(f"\\x{byte:02x}" for byte in reply)
        async with Client([sys.executable, "-c", PROGRAM, written, method], **options) as client:
            yield client
        return
    if transport == "memory":
        server = RawServer()
        server.replies[method] = lambda message: server.send_raw(reply.replace(b"%d", b"%d" % message["id"]))
        async with Client(server, **options) as client:
            yield client
        return

    async with serving(Answers(transport, reply, method)) as site:
        url = site.url.replace("http", "ws", 1) if transport == "websocket" else site.url
        async with Client(url, **options) as client:
            yield client


class Answers:
    """A web server that gives ``reply`` to each request of one kind, as ``transport`` wants it."""

    def __init__(self, transport: str, reply: bytes, method: str) -> None:
        self.transport = transport
        self.reply = reply
        self.method = method
        self.stream: Any = None

    async def __call__(self, request: Any, seen: Any) -> Any:
        if self.transport in ("websocket", "sse"):
            return await (self.on_socket(request) if self.transport == "websocket" else self.on_stream(request, seen))
        if not seen.body or "id" not in seen.body:
            return web.Response(status=202 if seen.body else 405)
        if self.transport == "http stream" and seen.body["method"] == self.method:
            return await stream(request, b"data: " + self.text(seen.body) + b"\n\n")
        return web.Response(body=self.text(seen.body), content_type="application/json")

    def text(self, message: Any) -> bytes:
        is_meant = message["method"] == self.method
        return self.reply.replace(b"%d", b"%d" % message["id"]) if is_meant else opening(message["id"]).encode()

    async def on_socket(self, request: Any) -> Any:
        socket = web.WebSocketResponse(protocols=("mcp",))
        await socket.prepare(request)
        async for message in socket:
            if "id" in (read := json.loads(message.data)):
                await socket.send_bytes(self.text(read))
        return socket

    async def on_stream(self, request: Any, seen: Any) -> Any:
        if not seen.body:
            self.stream = await stream(request, b"event: endpoint\ndata: /messages\n\n")
            await asyncio.Event().wait()
        if seen.path != "/messages":
            return web.Response(status=405)
        if "id" in seen.body:
            await self.stream.write(b"event: message\ndata: " + self.text(seen.body) + b"\n\n")
        return web.Response(status=202)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", READ)
async def test_a_reply_that_can_be_read_is_read(how, transport):
    """Text that is no Unicode has U+FFFD in its place, and 3.0 is 3."""
    reply, expected = READ[how]
    async with connected(transport, reply) as client:
        assert (await client.call_tool("t")).text == expected


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", SPOILT)
async def test_a_reply_that_cannot_be_read_fails_its_request(how, transport):
    """A reply that can be meant for one request only is no reason to wait for another one."""
    async with connected(transport, SPOILT[how]) as client:
        with pytest.raises(AntiphonError) as raised:
            await client.call_tool("t")
        assert not isinstance(raised.value, CallTimeout)


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize(
    "error",
    [
        b'"boom"',
        b'["boom"]',
        b'{"code":-32000,"data":"boom"}',
        b'{"code":"E","message":"boom"}',
        b'{"code":1,"message":{"text":"boom"}}',
        b'"boom\xff"',
        b'"boom' + b"x" * 10_000 + b'"',
    ],
)
async def test_an_error_that_cannot_be_read_is_shown(error, transport):
    """It may say what went wrong; the caller sees at most its beginning."""
    async with connected(transport, b'{"jsonrpc":"2.0","id":%d,"error":' + error + b"}") as client:
        with pytest.raises(RemoteProtocolError, match=r"its error is .*boom") as raised:
            await client.call_tool("t")
        assert len(str(raised.value)) < 700


@pytest.mark.parametrize("transport", FRAMED)
@pytest.mark.parametrize("reply", [b"{}", b'{"a":1}', b"1", b"null", b'"x"', b"true", b"[]", b'{"jsonrpc":"2.0"}'])
async def test_json_that_is_no_message_fails_the_only_request(reply, transport):
    """Where nothing but messages is written, it can only be the reply."""
    async with connected(transport, reply) as client:
        with pytest.raises(AntiphonError) as raised:
            await client.call_tool("t")
        assert not isinstance(raised.value, CallTimeout)


@pytest.mark.parametrize("notice", ['{"level":"info","data":NaN}', "[" * 200 + "]" * 200])
async def test_a_notification_that_cannot_be_read_fails_nothing(notice):
    """It is known by its method."""
    text = b'{"jsonrpc":"2.0","method":"notifications/message","params":' + notice.encode() + b"}"
    separator = b"\n\nevent: message\ndata: "
    async with connected("sse", text + separator + GOOD.encode()) as client:
        assert (await client.call_tool("t")).text == "x"


@pytest.mark.parametrize(
    "noise",
    [b"{}", b"[]", b"1", b"Listening on port 8000", b"{", b'{"a":1}', b'DEBUG {"jsonrpc":"2.0","id":%d,"result":{}}'],
)
async def test_a_line_that_is_no_message_fails_nothing(noise):
    """A program may print to its stdout; the reply comes after it."""
    async with connected("stdio", noise + b"\n" + GOOD.encode()) as client:
        assert (await client.call_tool("t")).text == "x"


@pytest.mark.parametrize("given", ["half \ud83d", "file \udce9"])
async def test_text_that_is_no_unicode_is_replaced_when_it_is_sent(given):
    """Names of files are such text; the same holds for arguments, results and errors."""
    server = Server("s")
    seen: list[str] = []

    @server.tool
    def name(text: str) -> dict[str, str]:
        """Return a name."""
        seen.append(text)
        return {"name": given, given: "key"}

    expected = given[:-1] + "\ufffd"
    for revision in (LEGACY, "2026-07-28"):
        async with Client(server, revision=revision) as client:
            result = await client.call_tool("name", {"text": given})
            assert result.structured_content == {"name": expected, expected: "key"}
    assert seen == [expected] * 2


async def test_a_reply_in_several_lines_fails_its_request():
    """A server that formats JSON for people breaks the framing of stdio."""
    reply = json.dumps(json.loads(GOOD.replace("%d", "7")), indent=2).replace("7", "%d")
    async with connected("stdio", reply.encode()) as client:
        with pytest.raises(RemoteProtocolError, match="without a readable id"):
            await client.call_tool("t")


# --- lists ----------------------------------------------------------------------------------------------------------

SCHEMA = {"type": "object"}
LISTS: dict[str, tuple[str, dict[str, Any], list[Any]]] = {
    "tools": (
        "tools", {"name": "good", "inputSchema": SCHEMA, "x-more": 1},
        [{"name": "bad"}, {"name": "b", "inputSchema": SCHEMA, "annotations": {"title": 1}}, {"name": 5}, None],
    ),
    "prompts": ("prompts", {"name": "good"}, [{"name": "bad", "arguments": {}}]),
    "resources": ("resources", {"name": "good", "uri": "x://g"}, [{"uri": "x://bad"}, "x"]),
    "resource_templates": ("resourceTemplates", {"name": "good", "uriTemplate": "x://{a}"}, [{"uriTemplate": "x://bad"}]),
}  # fmt: skip


def lists(kind: str) -> RawServer:
    """Make a server whose list of this kind has bad entries around a good one."""
    member, good, bad = LISTS[kind]
    method = "resources/templates/list" if kind == "resource_templates" else f"{kind}/list"
    server = RawServer()
    for other, (name, _, _) in LISTS.items():
        other_method = "resources/templates/list" if other == "resource_templates" else f"{other}/list"
        server.replies[other_method] = lambda _message, name=name: {name: []}
    server.replies[method] = lambda _message: {member: [*bad, good, *bad]}
    return server


@pytest.mark.parametrize("revision", [LEGACY, "2026-07-28"])
@pytest.mark.parametrize("kind", LISTS)
async def test_a_bad_entry_costs_itself_only(kind, revision, caplog):
    """The others are listed, and the log names it."""
    server = lists(kind)
    if revision != LEGACY:
        for method, reply in [*server.replies.items()]:
            server.replies[method] = lambda message, reply=reply: {
                **(reply(message) or {}), "resultType": "complete", "ttlMs": 0, "cacheScope": "private",
            }  # fmt: skip
    caplog.set_level(logging.WARNING, "antiphon.client")
    async with Client(server, revision=revision) as client:
        names = [entry.name async for entry in getattr(client, kind)()]
    assert names == ["good"]
    assert f"{LISTS[kind][0]}[0]" in caplog.text


@pytest.mark.parametrize("kind", LISTS)
async def test_a_bad_entry_costs_itself_only_behind_a_gateway(kind, caplog):
    """The gateway keeps members of the good ones that it does not know."""
    caplog.set_level(logging.WARNING, "antiphon.client")
    gateway = Gateway({"s": lists(kind)}, None, asks="relay")
    async with Client(gateway.server, revision=LEGACY) as client:
        names = [entry.name async for entry in getattr(client, kind)()]
    assert [name.removeprefix("s__") for name in names] == ["good"]
    assert f"{LISTS[kind][0]}[0]" in caplog.text


NO_NUMBERS = ["NaN", "-Infinity", "1e999"]


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("number", NO_NUMBERS)
async def test_a_number_that_json_does_not_have_costs_its_entry_only(number, transport, caplog):
    """A schema with NaN is left out and named; text is no number, and a raw tab in it is read."""
    bad = f'{{"name":"bad","inputSchema":{{"default":[1,{number}]}}}}'
    good = '{"name":"good","description":"a\tb NaN","inputSchema":{}}'
    reply = '{"jsonrpc":"2.0","id":%d,"result":{"tools":[' + f"{bad},{good}" + "]}}"
    caplog.set_level(logging.WARNING, "antiphon.client")
    async with connected(transport, reply.encode(), "tools/list") as client:
        [tool] = (await client.list_tools()).tools
    assert (tool.name, tool.description) == ("good", "a\tb NaN")
    assert "tools[0] ('bad')" in caplog.text


def nest(depth: int) -> str:
    """Make lists in lists."""
    return "[" * depth + "]" * depth


SPOILT_MEMBERS = {
    "too deep": f'"inputSchema":{{"x":{nest(130)}}}',
    "too deep for any reader": f'"inputSchema":{{"x":{nest(10_000)}}}',
    "too deep in a member nobody reads": f'"inputSchema":{{}},"x":{nest(130)}',
    "an unknown escape": '"inputSchema":{},"description":"\\x ],"',
    "True": '"inputSchema":{"default":True}',
    "a trailing comma": '"inputSchema":{},',
    "5,000 digits": f'"inputSchema":{{"x":{"9" * 5000}}}',
    "a member twice": '"inputSchema":{},"title":"x","title":5',
}


@pytest.mark.parametrize("transport", TRANSPORTS)
@pytest.mark.parametrize("how", SPOILT_MEMBERS)
async def test_an_entry_that_is_no_json_costs_itself_only(how, transport, caplog):
    """It is left out and named, wherever the id of the reply stands."""
    entries = f'{{"name":"bad",{SPOILT_MEMBERS[how]}}},{{"name":"good","inputSchema":{{}}}}'
    reply = '{"result":{"x":[1,{"y":[2]}],"tools":[' + entries + '],"y":[{}]},"id":%d,"jsonrpc":"2.0"}'
    caplog.set_level(logging.WARNING, "antiphon.client")
    async with connected(transport, reply.encode(), "tools/list") as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["good"]
    assert "tools[0] ('bad'): " in caplog.text


async def test_an_entry_that_is_too_deep_costs_itself_only_behind_a_gateway(caplog):
    """The log says so."""
    server = lists("prompts")
    prompts = f'{{"name":"good"}},{{"name":"bad","arguments":{nest(200)}}}'
    reply = '{"jsonrpc":"2.0","id":%d,"result":{"prompts":[' + prompts + "]}}"
    server.replies["prompts/list"] = lambda message: server.send_raw(reply.replace("%d", str(message["id"])).encode())
    caplog.set_level(logging.WARNING, "antiphon.client")
    async with Client(Gateway({"s": server}, None, asks="relay").server, revision=LEGACY) as client:
        assert [prompt.name async for prompt in client.prompts()] == ["s__good"]
    assert "prompts[1] ('bad'): JSON nested deeper than 128" in caplog.text


async def test_a_list_that_is_null_is_empty(caplog):
    """A program in Go writes it so."""
    caplog.set_level(logging.WARNING, "antiphon.client")
    async with Client(RawServer(tools_list=lambda _message: {"tools": None}), revision=LEGACY) as client:
        assert (await client.list_tools()).tools == []
    assert "tools is null" in caplog.text


async def test_a_number_that_json_does_not_have_costs_its_entry_only_behind_a_gateway():
    """Even in a member that nobody reads, and a gateway passes on."""
    server = lists("tools")
    schema = '"inputSchema":{"type":"object"}'
    tools = f'{{"name":"bad",{schema},"annotations":{{"x":Infinity}}}},{{"name":"good",{schema}}}'
    reply = '{"jsonrpc":"2.0","id":%d,"result":{"tools":[' + tools + "]}}"
    server.replies["tools/list"] = lambda message: server.send_raw(reply.replace("%d", str(message["id"])).encode())
    async with Client(Gateway({"s": server}, None, asks="relay").server, revision=LEGACY) as client:
        assert [tool.name async for tool in client.tools()] == ["s__good"]


async def test_a_list_that_is_none_is_an_error():
    """There is nothing to leave out of it."""
    async with Client(RawServer(tools_list=lambda _message: {"tools": {}}), revision=LEGACY) as client:
        with pytest.raises(RemoteProtocolError, match="tools/list cannot be read"):
            await client.list_tools()


async def test_an_error_for_a_notification_fails_no_request():
    """Some servers answer notifications, without an id."""
    server = RawServer()

    def call(message: dict[str, Any]) -> dict[str, Any]:
        server.send({"id": None, "error": {"code": -32601, "message": "Method not found: notifications/initialized"}})
        server.send({"id": None, "result": {}})
        return {"content": []}

    server.replies["tools/call"] = call
    async with Client(server, revision=LEGACY) as client:
        assert (await client.call_tool("t")).content == []


async def test_an_error_without_an_id_is_that_of_the_only_request():
    """JSON-RPC leaves the id out where the request could not be read."""
    error = b'{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"broken"}}'
    async with connected("memory", error) as client:
        with pytest.raises(PeerError, match="broken"):
            await client.call_tool("t")
