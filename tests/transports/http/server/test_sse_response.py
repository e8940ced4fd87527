"""One response with events: its head, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.sse_response import Carrier
from tests.transports.http.server.driver import Response, scope_of


async def test_the_head_does_not_wait_for_the_first_event():
    """ASGI: a server sends nothing before it has a part of the body, be it empty; that is given once."""
    parts = []

    async def send(message):
        parts.append((message["type"], message.get("body"), message.get("more_body")))
        # Nobody waits for this yet; so the pause must end by itself.
        carrier.wake()

    carrier = Carrier(Http(scope_of("GET", {}), send, send), 60.0)
    await carrier.open()
    await carrier.pause()
    assert parts == [("http.response.start", None, None), ("http.response.body", b"", True)]
    waiting = asyncio.ensure_future(carrier.pause())
    await asyncio.sleep(0)
    assert not waiting.done()
    carrier.wake()
    await waiting
    assert len(parts) == 2


async def test_after_the_last_bytes_it_has_ended():
    """Whoever waits for that goes on, and whoever comes later does not wait."""
    response = Response()
    carrier = Carrier(Http(scope_of("GET", {}), response.take, response.take), 60.0)
    await carrier.open()
    waiting = asyncio.ensure_future(carrier.wait_ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    await carrier.write(b"x", last=True)
    await carrier.end()
    await waiting
    await carrier.wait_ended()
    assert (response.body, response.complete.is_set()) == (b"x", True)


@pytest.mark.parametrize("lost", [True, False])
async def test_what_is_stopped_is_ended_if_its_connection_is_there(lost):
    """The connection may be gone, or another carrier be there."""
    response = Response()
    carrier = Carrier(Http(scope_of("GET", {}), response.take, response.take), 60.0)
    await carrier.open()
    carrier.stop(lost=lost)
    await carrier.end()
    assert response.complete.is_set() is not lost
