"""What a call of a tool allocates, counted: the most it holds at once, what it leaves behind, copies of a large text.

Beside ``test_budget.py``, which counts calls and frames. The ceilings are today's numbers and a tenth; lower them when
a change makes calls cheaper; a change that needs more has to say why. What an interpreter takes for the same objects is
its own: 3.14 has ceilings of its own where it takes more.
"""

from __future__ import annotations

import gc
import sys
import tracemalloc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon import Server
from antiphon.wire.envelope import decode_envelope
from tests.test_budget import META, Outbox, post

MODERN = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call"}
LARGE = 1 << 20
CALLS = 1_000
IS_3_14 = sys.version_info >= (3, 14)


def make_server() -> Server:
    """Make a server with a small tool and two large ones."""
    server = Server("budget", tool_rate=None)
    kept = "x" * LARGE

    @server.tool(structured=False)
    async def echo(text: str) -> str:
        return text

    @server.tool(structured=False)
    async def big() -> str:
        return kept

    @server.tool(structured=False)
    async def blob(data: str) -> str:
        return str(len(data))

    return server


def call(name: str, arguments: str = "{}") -> bytes:
    """Write a modern call."""
    params = f'{{{META}"name":"{name}","arguments":{arguments}}}'
    return f'{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}'.encode()


async def allocated(work: Callable[[], Awaitable[Any]], calls: int = 1) -> tuple[int, int]:
    """Return the most bytes that calls held at once, and how many they left behind."""
    for _ in range(5):
        # What is made once, and kept, is not what every call costs.
        await work()
    gc.collect()
    gc.disable()
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        tracemalloc.reset_peak()
        for _ in range(calls):
            await work()
        left, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        gc.enable()
    return peak - before, left - before


async def over_http(name: str, arguments: str = "{}", calls: int = 1) -> tuple[int, int]:
    """Count for a modern call over HTTP, all of the endpoint."""
    app = make_server().asgi()
    body, headers = call(name, arguments), MODERN | {"mcp-name": name}

    async def work() -> None:
        await post(app, body, headers)

    found = await allocated(work, calls)
    await app.close()
    return found


async def test_a_call_that_is_handed_to_a_peer_holds_little() -> None:
    """What every transport pays."""
    # No whole channel: a peer that is handed its messages receives nothing.
    outbox: Any = Outbox()
    server = make_server()
    frame = call("echo", '{"text":"hello"}')
    async with server._service.serving():
        peer: Any = server._service.connect(outbox)

        async def work() -> None:
            await peer.handle(decode_envelope(frame))
            outbox.sent.clear()

        held, left = await allocated(work)
        await peer.close()
    assert held <= 4_000
    assert left <= (1_160 if IS_3_14 else 1_000)


async def test_a_call_over_http_holds_little() -> None:
    """Guards, headers and the response included, and what this test's own ASGI messages take."""
    held, _ = await over_http("echo", '{"text":"hello"}')
    assert held <= (9_000 if IS_3_14 else 8_000)


async def test_calls_leave_nothing_behind() -> None:
    """But a fixed amount, without the garbage collector's help: there are no cycles to collect."""
    _, left = await over_http("echo", '{"text":"hello"}', CALLS)
    assert left <= 20 * CALLS


@pytest.mark.parametrize(
    ("name", "arguments", "copies"),
    [
        # The encoded response: its encoder's growing buffer alone takes 1.5, the envelope around it the rest.
        ("big", "{}", 3.6),
        # The decoded text, beside the body that came.
        ("blob", '{"data":"' + "y" * LARGE + '"}', 1.1),
    ],
)
async def test_a_large_text_is_not_copied_often(name: str, arguments: str, copies: float) -> None:
    """What is long is not held more often than it must be."""
    held, _ = await over_http(name, arguments)
    assert held <= copies * LARGE
