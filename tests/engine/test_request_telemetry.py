"""What is told of requests, on both sides and in both eras, and what is not."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from msgspec import Raw

from antiphon import CallToolResult, Client, Context, CreateMessageResult, Server, TextContent
from antiphon.engine import request_telemetry
from antiphon.engine.request_telemetry import ConnectionWatch, ReportedSpan, make_watch
from antiphon.errors import CallTimeout, ConnectionClosed, InvalidParams, PeerError, Rejected
from antiphon.wire.common import RequestMeta
from antiphon.wire.rounds import InputRequiredResult
from tests.support.telemetry import Listener, id_of, listening, parent_of, trace_of

LEGACY, MODERN = "2025-11-25", "2026-07-28"
both_eras = pytest.mark.parametrize("revision", [LEGACY, MODERN])
SECRET = "sk-very-secret-0123456789"


async def sampled(_params: Any, _origin: Any) -> CreateMessageResult:
    """Answer a sampling request."""
    return CreateMessageResult(role="assistant", content=TextContent(text=SECRET), model="m", stop_reason="endTurn")


def make_server() -> Server:
    """Make a server with tools of every kind."""
    server = Server("told", tool_rate=None)

    @server.tool
    def plain(text: str) -> str:
        return text

    @server.tool
    async def failing(text: str) -> str:
        raise RuntimeError(text)

    @server.tool
    async def asking(ctx: Context) -> str:
        return (await ctx.sample(SECRET)).text

    @server.tool
    async def asking_twice(ctx: Context) -> str:
        first = await ctx.sample(SECRET)
        return first.text + (await ctx.sample("again")).text

    @server.tool
    async def stuck(ctx: Context) -> str:
        await asyncio.Event().wait()
        return ""

    @server.resource("secret://{token}")
    def secret(token: str) -> str:
        return token

    @server.prompt
    def greeting(name: str) -> str:
        return name

    return server


def everything_told(heard: Listener) -> str:
    """Write down all that was told: spans, and the attributes of metrics."""
    spans = [
        (s.name, dict(s.attributes or {}), s.status.description, [e.attributes for e in s.events]) for s in heard.spans
    ]
    names = ("mcp.client.operation.duration", "mcp.server.operation.duration")
    return repr(spans) + repr([dict(point.attributes) for name in names for point in heard.points(name)])


async def test_without_listeners_a_connection_is_made_as_ever():
    """No handler is wrapped, and nothing is added to a request."""
    assert make_watch(object()) is None
    async with Client(make_server()) as client:
        assert client._link.session.carries is None
        assert client._link.calls.peer.watch is None


@both_eras
async def test_a_call_is_a_span_on_each_side(revision: str):
    """The client's is the parent of the server's."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            await client.call_tool("plain", {"text": "x"})
    sent, served = heard.span("tools/call plain", "CLIENT"), heard.span("tools/call plain", "SERVER")
    assert parent_of(sent) is None and parent_of(served) == id_of(sent)
    assert dict(served.attributes or {}) == dict(sent.attributes or {})
    attributes = dict(sent.attributes or {})
    assert attributes.pop("jsonrpc.request.id").isdigit()
    assert attributes == {
        "mcp.method.name": "tools/call",
        "mcp.protocol.version": revision,
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "plain",
    }


@both_eras
async def test_durations_are_recorded_on_each_side(revision: str):
    """By method and tool; never by what there are many of."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            for _ in range(3):
                await client.call_tool("plain", {"text": "x"})
        for side in ("client", "server"):
            (point,) = heard.points(f"mcp.{side}.operation.duration")
            assert point.count == 3
            assert dict(point.attributes) == {
                "mcp.method.name": "tools/call",
                "mcp.protocol.version": revision,
                "gen_ai.operation.name": "execute_tool",
                "gen_ai.tool.name": "plain",
            }


async def test_a_call_belongs_to_the_trace_it_is_made_in():
    """As does what the handler does."""
    server = Server("inner")
    with listening() as heard:
        tracer = heard.tracers.get_tracer("app")

        @server.tool
        async def work() -> str:
            with tracer.start_as_current_span("query"):
                await asyncio.sleep(0)
            return "done"

        async with Client(server) as client:
            with tracer.start_as_current_span("page"):
                await client.call_tool("work")
            await client.call_tool("work")
    page = heard.span("page")
    ours = [span for span in heard.spans if trace_of(span) == trace_of(page)]
    assert [span.name for span in ours] == ["query", "tools/call work", "tools/call work", "page"]
    assert parent_of(ours[0]) == id_of(ours[1])
    assert len(heard.named("query")) == 2


@both_eras
async def test_other_methods_are_told_too(revision: str):
    """A prompt by its name, a resource without its URI."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            await client.get_prompt("greeting", {"name": SECRET})
            await client.read_resource(f"secret://{SECRET}")
            await client.list_tools()
            await client.ping()
    names = {span.name for span in heard.spans if span.kind.name == "SERVER"}
    assert names >= {"prompts/get greeting", "resources/read", "tools/list"}
    assert (heard.span("prompts/get greeting", "SERVER").attributes or {})["gen_ai.prompt.name"] == "greeting"
    assert SECRET not in everything_told(heard)


async def test_what_a_request_carries_does_not_replace_what_the_caller_gave():
    """A caller that has a trace of its own keeps it."""
    given = "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"
    with listening() as heard:
        async with Client(make_server()) as client:
            await client.call_tool("plain", {"text": "x"}, meta={"traceparent": given})
    assert f"{trace_of(heard.span('tools/call plain', 'SERVER')):032x}" == given[3:35]


@both_eras
async def test_a_call_with_its_asks_is_one_trace(revision: str):
    """However many requests it takes."""
    with listening() as heard:
        async with Client(make_server(), revision=revision, sampling=sampled) as client:
            await client.call_tool("asking_twice")
    call = heard.span("tools/call asking_twice", "CLIENT")
    assert {trace_of(span) for span in heard.spans} == {trace_of(call)}
    asked, answered = heard.named("sampling/createMessage", "CLIENT"), heard.named("sampling/createMessage", "SERVER")
    assert (len(asked), len(answered)) == (2, 2)
    served = heard.named("tools/call asking_twice", "SERVER")
    assert len(served) == (3 if revision == MODERN else 1)
    assert {parent_of(span) for span in served} == {id_of(call)}
    assert SECRET not in everything_told(heard)


async def test_a_legacy_ask_carries_its_trace():
    """So the client's part hangs below the server's."""
    with listening() as heard:
        async with Client(make_server(), revision=LEGACY, sampling=sampled) as client:
            await client.call_tool("asking")
    asked, answered = heard.span("sampling/createMessage", "CLIENT"), heard.span("sampling/createMessage", "SERVER")
    assert parent_of(asked) == id_of(heard.span("tools/call asking", "SERVER"))
    assert parent_of(answered) == id_of(asked)
    assert (asked.attributes or {})["jsonrpc.request.id"] == (answered.attributes or {})["jsonrpc.request.id"]


async def test_a_modern_ask_hangs_below_the_call():
    """Revision 2026-07-28 has no ``_meta`` in the params of an ask."""
    with listening() as heard:
        async with Client(make_server(), revision=MODERN, sampling=sampled) as client:
            await client.call_tool("asking")
    call = heard.span("tools/call asking", "CLIENT")
    first, second = heard.named("tools/call asking", "SERVER")
    assert parent_of(heard.span("sampling/createMessage", "SERVER")) == id_of(call)
    assert parent_of(heard.span("sampling/createMessage", "CLIENT")) == id_of(first)
    assert ((first.attributes or {})["antiphon.asks"], "antiphon.asks" in (second.attributes or {})) == (1, False)


async def test_an_ask_without_a_trace_belongs_to_the_only_open_call(monkeypatch: pytest.MonkeyPatch):
    """Most servers say nothing of traces."""
    monkeypatch.setattr(request_telemetry, "_get_trace_context", lambda _meta: {})
    with listening() as heard:
        async with Client(make_server(), revision=LEGACY, sampling=sampled) as client:
            await client.call_tool("asking")
    answered = heard.span("sampling/createMessage", "SERVER")
    assert parent_of(answered) == id_of(heard.span("tools/call asking", "CLIENT"))


@both_eras
async def test_a_tool_that_fails_is_an_error(revision: str):
    """Of its own type, and without its text."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            await client.call_tool("failing", {"text": SECRET})
    for span in heard.named("tools/call failing"):
        assert (span.attributes or {})["error.type"] == "tool_error"
        assert not span.status.is_ok
    assert len(heard.named("tools/call failing")) == 2
    assert SECRET not in everything_told(heard)


async def test_a_tool_that_fails_after_its_rounds_is_one_too():
    """What it came to is encoded by then."""
    server = Server("rounds")

    @server.tool
    async def fails_late(ctx: Context) -> str:
        await ctx.sample("?")
        raise RuntimeError("late")

    with listening() as heard:
        async with Client(server, revision=MODERN, sampling=sampled) as client:
            await client.call_tool("fails_late")
    kinds = [(span.attributes or {}).get("error.type") for span in heard.named("tools/call fails_late", "SERVER")]
    assert kinds == [None, "tool_error"]


@both_eras
async def test_an_error_reply_is_told_by_its_code(revision: str):
    """And an unknown name is told by neither the server's span nor its metrics: strangers think of those."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            with pytest.raises(InvalidParams):
                await client.call_tool("made up", {})
        served = heard.span("tools/call", "SERVER")
        assert (served.attributes or {})["error.type"] == "-32602"
        assert (served.attributes or {})["rpc.response.status_code"] == "-32602"
        assert (heard.span("tools/call made up", "CLIENT").attributes or {})["error.type"] == "-32602"
        (point,) = heard.points("mcp.server.operation.duration")
        assert "gen_ai.tool.name" not in point.attributes


@both_eras
async def test_a_refused_ask_is_told_on_both_sides(revision: str):
    """With the code that says so."""

    async def refuse(_params: Any, _origin: Any) -> CreateMessageResult:
        raise Rejected("User rejected sampling request")

    with listening() as heard:
        async with Client(make_server(), revision=revision, sampling=refuse) as client:
            if revision == MODERN:
                with pytest.raises(Rejected):
                    await client.call_tool("asking")
            else:
                await client.call_tool("asking")
    assert (heard.span("sampling/createMessage", "SERVER").attributes or {})["error.type"] == "-1"


@both_eras
async def test_a_call_that_nobody_waits_for_is_cancelled(revision: str):
    """On both sides, and no span is left open."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            with pytest.raises(CallTimeout):
                await client.call_tool("stuck", timeout=0.05)
            await client.ping()
    assert (heard.span("tools/call stuck", "CLIENT").attributes or {})["error.type"] == "timeout"
    assert (heard.span("tools/call stuck", "SERVER").attributes or {})["error.type"] == "cancelled"


@both_eras
async def test_a_connection_that_ends_ends_what_is_open(revision: str):
    """Whoever would have replied."""
    with listening() as heard:
        async with Client(make_server(), revision=revision) as client:
            call = asyncio.ensure_future(client.call_tool("stuck"))
            await asyncio.sleep(0)
            await client.ping()
        with pytest.raises(ConnectionClosed, match="closed"):
            await call
    assert (heard.span("tools/call stuck", "SERVER").attributes or {})["error.type"] == "cancelled"


async def test_a_subscription_is_no_operation():
    """It lasts until somebody leaves."""
    with listening() as heard:
        async with Client(make_server(), revision=MODERN) as client, client.listen(tools=True):
            await client.ping()
    assert {span.name for span in heard.spans} == {"ping"}


def test_what_is_too_long_is_not_looked_at():
    """A trace state of megabytes is a peer's way to make us parse."""
    meta = RequestMeta(traceparent="00-" + "a" * 32 + "-" + "b" * 16 + "-01", tracestate="x=" + "y" * 10_000)
    assert set(request_telemetry._get_trace_context(meta)) == {"traceparent"}
    assert request_telemetry._get_trace_context(RequestMeta(baggage="user=1")) == {}


@pytest.mark.parametrize("given", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "\ud800" * 55])
async def test_a_trace_that_cannot_be_read_is_none(given: str):
    """The request is served all the same."""
    with listening() as heard:
        told = make_watch(object())
        assert told is not None
        begun = told._begin("server", "ping", None, None, RequestMeta(traceparent=given))
        begun.ended(None)
    assert parent_of(heard.span("ping")) is None


def test_names_that_servers_think_of_are_counted(monkeypatch: pytest.MonkeyPatch):
    """So many, and no more."""
    monkeypatch.setattr(request_telemetry, "_names", set())
    monkeypatch.setattr(request_telemetry, "MAX_NAMES", 2)
    with listening() as heard:
        told = make_watch(object())
        assert told is not None
        for name in ("a", "b", "c", "a"):
            told._begin("client", "tools/call", name, None, None).ended(None)
        seen = [
            (point.attributes.get("gen_ai.tool.name"), point.count)
            for point in heard.points("mcp.client.operation.duration")
        ]
    assert set(seen) == {(None, 1), ("a", 2), ("b", 1)}
    assert len(heard.named("tools/call c")) == 1


def told_of(**where: Any) -> ConnectionWatch:
    """Make a watch for a channel of a session."""

    class Channel:
        session_id = "0123"

    told = make_watch(Channel(), **where)
    assert told is not None
    return told


def test_a_server_is_told_by_its_address_alone():
    """User names, paths and queries hold secrets."""
    with listening() as heard:
        told = told_of(over="tcp", url=f"https://me:{SECRET}@example.com/{SECRET}?key={SECRET}")
        told._begin("client", "ping", None, None, None).ended(None)
    attributes = dict(heard.span("ping").attributes or {})
    assert attributes["server.address"] == "example.com"
    assert attributes["server.port"] == 443
    assert (attributes["network.protocol.name"], attributes["network.transport"]) == ("http", "tcp")
    assert SECRET not in everything_told(heard)


def test_a_session_is_told_by_a_digest_of_its_id():
    """Whoever reads the trace must not be able to speak in it; both sides tell the same."""
    with listening() as heard:
        told_of(url="ws://127.0.0.1:8000/ws")._begin("client", "ping", None, None, None).ended(None)
    attributes = dict(heard.span("ping").attributes or {})
    assert attributes["mcp.session.id"] == hashlib.sha256(b"0123").hexdigest()[:32]
    assert (attributes["network.protocol.name"], attributes["server.port"]) == ("websocket", 8000)


FAILED = CallToolResult(content=[], is_error=True)


def begun(method: str = "tools/call") -> ReportedSpan:
    """Begin to tell of a request."""
    told = make_watch(object())
    assert told is not None
    return told._begin("server", method, None, None, None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PeerError("x", code=-5), "-5"),
        (CallTimeout("x"), "timeout"),
        (asyncio.CancelledError(), "cancelled"),
        (ValueError("a secret"), "ValueError"),
    ],
)
def test_an_error_is_told_by_its_kind(error: BaseException, kind: str):
    """A code, a word, or the name of its class; never its text."""
    with listening() as heard:
        begun().failed(error)
    span = heard.span("tools/call")
    assert dict(span.attributes or {})["error.type"] == kind
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("result", [FAILED, (FAILED, 2), Raw(b'{"content":[],"isError":true}')])
def test_a_tool_that_failed_says_so_in_its_result(result: Any):
    """Decoded, encoded, or with the number of rounds it took."""
    with listening() as heard:
        begun().ended(result)
    assert dict(heard.span("tools/call").attributes or {})["error.type"] == "tool_error"


def test_a_round_is_told_with_the_number_of_its_asks():
    """It is no error."""
    with listening() as heard:
        begun().ended(InputRequiredResult(input_requests={}, request_state="x"))
    attributes = dict(heard.span("tools/call").attributes or {})
    assert attributes["antiphon.asks"] == 0
    assert "error.type" not in attributes


async def test_a_handler_that_is_cancelled_is_told_at_once():
    """There may be no reply to tell of."""

    async def handler() -> None:
        raise asyncio.CancelledError

    with listening() as heard:
        told = begun()
        with pytest.raises(asyncio.CancelledError):
            await told.served(handler())
    assert dict(heard.span("tools/call").attributes or {})["error.type"] == "cancelled"
