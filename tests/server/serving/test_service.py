"""One server at work, for all its clients."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import ConfigError
from antiphon.server.serving.service import Held
from antiphon.transports.queued import memory_pair
from tests.support.mounted import outer_of, shop

ERAS = ["2025-11-25", "2026-07-28"]


async def test_the_lifespan_is_entered_once_for_all_users() -> None:
    """With the first, and left with the last."""
    told: list[str] = []

    @asynccontextmanager
    async def lifespan(_server: Server) -> AsyncGenerator[str]:
        told.append("entered")
        yield "state"
        told.append("left")

    service = Server("s", lifespan=lifespan)._service
    async with service.serving():
        async with service.serving():
            assert service.core.state == "state"
        assert told == ["entered"]
    assert told == ["entered", "left"]
    assert service.core.state is None


async def test_who_has_left_is_forgotten() -> None:
    """Neither told of changes, nor counted."""
    server = Server("s")
    async with Client(server):
        assert server._service.subscriptions.count == (1, 0)
    assert server._service.subscriptions.count == (0, 0)


async def test_a_connection_carries_who_the_client_is() -> None:
    """And the headers it came with."""
    server = Server("s")
    channel, _ = memory_pair()
    async with server._service.serving():
        peer = server._service.connect(channel, principal="ada", headers={"x-team": "a"})
        assert (peer.principal, peer.headers) == ("ada", {"x-team": "a"})
        await peer.close()


async def test_a_lifespan_that_fails_is_told_to_whoever_opens_the_server() -> None:
    """And the next one may try again."""
    failures = [RuntimeError("no database")]

    @asynccontextmanager
    async def lifespan(_server: Server) -> AsyncGenerator[None]:
        if failures:
            raise failures.pop()
        yield

    service = Server("s", lifespan=lifespan)._service
    with pytest.raises(RuntimeError, match="no database"):
        async with service.serving():
            pass
    async with service.serving():
        assert service.core.state is None


def lifespan_of(name: str, events: list[str], fails: str = "") -> Callable[[Server], Any]:
    """Make a lifespan that notes when it is entered and left, and may fail at either."""

    @asynccontextmanager
    async def lifespan(_server: Server) -> AsyncGenerator[str]:
        if fails == "entering":
            raise OSError(f"{name} cannot start")
        events.append(f"{name} entered")
        yield name
        events.append(f"{name} left")
        if fails == "leaving":
            raise OSError(f"{name} cannot stop")

    return lifespan


async def test_lifespans_are_entered_in_order_and_left_in_the_opposite_one() -> None:
    """The outer one first, then what is mounted on it; once, although a server is used in two ways at once."""
    events: list[str] = []
    nested = Server("nested", lifespan=lifespan_of("nested", events))
    first = outer_of((nested, "n"), lifespan=lifespan_of("first", events))
    second = Server("second", lifespan=lifespan_of("second", events))
    server = outer_of((first, "f"), (second, "s"), lifespan=lifespan_of("outer", events))
    async with Client(server), Client(second):
        assert events == ["outer entered", "first entered", "nested entered", "second entered"]
        events.clear()
    assert events == ["second left", "nested left", "first left", "outer left"]


async def test_a_lifespan_that_cannot_be_entered_says_whose_it_is_and_what_was_entered_is_left() -> None:
    """The error is the author's own, with a note."""
    events: list[str] = []
    server = outer_of(
        (Server("first", lifespan=lifespan_of("first", events)), "f"),
        (Server("broken", lifespan=lifespan_of("broken", events, fails="entering")), "b"),
        lifespan=lifespan_of("outer", events),
    )
    with pytest.raises(OSError, match="broken cannot start") as raised:
        async with server._service.serving():
            raise AssertionError("opened")
    assert raised.value.__notes__ == ["in the lifespan of the server 'broken', mounted on 'outer'"]
    assert events == ["outer entered", "first entered", "first left", "outer left"]


async def test_a_lifespan_that_cannot_be_left_keeps_no_other_from_it() -> None:
    """All are left, and the error is raised."""
    events: list[str] = []
    server = outer_of(
        (Server("first", lifespan=lifespan_of("first", events)), "f"),
        (Server("broken", lifespan=lifespan_of("broken", events, fails="leaving")), "b"),
        lifespan=lifespan_of("outer", events),
    )
    with pytest.raises(OSError, match="broken cannot stop") as raised:
        async with server._service.serving():
            events.clear()
    assert events == ["broken left", "first left", "outer left"]
    assert raised.value.__notes__ == ["in the lifespan of the server 'broken', mounted on 'outer'"]
    assert server.state is None


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_may_be_mounted_on_one_that_is_open(revision: str) -> None:
    """Its lifespan is entered first, then its features are there and clients are told; both end with the outer one."""
    events: list[str] = []
    server = Server("outer", declares=["tools", "prompts"])

    @server.tool
    def mount() -> str:
        inner = shop(lifespan=lifespan_of("inner", events))
        server.mount(inner, prefix="new")
        return "mounting"

    async with Client(server, revision=revision) as client, client.listen(tools=True) as changes:
        await client.call_tool("mount")
        async with asyncio.timeout(30):
            assert (await anext(changes)).kind == "tools"
        assert events == ["inner entered"]
        assert (await client.call_tool("new__add", {"a": 1, "b": 2})).text == "3"
        assert (await client.get_prompt("new__ask", {"topic": "hats"})).messages
    assert events == ["inner entered", "inner left"]


async def test_a_live_mount_that_fails_is_logged_and_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """The server goes on as it is."""
    failed = asyncio.Event()

    @asynccontextmanager
    async def broken(_server: Server) -> AsyncGenerator[None]:
        failed.set()
        raise OSError("no database")
        yield

    server = Server("outer", declares=["tools"])
    async with Client(server) as client:
        server.mount(shop(lifespan=broken), prefix="new")
        await failed.wait()
        await client.ping()
        assert [tool async for tool in client.tools()] == []
    assert "the server 'shop' could not be mounted on 'outer'" in caplog.text
    assert "no database" in caplog.text


async def test_a_server_that_closes_waits_for_no_mount() -> None:
    """A lifespan that is being entered is ended."""
    entering, ended = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def slow(_server: Server) -> AsyncGenerator[None]:
        try:
            entering.set()
            await asyncio.Event().wait()
            yield
        finally:
            ended.set()

    server = Server("outer")
    async with Client(server):
        server.mount(shop(lifespan=slow))
        await entering.wait()
    assert ended.is_set()


async def test_a_lifespan_is_left_in_the_task_that_entered_it() -> None:
    """What belongs to a task may be used in it, such as a ``TaskGroup``."""
    tasks: list[asyncio.Task[None] | None] = []

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[str]:
        tasks.append(asyncio.current_task())
        async with asyncio.TaskGroup() as group:
            background = group.create_task(asyncio.Event().wait())
            yield "state"
            background.cancel()
        tasks.append(asyncio.current_task())

    held = Held(lifespan())
    assert await asyncio.create_task(held.enter()) == "state"
    await asyncio.create_task(held.leave())
    assert tasks[0] is tasks[1]


async def test_what_entering_raises_is_raised() -> None:
    """As it is."""

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        raise OSError("no")
        yield

    with pytest.raises(OSError, match="no"):
        await Held(lifespan()).enter()


async def test_what_leaving_raises_is_raised() -> None:
    """To whoever leaves last."""

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        yield
        raise OSError("disk full")

    held = Held(lifespan())
    await held.enter()
    with pytest.raises(OSError, match="disk full"):
        await held.leave()


async def test_an_entering_that_is_cancelled_cleans_up() -> None:
    """What was begun is ended before the caller goes on."""
    begun, events = asyncio.Event(), list[str]()

    @asynccontextmanager
    async def lifespan() -> AsyncGenerator[None]:
        try:
            begun.set()
            await asyncio.Event().wait()
            yield
        finally:
            events.append("cleaned up")

    entering = asyncio.create_task(Held(lifespan()).enter())
    await begun.wait()
    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    assert events == ["cleaned up"]


async def test_what_is_no_context_manager_is_named_with_the_remedy() -> None:
    """The decorator is easily forgotten."""

    async def lifespan() -> AsyncIterator[int]:
        yield 1

    wrong: Any = lifespan()
    with pytest.raises(ConfigError, match=r"async_generator.*contextlib\.asynccontextmanager"):
        Held(wrong)
    await wrong.aclose()
