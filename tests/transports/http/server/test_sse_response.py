"""One response with events: what goes out in one step, and how it ends."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.transports.http.server.asgi import AsgiHttp
from antiphon.transports.http.server.sse_response import Carrier
from tests.transports.http.server.driver import Instant, InstantHttp, Response, scope_of


def carrier_to(response):
    """Make a carrier of a response."""
    parts = scope_of("GET", {}), response.take, response.take
    return Carrier(InstantHttp(response, *parts) if isinstance(response, Instant) else AsgiHttp(*parts), 60.0)


async def test_a_response_in_one_step_is_the_one_with_messages():
    """Head, events, end."""
    instant, slow = Instant(), Response()
    carrier = carrier_to(instant)
    assert carrier.begin(b"1") and carrier.pass_on(b"2", last=True)
    other = carrier_to(slow)
    await other.open()
    await other.write(b"1")
    await other.write(b"2", last=True)
    assert (instant.status, instant.headers, instant.body) == (slow.status, slow.headers, slow.body)
    assert instant.complete.is_set() and slow.complete.is_set()


async def test_the_head_does_not_wait_for_the_first_event():
    """ASGI: a server sends nothing before it has a part of the body, be it empty; that is given once."""
    parts = []

    async def send(message):
        parts.append((message["type"], message.get("body"), message.get("more_body")))
        # Nobody waits for this yet; so the pause must end by itself.
        carrier.wake()

    carrier = Carrier(AsgiHttp(scope_of("GET", {}), send, send), 60.0)
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
    carrier = carrier_to(Instant())
    carrier.begin(b"")
    waiting = asyncio.ensure_future(carrier.wait_ended())
    await asyncio.sleep(0)
    assert not waiting.done()
    carrier.pass_on(b"", last=True)
    await waiting
    await carrier.wait_ended()
    assert not carrier.pass_on(b"more", last=False)
    await carrier.end()


@pytest.mark.parametrize("lost", [True, False])
async def test_what_is_stopped_passes_nothing_on(lost):
    """The connection may be gone, or another carrier be there."""
    response = Instant()
    carrier = carrier_to(response)
    carrier.begin(b"")
    carrier.stop(lost=lost)
    assert not carrier.pass_on(b"x", last=True)
    await carrier.end()
    assert (response.body, response.complete.is_set()) == (b"", not lost)


async def test_another_server_does_nothing_in_one_step():
    """It is sent messages."""
    carrier = carrier_to(Response())
    assert not carrier.begin(b"1") and not carrier.pass_on(b"1", last=False)
