"""Clients that open a session and are never heard of again leave nothing behind."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc
from pathlib import Path

import pytest

from antiphon import Context, Server
from tests.support.network import Bare, call, listening, modern_call, request_bytes, until

SESSIONS = 1_000
WARM_UP = 50
AT_ONCE = 50
IDLE = 5.0
"""Seconds after which they end: more than a busy machine needs between two messages of a client that is there."""
KEPT = 5 * 1024
"""Bytes that an abandoned session may leave behind, once it has ended."""
ALIVE = 24 * 1024
"""Bytes that an abandoned session may hold until then, with its call and all."""


def make_server(**options):
    """Make a server whose tools take as long as their client."""
    server = Server("patient", version="1", **options)

    @server.tool
    async def linger() -> str:
        """Wait far longer than any caller."""
        await asyncio.sleep(3600)
        return "never"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("?", max_tokens=5)).text

    return server


async def between_calls(bare):
    """After the handshake."""
    await bare.initialize()


async def in_a_call(bare):
    """While the server works."""
    bare.send(request_bytes(call("linger"), **await bare.initialize()))
    await bare.writer.drain()


async def while_asked(bare):
    """While the server waits for an answer, on the stream of the call."""
    bare.send(request_bytes(call("ask"), **await bare.initialize()))
    await bare.reader.readuntil(b"sampling/createMessage")


async def while_listening(bare):
    """With a stream open."""
    bare.send(request_bytes(b"", "GET", **await bare.initialize()))
    await bare.reader.readuntil(b"id: 0-0")


async def between_rounds(bare):
    """At 2026-07-28, when it was asked and has not answered."""
    bare.send(modern_call("ask"))
    status, _, body = await bare.response()
    assert (status, b"input_required" in body) == (200, True)


async def in_a_modern_call(bare):
    """At 2026-07-28, while the server works."""
    bare.send(modern_call("linger"))
    await bare.writer.drain()


WAYS = [between_calls, in_a_call, while_asked, while_listening, between_rounds, in_a_modern_call]


async def abandon(place, count):
    """Let clients come, each in one of the ways, and vanish."""

    async def one(number):
        bare = await Bare.open(place)
        await WAYS[number % len(WAYS)](bare)
        bare.vanish()

    for start in range(0, count, AT_ONCE):
        await asyncio.gather(*(one(number) for number in range(start, min(start + AT_ONCE, count))))


class Figures:
    """What a server holds."""

    def __init__(self):
        gc.collect()
        self.memory = tracemalloc.get_traced_memory()[0]
        self.tasks = len(asyncio.all_tasks())
        self.files = sum(1 for _ in Path("/dev/fd").iterdir())


@pytest.fixture
def traced():
    """Count every byte."""
    tracemalloc.start()
    yield
    tracemalloc.stop()


@pytest.mark.slow
async def test_abandoned_sessions_leave_nothing_behind(traced):
    """No task, no socket, and hardly a byte, whatever their clients were doing."""
    server = make_server(parked_for=IDLE)
    async with listening(server, idle_timeout=IDLE) as network:
        endpoint = network.config.app._endpoint
        before = Figures()

        def is_quiet():
            left = (endpoint.sessions, endpoint._stateless.is_busy, network.server_state.connections)
            return not any(left) and not server._service.rounds.parked and len(asyncio.all_tasks()) <= before.tasks

        await abandon(network.place, WARM_UP)
        await until(is_quiet)
        before = Figures()
        await abandon(network.place, SESSIONS)
        await until(is_quiet)
        after = Figures()
    assert (after.tasks, after.files) == (before.tasks, before.files)
    assert after.memory - before.memory < SESSIONS * KEPT


async def test_abandoned_sessions_hold_little_while_they_live(traced, monkeypatch):
    """Half of them have a call that goes on, or a round that is out: a task, and what its handler needs."""
    monkeypatch.setattr("antiphon.server.serving.network.DRAIN", 0.1)
    count = 240
    server = make_server()
    async with listening(server) as network:
        sessions, connections = network.config.app._endpoint.sessions, network.server_state.connections
        await abandon(network.place, WARM_UP)
        await until(lambda: not connections)
        before, held = Figures(), len(sessions)
        await abandon(network.place, count)
        await until(lambda: not connections)
        after = Figures()
        assert len(sessions) - held == count * 4 // len(WAYS)
    assert after.files == before.files
    assert after.memory - before.memory < count * ALIVE
