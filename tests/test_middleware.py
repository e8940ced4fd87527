"""Ready middleware: what each of them does to requests and results, and what it leaves alone."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from antiphon import Context, Rate, Server, ToolAnnotations, ToolError
from antiphon.errors import InternalError, InvalidParams, PeerError
from antiphon.middleware import (
    ErrorHandlingMiddleware,
    LoggingMiddleware,
    RateLimitingMiddleware,
    ResourcesAsTools,
    ResponseCachingMiddleware,
    ResponseLimitingMiddleware,
    RetryMiddleware,
    TimingMiddleware,
)
from antiphon.protocol.caller import Caller
from antiphon.server import CallNext, ServerRequest
from antiphon.testing import connected
from antiphon.transports.queued import memory_pair
from antiphon.types import CallToolResult, TextContent
from antiphon.wire.envelope import encode_value
from tests.support.raw_client import RawClient, raw_client

KEY = "sk-proj-" + "a1B2c3D4e5F6g7H8" * 3


class Clock:
    """A clock that is set by hand."""

    now = 100.0

    def __call__(self) -> float:
        """Return the time."""
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds


async def test_timing_logs_what_a_request_took(caplog: pytest.LogCaptureFixture) -> None:
    """Also of one that fails; a name with a line break stays in one line."""
    server, clock = Server("shop"), Clock()
    server.middleware(TimingMiddleware(clock=clock))

    @server.tool
    async def work() -> str:
        clock.now += 0.25
        return "done"

    with caplog.at_level(logging.INFO, "antiphon.server"):
        async with connected(server) as client:
            await client.call_tool("work")
            with pytest.raises(PeerError):
                await client.call_tool("no\ntool")
    assert [record.getMessage() for record in caplog.records] == [
        "tools/call work took 250.0 ms",
        "tools/call no\\ntool took 0.0 ms",
    ]


async def test_no_secret_reaches_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """Neither by the URI that is read, nor by what goes wrong."""
    server = Server("shop")
    server.middleware(TimingMiddleware())
    server.middleware(ErrorHandlingMiddleware())

    @server.resource("shop://stock/{key}")
    async def stock(key: str) -> str:
        raise ValueError(f"not {key}")

    with caplog.at_level(logging.INFO, "antiphon.server"):
        async with connected(server) as client:
            with pytest.raises(InternalError):
                await client.read_resource(f"shop://stock/{KEY}")
    said = [record.getMessage() for record in caplog.records if "stock" in record.getMessage()]
    assert len(said) == 2
    assert KEY[:20] not in "".join(said)


async def test_logging_masks_secrets_before_it_cuts(caplog: pytest.LogCaptureFixture) -> None:
    """In arguments, in results and in what goes wrong."""
    server = Server("shop")
    server.middleware(LoggingMiddleware(include_payloads=True, max_payload_length=120))

    @server.tool
    async def sign_in(key: str) -> str:
        if key == "none":
            raise ToolError(f"not {KEY}")
        return f"{key} {'word ' * 1_000}"

    with caplog.at_level(logging.INFO, "antiphon.server"):
        async with connected(server) as client:
            await client.call_tool("sign_in", {"key": KEY})
            assert (await client.call_tool("sign_in", {"key": "none"})).is_error
            with pytest.raises(PeerError):
                await client.call_tool(KEY)
    lines = [record.getMessage() for record in caplog.records]
    assert KEY[:20] not in "".join(lines)
    assert lines[0].startswith('tools/call sign_in {"name":"sign_in","arguments":{"key":"[')
    assert lines[1].startswith("tools/call sign_in ended {")
    assert lines[1].endswith("...")
    assert [record.levelname for record in caplog.records] == ["INFO", "INFO", "INFO", "WARNING", "INFO", "WARNING"]


async def test_errors_reach_clients_as_a_number() -> None:
    """The text is for the log and the callback; errors that clients act on stay as they are."""
    server, noted = Server("shop", error_details=True), list[tuple[str, ...]]()
    server.middleware(ErrorHandlingMiddleware(error_callback=lambda *what: noted.append(what)))

    @server.tool
    async def sell() -> str:
        raise ToolError("row 17 of orders is locked")

    @server.resource("shop://stock")
    async def stock() -> str:
        raise ValueError("disk 3")

    @server.prompt
    async def ask() -> str:
        raise InvalidParams("which one?")

    async with connected(server) as client:
        result = await client.call_tool("sell")
        assert result.is_error
        assert result.text == f"It failed (error {noted[0][0]})."
        with pytest.raises(InternalError, match=r"It failed \(error \w+\)"):
            await client.read_resource("shop://stock")
        with pytest.raises(InvalidParams, match="which one"):
            await client.get_prompt("ask")
    assert [what[1:] for what in noted] == [
        ("tools/call", "row 17 of orders is locked"),
        ("resources/read", "ValueError: disk 3"),
    ]


async def test_rates_are_by_tool_and_principal() -> None:
    """One caller that calls one tool too often costs neither others nor other tools."""
    server = Server("shop")
    slow = Rate(per_second=0.001, burst=1)
    server.middleware(RateLimitingMiddleware(slow, tools={"free": Rate(per_second=1_000, burst=1_000)}, clock=Clock()))
    for name in ("one", "two", "free"):
        server.tool(name=name)(lambda: "done")
    inner = Server("inner")
    for name in ("one", "two"):
        inner.tool(name=name)(lambda: "done")
    server.mount(inner, prefix="inner")

    async def code(principal: str, tool: str) -> int | None:
        async with raw_client(server, principal=principal) as raw:
            reply = await raw.reply(raw.modern("tools/call", name=tool, arguments={}))
            return reply.get("error", {}).get("code")

    assert await code("ann", "one") is None
    assert await code("ann", "one") == -32600
    assert await code("ann", "two") is None
    assert [await code("ann", f"inner__{name}") for name in ("one", "two")] == [None, None]
    assert await code("ben", "one") is None
    assert [await code("ann", "free") for _ in range(3)] == [None] * 3
    assert [await code("ann", f"no{number}") for number in range(2)] == [-32602, -32600]


async def test_a_rate_tells_nothing_of_a_tool_that_is_hidden() -> None:
    """It is limited as a name that no tool has; who sees it has the rate of the tool."""
    server, slow = Server("shop"), Rate(per_second=0.001, burst=1)
    server.middleware(RateLimitingMiddleware(tools={"secret": slow}, clock=Clock()))
    server.tool(name="secret", visible=lambda principal: principal == "ann")(lambda: "hush")
    errors: dict[str, list[Any]] = {"ann": [], "ben": []}
    for principal, noted in errors.items():
        async with raw_client(server, principal=principal) as raw:
            for _ in range(2):
                reply = await raw.reply(raw.modern("tools/call", name="secret", arguments={}))
                noted.append(reply.get("error", {}).get("code"))
    assert errors == {"ann": [None, -32600], "ben": [-32602, -32602]}


async def test_large_results_are_cut_or_refused() -> None:
    """Text stays within the size, whatever JSON makes of it; structure cannot be cut."""
    server = Server("shop")
    server.middleware(ResponseLimitingMiddleware(max_size=2_000, tools=["text", "numbers"]))

    @server.tool
    async def text(character: str) -> str:
        return character * 10_000

    @server.tool
    async def numbers() -> list[int]:
        return list(range(10_000))

    @server.tool
    async def other() -> str:
        return "x" * 10_000

    async with raw_client(server) as raw:
        for character in ("x", "\x01", "\u00e4", '"'):
            channel_reply = await raw.call("text", {"character": character})
            [block] = channel_reply["content"]
            assert block["text"].startswith(character * 200)
            assert block["text"].endswith("[... cut]")
    async with connected(server) as client:
        result = await client.call_tool("numbers")
        assert (result.is_error, result.structured_content) == (True, None)
        assert "Ask for less" in result.text
        assert len((await client.call_tool("other")).text) == 10_000


async def test_a_result_is_limited_with_its_meta() -> None:
    """Text is cut to what the rest leaves; where that is nothing, the result is refused."""
    server = Server("shop")
    server.middleware(ResponseLimitingMiddleware(max_size=2_000))

    @server.tool
    async def text(size: int) -> CallToolResult:
        return CallToolResult(content=[TextContent(text="x" * 3_000)], meta={"note": "y" * size})

    async with connected(server) as client:
        cut = await client.call_tool("text", {"size": 1_500})
        assert cut.text.endswith("x\n[... cut]")
        assert len(encode_value(CallToolResult(content=cut.content, meta={"note": "y" * 1_500}))) <= 2_000
        refused = await client.call_tool("text", {"size": 2_500})
        assert (refused.is_error, refused.text[-13:]) == (True, "Ask for less.")


async def test_only_what_may_run_twice_is_tried_again() -> None:
    """A tool that only reads, for an exception that may pass; resources; each after a longer wait."""
    server, clock, runs = Server("shop"), Clock(), list[str]()
    server.middleware(RetryMiddleware(max_retries=2, sleep=clock.sleep))
    reading = ToolAnnotations(read_only_hint=True)

    def fail(name: str, error: Exception, times: int) -> str:
        runs.append(name)
        if runs.count(name) <= times:
            raise error
        return "done"

    server.tool(name="read", annotations=reading)(lambda: fail("read", ConnectionError(), 2))
    server.tool(name="gone", annotations=reading)(lambda: fail("gone", TimeoutError(), 9))
    server.tool(name="wrong", annotations=reading)(lambda: fail("wrong", ValueError(), 1))
    server.tool(name="write")(lambda: fail("write", ConnectionError(), 1))
    server.add_resource("shop://stock", lambda: fail("stock", ConnectionError(), 1))
    async with connected(server) as client:
        assert (await client.call_tool("read")).text == "done"
        assert clock.now == 103.0
        assert (await client.read_resource("shop://stock")).contents[0].text == "done"
        for name in ("gone", "wrong", "write"):
            assert (await client.call_tool(name)).is_error
    assert {name: runs.count(name) for name in runs} == {"read": 3, "stock": 2, "gone": 3, "wrong": 1, "write": 1}


async def test_a_failure_of_other_middleware_runs_no_tool_again() -> None:
    """The tool may have run before it; a resource is read again."""
    server, runs = Server("shop"), list[str]()
    server.middleware(RetryMiddleware(max_retries=2, sleep=Clock().sleep))

    @server.middleware
    async def report(request: ServerRequest, call_next: CallNext) -> Any:
        result = await call_next(request)
        if request.method in ("tools/call", "resources/read") and len(runs) < 3:
            raise ConnectionError
        return result

    server.tool(name="pay")(lambda: runs.append("pay"))
    server.add_resource("shop://stock", lambda: runs.append("stock") or "ten")
    async with connected(server) as client:
        with pytest.raises(InternalError):
            await client.call_tool("pay")
        assert (await client.read_resource("shop://stock")).contents[0].text == "ten"
    assert runs == ["pay", "stock", "stock"]


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_nobody_is_asked_twice_by_a_second_attempt(revision: str) -> None:
    """An answer was given for the attempt that failed."""
    server, asked = Server("shop"), list[str]()
    server.middleware(RetryMiddleware(sleep=Clock().sleep))

    @server.tool(annotations=ToolAnnotations(read_only_hint=True))
    async def ask(ctx: Context) -> str:
        await ctx.sample("Which?")
        raise ConnectionError

    async def model(params: Any, origin: Any) -> str:
        asked.append("once")
        return "that"

    async with connected(server, sampling=model, revision=revision) as client:
        assert (await client.call_tool("ask")).is_error
    assert asked == ["once"]


async def test_a_cache_answers_the_same_principal_the_same_question() -> None:
    """Until the time is over; not with other arguments, and not to anybody else."""
    server, clock, runs = Server("shop"), Clock(), list[str]()
    server.middleware(ResponseCachingMiddleware(tools={"price": 60}, resources={"shop://stock": 60}, clock=clock))

    @server.tool
    async def price(item: str, count: int = 1) -> str:
        runs.append(item)
        return f"{item}: {len(runs)}"

    @server.resource("shop://stock")
    async def stock() -> str:
        runs.append("stock")
        return "ten"

    @server.tool
    async def number() -> int:
        runs.append("number")
        return runs.count("number")

    async def ask(principal: str | None, **arguments: object) -> str:
        async with raw_client(server, principal=principal) as raw:
            return (await raw.call("price", arguments))["content"][0]["text"]

    assert await ask("ann", item="hat", count=2) == await ask("ann", count=2, item="hat") == "hat: 1"
    assert await ask("ben", item="hat", count=2) == "hat: 2"
    assert await ask("ann", item="tie") == "tie: 3"
    clock.now += 61
    assert await ask("ann", item="hat", count=2) == "hat: 4"
    async with connected(server) as client:
        for _ in range(2):
            await client.read_resource("shop://stock")
        assert [(await client.call_tool("number")).text for _ in range(2)] == ["1", "2"]
    assert runs.count("stock") == 1


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("tools/call", {"name": "price", "arguments": {}}),
        ("resources/read", {"uri": "shop://stock"}),
        ("resources/read", {"uri": "shop://stock/hats"}),
        ("prompts/get", {"name": "ask"}),
    ],
)
async def test_a_cache_gives_nothing_that_is_hidden_by_now(method: str, params: dict[str, Any]) -> None:
    """``visible=`` decides at each request, also about what was cached before."""
    server, friends = Server("shop"), {"ann"}
    server.middleware(ResponseCachingMiddleware())

    def is_friend(principal: str | None) -> bool:
        return principal in friends

    server.tool(name="price", visible=is_friend, cache=60)(lambda: "ten")
    server.prompt(name="ask", visible=is_friend, cache=60)(lambda: "Which?")
    server.add_resource("shop://stock", lambda: "ten", visible=is_friend, cache=60)
    server.resource("shop://stock/{kind}", visible=is_friend, cache=60)(lambda kind: kind)
    async with raw_client(server, principal="ann") as raw:
        assert "result" in await raw.reply(raw.modern(method, **params))
        friends.clear()
        assert (await raw.reply(raw.modern(method, **params)))["error"]["code"] == -32602


async def test_a_cache_gives_nothing_to_a_token_that_may_do_less() -> None:
    """Other middleware may ask in the place of a call, past the first check of scopes."""
    server = Server("shop", declares=["tools"])
    server.middleware(ResourcesAsTools())
    server.middleware(ResponseCachingMiddleware())
    server.add_resource("shop://stock", lambda: "ten", scopes=["read"], cache=60)
    replies: list[dict[str, Any]] = []
    for scopes in (frozenset({"read"}), frozenset[str]()):
        ours, theirs = memory_pair()
        serving = asyncio.create_task(server.serve(theirs, caller=Caller("ann", scopes=scopes)))
        client = RawClient(ours)
        sent = client.modern("tools/call", name="read_resource", arguments={"uri": "shop://stock"})
        replies.append(await client.reply(sent))
        await ours.close()
        await serving
    assert replies[0]["result"]["content"][0]["text"] == "ten"
    assert replies[1]["error"]["data"] == {"requiredScopes": ["read"]}


async def test_a_cache_forgets_a_tool_that_is_replaced_or_removed() -> None:
    """The result is that of the tool of now."""
    server = Server("shop")
    server.middleware(ResponseCachingMiddleware(tools={"price": 60}))
    server.tool(name="price")(lambda: "ten")
    async with connected(server) as client:
        assert (await client.call_tool("price")).text == "ten"
        server.tools.remove("price")
        with pytest.raises(InvalidParams, match="Unknown tool"):
            await client.call_tool("price")
        server.tool(name="price")(lambda: "twelve")
        assert (await client.call_tool("price")).text == "twelve"


async def test_errors_and_answers_of_people_are_not_cached() -> None:
    """A failure may pass, and an answer was given to one call."""
    server, runs = Server("shop"), list[str]()
    server.middleware(ResponseCachingMiddleware(tools={"fail": 60, "ask": 60}))

    @server.tool
    async def fail() -> str:
        runs.append("fail")
        raise ToolError("no")

    @server.tool
    async def ask(ctx: Context) -> str:
        runs.append("ask")
        return (await ctx.sample("Which?")).text

    async def model(params: Any, origin: Any) -> str:
        return "that"

    for revision in ("2025-11-25", "2026-07-28"):
        async with connected(server, sampling=model, revision=revision) as client:
            for name in ("fail", "ask") * 2:
                await client.call_tool(name)
    assert (runs.count("fail"), runs.count("ask")) == (4, 4)


async def test_a_cache_holds_no_more_bytes_than_it_may() -> None:
    """The result that was not used for the longest time goes first."""
    server, runs = Server("shop"), list[str]()
    server.middleware(ResponseCachingMiddleware(tools={"text": 60}, max_bytes=4_000))

    @server.tool
    async def text(name: str) -> str:
        runs.append(name)
        return name * 1_000

    async with connected(server) as client:
        for name in "abacab":
            await client.call_tool("text", {"name": name})
    assert runs == ["a", "b", "c", "b"]
