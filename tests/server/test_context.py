"""What a handler receives: asks, words to the client, the server's own resources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import ResourceNotFound
from antiphon.server.context import RequestFacts
from antiphon.testing import Script
from antiphon.wire.common import Implementation
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.roots import Root
from tests.support.raw_client import raw_client, said

ERAS = ["2025-11-25", "2026-07-28"]


def chatty() -> Server:
    """Make a server whose tool logs at every level."""
    server = Server("chatty")

    @server.tool
    async def chat(ctx: Context) -> str:
        await ctx.debug("d")
        await ctx.info({"a": [1]})
        await ctx.warning("w")
        await ctx.error("e")
        await ctx.log("emergency", "!", logger="alarm")
        return "done"

    return server


async def heard(revision: str, level: Any = None) -> list[LoggingMessageNotificationParams]:
    """Return the log messages that reach a client."""
    logs: list[LoggingMessageNotificationParams] = []
    async with Client(chatty(), revision=revision, log_level=None, on_log=logs.append) as client:
        if level is not None:
            await client.set_log_level(level)
        await client.call_tool("chat")
    return logs


@pytest.mark.parametrize("revision", ERAS)
async def test_log_messages_from_the_level_on_are_sent(revision: str) -> None:
    """With the server's name, unless another logger is named."""
    logs = await heard(revision, "warning")
    assert [(one.level, one.data, one.logger) for one in logs] == [
        ("warning", "w", "chatty"),
        ("error", "e", "chatty"),
        ("emergency", "!", "alarm"),
    ]


@pytest.mark.parametrize("revision", ERAS)
async def test_at_the_lowest_level_everything_is_sent(revision: str) -> None:
    """Data may be anything JSON can carry."""
    logs = await heard(revision, "debug")
    assert [one.data for one in logs] == ["d", {"a": [1]}, "w", "e", "!"]


async def test_a_modern_request_that_names_no_level_gets_no_logs() -> None:
    """2026-07-28 server/utilities/logging."""
    assert await heard("2026-07-28") == []


async def test_the_level_is_that_of_the_request() -> None:
    """Two modern requests may differ."""
    level = "io.modelcontextprotocol/logLevel"
    async with raw_client(chatty()) as client:
        await client.call("chat", meta={level: "error"})
        first = len(client.notifications)
        await client.call("chat", meta={level: "emergency"})
    assert (first, len(client.notifications)) == (2, 3)


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_the_clients_folders_can_be_listed(revision: str) -> None:
    """In every revision."""
    server, seen = Server("s"), list[Root]()

    @server.tool
    async def where(ctx: Context) -> str:
        seen.extend(await ctx.list_roots())
        return "done"

    async with Client(server, roots=["file:///srv/shop"], revision=revision) as client:
        await client.call_tool("where")
    assert [root.uri for root in seen] == ["file:///srv/shop"]


async def test_a_handler_reads_the_servers_resources() -> None:
    """Fixed ones, templates, and those that are not there."""
    server, seen = Server("s"), list[Any]()
    server.resource("s://hat")(lambda: "a hat")

    @server.resource("s://{gap}")
    async def family(gap: str, ctx: Context) -> str:
        return f"{gap} for {ctx.request.method}"

    @server.tool
    async def read(ctx: Context) -> str:
        for uri in ("s://hat", "s://cap"):
            seen.append((await ctx.read_resource(uri)).contents[0])
        with pytest.raises(ResourceNotFound):
            await ctx.read_resource("other:x")
        return "read"

    async with Client(server) as client:
        assert (await client.call_tool("read")).text == "read"
    assert [content.text for content in seen] == ["a hat", "cap for tools/call"]


async def test_a_handler_knows_its_server() -> None:
    """The one it was added to; without a lifespan there is no state."""
    server, seen = Server("s"), list[Any]()

    @server.tool
    async def whose(ctx: Context) -> str:
        seen.extend([ctx.server, ctx.state])
        return "known"

    async with Client(server) as client:
        await client.call_tool("whose")
    assert seen == [server, None]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_handler_that_was_cancelled_can_tell(revision: str) -> None:
    """From any other end of its task."""
    server, begun, ended = Server("s"), asyncio.Event(), asyncio.Event()
    seen: list[bool] = []

    @server.tool
    async def slow(ctx: Context) -> str:
        seen.append(ctx.cancelled)
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(ctx.cancelled)
            ended.set()
        return ""

    async with Client(server, revision=revision) as client:
        call = asyncio.create_task(client.call_tool("slow"))
        await begun.wait()
        call.cancel()
        async with asyncio.timeout(30):
            await ended.wait()
    assert seen == [False, True]


@pytest.mark.parametrize("revision", ERAS)
async def test_every_kind_of_handler_may_have_a_context(revision: str) -> None:
    """Tools, prompts, resources and completers."""
    server, seen = Server("s"), list[str]()

    @server.tool
    async def tool(ctx: Context) -> str:
        seen.append(ctx.request.method)
        return "x"

    @server.prompt
    async def prompt(topic: str, ctx: Context) -> str:
        seen.append(ctx.request.method)
        return topic

    @server.resource("s://r")
    async def resource(ctx: Context) -> str:
        seen.append(ctx.request.method)
        return "x"

    @server.complete("prompt", "topic")
    async def topics(value: str, ctx: Context) -> list[str]:
        seen.append(ctx.request.method)
        return [value]

    async with Client(server, revision=revision) as client:
        await client.call_tool("tool")
        await client.get_prompt("prompt", {"topic": "t"})
        await client.read_resource("s://r")
        await client.complete("prompt", "topic", "t")
    assert seen == ["tools/call", "prompts/get", "resources/read", "completion/complete"]


async def test_a_completer_cannot_ask_in_the_newest_revision() -> None:
    """Completion has no rounds: the ask fails at once instead of waiting for a handshake that never comes."""
    server, seen = Server("s"), list[Exception]()
    server.prompt(name="p")(lambda topic: topic)

    @server.complete("p", "topic")
    async def topics(value: str, ctx: Context) -> list[str]:
        try:
            await ctx.sample("?")
        except Exception as error:
            seen.append(error)
        return [value]

    async with Client(server, sampling=Script(["x"]), revision="2026-07-28") as client:
        assert (await client.complete("p", "topic", "t", timeout=60)).completion.values == ["t"]
    assert "2026-07-28" in str(seen[0])


async def test_a_level_that_does_not_exist_is_named() -> None:
    """Whether the client wants log messages or not."""
    server = Server("shop")

    @server.tool
    async def shout(ctx: Context) -> None:
        wrong: Any = "loud"
        await ctx.log(wrong, "hello")

    async with Client(server) as client:
        assert "there is no level 'loud'; the levels are debug" in (await client.call_tool("shout")).text


CLIENT_INFO = "io.modelcontextprotocol/clientInfo"


def telling(read: Callable[[RequestFacts], Any], seen: list[Any]) -> Server:
    """Make a server with a tool that reads a fact."""
    server = Server("s")

    @server.tool
    async def fact(ctx: Context) -> str:
        seen.append(read(ctx.request))
        return "read"

    return server


async def legacy(read: Callable[[RequestFacts], Any], revision: str = "2025-11-25", **params: Any) -> Any:
    """Return a fact of a legacy request."""
    seen: list[Any] = []
    async with raw_client(telling(read, seen)) as client:
        await client.handshake(revision)
        await client.reply(client.request("tools/call", name="fact", arguments={}, **params))
    return seen[0]


async def modern(read: Callable[[RequestFacts], Any], **params: Any) -> Any:
    """Return a fact of a modern request."""
    seen: list[Any] = []
    async with raw_client(telling(read, seen)) as client:
        await client.call("fact", **params)
    return seen[0]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_the_revision_is_that_of_the_request(revision: str) -> None:
    """By name."""
    seen: list[Any] = []
    async with Client(telling(lambda facts: facts.revision, seen), revision=revision) as client:
        await client.call_tool("fact")
    assert seen == [revision]


async def test_id_and_method_are_the_requests() -> None:
    """As they travelled."""
    assert await legacy(lambda facts: (facts.id, facts.method)) == (2, "tools/call")
    assert await modern(lambda facts: (facts.id, facts.method)) == (1, "tools/call")


async def test_a_legacy_client_said_who_it_is_in_the_handshake() -> None:
    """Once for all."""
    assert await legacy(lambda facts: facts.client) == Implementation(name="raw", version="1")


async def test_a_modern_client_says_it_with_each_request_or_not_at_all() -> None:
    """It may stay unknown."""
    info = {"name": "me", "version": "2"}
    assert await modern(lambda facts: facts.client, meta={CLIENT_INFO: info}) == Implementation(name="me", version="2")
    assert await modern(lambda facts: facts.client) is None


async def test_capabilities_are_those_of_the_request() -> None:
    """Declared in the handshake, or with the request."""
    assert (await legacy(lambda facts: facts.capabilities)).sampling is not None
    assert (await modern(lambda facts: facts.capabilities)).sampling is not None
    assert (await modern(lambda facts: facts.capabilities, capabilities={"roots": {}})).sampling is None


async def test_meta_comes_as_it_was_sent() -> None:
    """Names of anybody's included, whatever is in them."""
    foreign = {"example.org/trace": {"a": [1, None]}, "traceparent": "00-1-2-01"}
    meta = await modern(lambda facts: facts.meta, meta=foreign)
    assert {key: meta[key] for key in foreign} == foreign
    assert meta["io.modelcontextprotocol/protocolVersion"] == "2026-07-28"
    assert await legacy(lambda facts: facts.meta, _meta=foreign) == foreign


async def test_absent_meta_is_empty() -> None:
    """Nobody has to check."""
    assert await legacy(lambda facts: facts.meta) == {}


async def test_nobody_has_proven_anything_over_memory_and_pipes() -> None:
    """There is no principal."""
    assert await legacy(lambda facts: facts.principal) is None
    assert await modern(lambda facts: facts.principal) is None


async def test_after_a_round_the_facts_are_those_of_the_retry() -> None:
    """Each request speaks for itself; between them the last one known does."""
    seen: list[Any] = []
    server = Server("s")

    @server.tool
    async def fact(ctx: Context) -> str:
        seen.append(ctx.request.meta.get("n"))
        await ctx.sample("?", key="k")
        seen.append(ctx.request.meta.get("n"))
        return "read"

    async with raw_client(server) as client:
        round = await client.call("fact", meta={"n": 1})
        await client.retry(round, "fact", {"k": said("x")}, meta={"n": 2})
    assert seen == [1, 2]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_plain_function_asks_and_reports_on_an_event_loop_of_its_own(revision: str) -> None:
    """It runs in a thread, where ``asyncio.run`` is what people write."""
    server = Server("plain")

    @server.tool
    def talk(ctx: Context) -> str:
        said = [asyncio.run(ctx.sample(text)).text for text in ("one", "two")]
        asyncio.run(ctx.progress(1, 2))
        asyncio.run(ctx.info("half"))
        return f"{said} {[root.uri for root in asyncio.run(ctx.list_roots())]}"

    @server.tool
    def act(ctx: Context) -> int:
        return asyncio.run(ctx.step("act", lambda: 1))

    logs: list[Any] = []
    progress: list[float] = []
    script, root = Script(["1", "2"]), Root(uri="file:///a")
    async with Client(
        server, revision=revision, sampling=script, roots=[root], on_log=logs.append, log_level="info"
    ) as client:
        result = await client.call_tool("talk", progress=lambda done, *_: progress.append(done), timeout=20)
        assert result.text == "['1', '2'] ['file:///a']"
        assert (progress, [log.data for log in logs]) == ([1], ["half"])
        assert "make the tool async" in (await client.call_tool("act")).text
