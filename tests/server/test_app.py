"""The server as its author meets it: who it is, and how long it is open."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, ConfigError, Context, LocalProtocolError, Server
from tests.support.raw_client import raw_client


async def test_a_client_learns_who_the_server_is() -> None:
    """Name, version, title and instructions."""
    server = Server("s", version="3", title="The shop", instructions="Ask nicely.")
    for revision in ("2025-11-25", "2026-07-28"):
        async with Client(server, revision=revision) as client:
            info = client.server_info
            assert info is not None
            assert (info.name, info.version, info.title) == ("s", "3", "The shop")
            assert client.instructions == "Ask nicely."


async def test_a_server_may_speak_fewer_revisions() -> None:
    """Those it was given, and no more."""
    from antiphon.wire.revisions import LATEST_LEGACY

    async with Client(Server("s", revisions=[LATEST_LEGACY.name])) as client:
        assert client.revision == "2025-11-25"


def counting(events: list[str], **options: Any) -> Server:
    """Make a server whose lifespan tells when it begins and ends."""

    @asynccontextmanager
    async def lifespan(server: Server) -> AsyncGenerator[dict[str, str]]:
        events.append(f"{server.name} began")
        try:
            yield {"shelf": "full"}
        finally:
            events.append("ended")

    server = Server("shop", lifespan=lifespan, **options)

    @server.tool
    async def shelf(ctx: Context) -> str:
        return ctx.state["shelf"]

    return server


async def test_the_lifespan_is_entered_once_for_all_clients() -> None:
    """With the first, and left after the last; handlers see what it yields."""
    events: list[str] = []
    server = counting(events)
    async with Client(server) as first:
        async with Client(server) as second:
            assert (await first.call_tool("shelf")).text == (await second.call_tool("shelf")).text == "full"
        assert events == ["shop began"]
        assert server.state == {"shelf": "full"}
    assert events == ["shop began", "ended"]
    assert server.state is None


async def test_a_server_that_was_closed_opens_again() -> None:
    """With a new lifespan."""
    events: list[str] = []
    server = counting(events)
    for _ in range(2):
        async with Client(server) as client:
            assert (await client.call_tool("shelf")).text == "full"
    assert events == ["shop began", "ended"] * 2


async def test_a_second_client_waits_for_the_lifespan_too() -> None:
    """Nobody is served by a server that is half open."""
    opening, release = asyncio.Event(), asyncio.Event()
    seen: list[Any] = []

    @asynccontextmanager
    async def slow(_server: Server) -> AsyncGenerator[str]:
        opening.set()
        await release.wait()
        yield "open"

    server = Server("s", lifespan=slow)

    async def hold() -> None:
        async with server._service.serving():
            seen.append(server.state)

    holding = [asyncio.create_task(hold()) for _ in range(2)]
    await opening.wait()
    await asyncio.sleep(0)
    assert seen == []
    release.set()
    await asyncio.gather(*holding)
    assert seen == ["open", "open"]


async def test_a_server_that_closes_is_not_opened_before_it_is_closed() -> None:
    """The next client waits for the last one's cleanup."""
    events: list[str] = []
    closing, release = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(_server: Server) -> AsyncGenerator[None]:
        events.append("begin")
        yield
        closing.set()
        await release.wait()
        events.append("end")

    server = Server("s", lifespan=slow)

    async def hold() -> None:
        async with server._service.serving():
            pass

    first = asyncio.create_task(hold())
    await closing.wait()
    second = asyncio.create_task(hold())
    await asyncio.sleep(0)
    assert events == ["begin"]
    release.set()
    await asyncio.gather(first, second)
    assert events == ["begin", "end", "begin", "end"]


async def test_a_lifespan_that_fails_is_told_as_it_is() -> None:
    """The client's caller sees the cause, and the next client may have more luck."""
    tries: list[int] = []

    @asynccontextmanager
    async def flaky(_server: Server) -> AsyncGenerator[int]:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no database")
        yield len(tries)

    server = Server("s", lifespan=flaky)
    server.tool(name="state")(lambda: str(server.state))
    with pytest.raises(OSError, match="no database"):
        await Client(server).connect()
    async with Client(server) as client:
        assert (await client.call_tool("state")).text == "2"


def test_a_server_serves_one_event_loop_after_another() -> None:
    """As in a test suite, where every test has a loop of its own."""
    server = counting([])

    async def use() -> str:
        async with Client(server) as first, Client(server) as second:
            await first.call_tool("shelf")
            return (await second.call_tool("shelf")).text

    assert [asyncio.run(use()), asyncio.run(use())] == ["full", "full"]


async def test_an_open_server_is_refused_to_another_event_loop() -> None:
    """Its lifespan would be entered twice at once, and what waits on one loop would be woken by the other."""
    server = counting([])

    async def use() -> str:
        async with Client(server) as client:
            return (await client.call_tool("shelf")).text

    async with Client(server) as client:
        with pytest.raises(LocalProtocolError, match="'shop' is open on another event loop: make a server for each"):
            await asyncio.to_thread(asyncio.run, use())
        assert (await client.call_tool("shelf")).text == "full"
    assert await asyncio.to_thread(asyncio.run, use()) == "full"


async def test_changes_while_nobody_listens_are_forgotten() -> None:
    """A closed server has nobody to tell."""
    server = counting([])
    server.tool(name="early")(lambda: "x")
    server.resource_updated("s://hat")
    async with raw_client(server) as client:
        tools = (await client.reply(client.modern("tools/list")))["result"]["tools"]
    assert [tool["name"] for tool in tools] == ["shelf", "early"]
    assert client.notifications == []


async def test_the_first_tool_may_come_after_the_client() -> None:
    """A server that grows serves what it has, and goes on serving what it has declared."""
    server = Server("grows")
    async with raw_client(server) as client:
        assert (await client.error("tools/list"))["code"] == -32601
        server.tool(name="first")(lambda: "x")
        await client.reply(client.modern("server/discover"))
        listed = await client.reply(client.modern("tools/list"))
        server.tools.remove("first")
        await client.reply(client.modern("server/discover"))
        empty = await client.reply(client.modern("tools/list"))
    assert [tool["name"] for tool in listed["result"]["tools"]] == ["first"]
    assert empty["result"]["tools"] == []


@pytest.mark.parametrize("wrong", [{"name": 5}, {"name": "shop", "version": 1.0}])
def test_name_and_version_are_text(wrong: Any) -> None:
    """A client refuses a server that says otherwise."""
    with pytest.raises(ConfigError, match="must be str, got"):
        Server(**wrong)


def test_a_resource_without_a_uri_is_an_error_at_once() -> None:
    """Used like ``@server.tool``, it would register nothing and put a decorator in the place of the function."""
    wrong: Any = len
    with pytest.raises(ConfigError, match="a resource needs a URI"):
        Server("shop").resource(wrong)


@pytest.mark.parametrize("kind", ["tool", "prompt"])
def test_what_is_no_function_is_told_what_to_pass(kind: str) -> None:
    """A plain function may be added; a value that was passed in its place is named."""
    with pytest.raises(ConfigError, match="int is not a function; decorate a function"):
        getattr(Server("shop"), f"add_{kind}")(5)


@pytest.mark.parametrize("wrong", [{"page_size": 0}, {"page_size": "5"}, {"tool_rate": 5}])
def test_a_bound_of_another_kind_is_an_error_at_once(wrong: Any) -> None:
    """Not at the first request; and pages without entries would hide everything."""
    with pytest.raises(ConfigError, match=rf"{next(iter(wrong))}=\)? must be"):
        Server("shop", **wrong)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"lifespan": 5}, r"Server\(lifespan=\) is an async context manager"),
        ({"icons": ["x"]}, r"Server\(\): icons= is a list of Icon"),
        ({"icons": 5}, r"Server\(\): icons= is a list of Icon"),
        ({"keys": [5]}, "has 32 bytes, not of int"),
        ({"keys": 5}, "keys= is a list of keys"),
    ],
)
def test_an_odd_value_is_an_error_at_once(wrong: Any, said: str) -> None:
    """Of the configuration, and not one of Python at the first request."""
    with pytest.raises(ConfigError, match=said):
        Server("shop", **wrong)


@pytest.mark.parametrize("wrong", [{"icons": ["x"]}, {"icons": 5}, {"meta": 5}])
@pytest.mark.parametrize("kind", ["tool", "prompt", "resource"])
def test_an_odd_icon_is_an_error_where_it_is_written(kind: str, wrong: Any) -> None:
    """A list with it could not be sent to any client."""

    async def describe() -> str:
        return ""

    decorate = getattr(Server("shop"), kind)
    with pytest.raises(ConfigError, match=f"{next(iter(wrong))}="):
        (decorate("shop://a", **wrong) if kind == "resource" else decorate(**wrong))(describe)


def test_a_server_without_tasks_loads_nothing_for_them() -> None:
    """They are a tenth of what a server takes to load, and most have none."""
    program = """
import asyncio, sys
from antiphon import Client, Server

server = Server("s")

@server.tool
async def echo(text: str) -> str:
    return text

async def main():
    async with Client(server) as client:
        assert (await client.call_tool("echo", {"text": "hi"})).text == "hi"

asyncio.run(main())
print(*(name for name in sys.modules if name.startswith("antiphon.server.tasks.")))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == ""


def test_tasks_are_told_where_each_tool_says_it() -> None:
    """FastMCP has ``tasks=True`` for all tools of a server."""
    wrong: Any = True
    with pytest.raises(ConfigError, match=r"takes TaskOptions\(...\), not True; a tool takes task='allowed' itself"):
        Server("shop", tasks=wrong)


def test_a_revision_without_a_list_is_told_to_be_one() -> None:
    """Its letters were looked up as revisions."""
    with pytest.raises(ConfigError, match="is a list of at least one"):
        Server("shop", revisions="2025-11-25")
