"""One server at work, for all its clients."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from antiphon import Client, Server
from antiphon.transports.memory import memory_pair


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
