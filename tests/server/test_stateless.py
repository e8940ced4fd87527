"""A server that keeps no sessions for legacy clients: any replica serves any of their requests."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, ConfigError, Context, Server
from antiphon.server.serving.network import server_app
from antiphon.types import LoggingLevel
from antiphon.wire.lifecycle import ListChangedCapability, ResourcesCapability
from tests.support.asgi import running
from tests.support.raw_client import said
from tests.transports.http.server.driver import ask, begin, closing, post
from tests.transports.http.server.fakes import Bench, call, initialize

LEGACY = ["2025-03-26", "2025-06-18", "2025-11-25"]


async def sampler(_params: Any, _origin: Any) -> Any:
    """Answer as a model."""
    return said("Warm.")


def replica(name: str, **options: Any) -> Server:
    """Make one of several servers that are the same but for their name in results."""
    server = Server("shop", **options)

    @server.tool
    async def where(ctx: Context) -> str:
        """Say which replica serves this, and tell something on the way."""
        await ctx.info(f"at {name}")
        await ctx.progress(1, 2)
        return name

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        """Describe a product."""
        return (await ctx.sample(f"Describe {product}", max_tokens=9)).text

    @server.tool
    async def roots(ctx: Context) -> str:
        """List the roots."""
        return str(await ctx.list_roots())

    @server.tool(requires="sampling")
    async def only_with_sampling(ctx: Context) -> str:
        """Ask."""
        return (await ctx.sample("?")).text

    @server.resource("shop://hat")
    def hat() -> str:
        """Describe the hat."""
        return "round"

    return server


@asynccontextmanager
async def balanced(*servers: Server) -> AsyncIterator[str]:
    """Serve them behind what gives each request to the next one, the worst of all load balancers."""
    apps = [server.asgi(stateless=True) for server in servers]
    turns = itertools.cycle(apps)

    async def balance(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            await next(turns)(scope, receive, send)
        else:
            await apps[0](scope, receive, send)

    async with running(balance) as place:
        try:
            yield f"http://{place}/mcp"
        finally:
            for app in apps[1:]:
                await app.close()


@pytest.mark.parametrize("revision", [*LEGACY, "2026-07-28"])
async def test_requests_of_one_client_are_served_by_several_replicas(revision: str) -> None:
    """With its logs and its progress; the client notices nothing."""
    logs: list[object] = []
    progress: list[object] = []
    async with (
        balanced(replica("one"), replica("two")) as url,
        Client(url, revision=revision, on_log=lambda message: logs.append(message.data), log_level="info") as client,
    ):
        names = [
            (await client.call_tool("where", progress=lambda done, _total, _text: progress.append(done))).text
            for _ in range(4)
        ]
        assert set(names) == {"one", "two"}
    assert logs == [f"at {name}" for name in names]
    assert progress == [1, 1, 1, 1]


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_handler_that_asks_a_client_without_a_session_fails_clearly(revision: str) -> None:
    """At once, whatever it asks, and the result says why."""
    async with (
        balanced(replica("one")) as url,
        Client(url, revision=revision, sampling=sampler, roots=["file:///here"]) as client,
    ):
        for name, arguments in (("describe", {"product": "hat"}), ("roots", {})):
            result = await client.call_tool(name, arguments)
            assert result.is_error
            assert "this server keeps no sessions (stateless=True)" in result.text
        listed = {tool.name for tool in (await client.list_tools()).tools}
        assert listed == {"where", "describe", "roots"}


async def test_a_modern_client_is_asked_all_the_same() -> None:
    """Its calls stand alone anyway."""
    async with (
        balanced(*(replica(name, keys=[b"k" * 32]) for name in ("one", "two"))) as url,
        Client(url, revision="2026-07-28", sampling=sampler) as client,
    ):
        assert (await client.call_tool("describe", {"product": "hat"})).text == "Warm."


async def test_the_servers_own_model_answers_for_a_client_that_cannot_be_asked() -> None:
    """As for any client without sampling."""

    async def own(_params: Any) -> str:
        return "Own."

    async with (
        balanced(replica("one", sampling_fallback=own)) as url,
        Client(url, revision="2025-11-25", sampling=sampler) as client,
    ):
        assert (await client.call_tool("describe", {"product": "hat"})).text == "Own."


async def test_nothing_of_one_client_is_left_for_the_next() -> None:
    """Neither the log level it has set, nor a subscription: what would need a session is not declared."""
    logs: list[object] = []
    async with balanced(replica("one")) as url:
        quiet: LoggingLevel = "emergency"
        async with Client(url, revision="2025-11-25", log_level=quiet) as client:
            declared = client.server_capabilities
            assert declared.tools == ListChangedCapability()
            assert declared.resources == ResourcesCapability()
            await client.call_tool("where")
        async with Client(url, revision="2025-11-25", on_log=lambda message: logs.append(message.data)) as client:
            await client.call_tool("where")
    assert logs == ["at one"]


def test_other_transports_have_sessions_only() -> None:
    """Their connection is one."""
    with pytest.raises(ConfigError, match="stateless"):
        server_app(Server("s")._service, "websocket", {"stateless": True})


# --- at the endpoint ------------------------------------------------------------------------------------------------


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """Make an application without sessions whose peers are fakes, and close it at the end."""
    made = Bench(stateless=True)
    async with closing(made.app):
        yield made


async def test_no_session_is_begun_and_one_that_is_named_does_not_matter(bench: Bench) -> None:
    """It may be one of a server that still kept them."""
    opened = await post(bench.app, initialize())
    assert (opened.status, "mcp-session-id" in opened.headers) == (200, False)
    response = await post(bench.app, call("echo", much=1), mcp_session_id="of-old", mcp_protocol_version="2025-06-18")
    assert response.json["result"] == {"much": 1}


async def test_peers_are_shared_by_requests_of_one_revision_only(bench: Bench) -> None:
    """Without a header it is the one that had no such header."""
    for version in ("2025-11-25", "2025-06-18", "2025-11-25"):
        await post(bench.app, call("echo"), mcp_protocol_version=version)
    await post(bench.app, call("echo"))
    assert [peer.assumed for peer in bench.peers] == ["2025-11-25", "2025-06-18", "2025-03-26"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_there_is_no_stream_to_open_and_no_session_to_end(bench: Bench, method: str) -> None:
    """405, as the specification says of servers that offer neither."""
    response = await ask(bench.app, method, accept="text/event-stream")
    assert (response.status, response.headers["allow"]) == (405, "POST")


async def test_a_batch_is_served_and_leaves_nothing(bench: Bench) -> None:
    """2025-03-26 has them, with or without sessions."""
    response = await post(bench.app, [call("echo", 1, a=1), call("echo", 2, b=2)])
    assert {each["id"]: each["result"] for each in response.json} == {1: {"a": 1}, 2: {"b": 2}}
    assert bench.peer.is_over


async def test_a_client_that_leaves_ends_its_call(bench: Bench) -> None:
    """Nobody could receive the reply any more, and nothing else could cancel it."""
    waiting = begin(bench.app, call("wait"), mcp_protocol_version="2025-11-25")
    await bench.waiting.wait()
    waiting.disconnect()
    await waiting.done()
    assert bench.peer.withdrawn == [1]


async def test_an_error_has_the_status_of_a_legacy_reply(bench: Bench) -> None:
    """200, whatever its code."""
    response = await post(bench.app, call("fail", code=-32601), mcp_protocol_version="2025-11-25")
    assert (response.status, response.json["error"]["code"]) == (200, -32601)
