"""Callbacks of the owner of a connection: when they are called, and that their failures harm nobody."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.channel import Frame
from tests.support.linked import done, linked, settle
from tests.support.pair import frame


async def echo(request, _peer):
    """Return the tool's name."""
    return done(request.params.name)


@pytest.mark.parametrize("waits", [False, True])
async def test_a_callback_that_raises_harms_nobody(waits, errors):
    """For progress and for notifications, as a function and as a coroutine: it is logged, and the call goes on."""

    async def fails_later(*_about):
        raise ValueError("callback")

    def fails(*_about):
        raise ValueError("callback")

    async def tool(request, peer):
        peer.send(peer.session.progress(request, 1, None, None), request)
        peer.send(frame(method="notifications/tools/list_changed"))
        await asyncio.sleep(0)
        return done()

    callback = fails_later if waits else fails
    async with linked(tool, client={"notified": callback}) as link:
        assert await link.call(on_progress=callback) == "done"
        await settle()
    assert len(errors.records) == 2


async def test_callbacks_hear_notifications_in_order():
    """A function is called where they are read."""
    seen = []
    async with linked(echo, server={"notified": lambda _peer, event: seen.append(event.method.name)}) as link:
        for _ in range(3):
            link.client.channel.send(Frame(frame(method="notifications/roots/list_changed")))
        await link.call()
    assert seen == ["notifications/roots/list_changed"] * 3


async def test_a_flood_of_notifications_does_not_pile_up_callbacks():
    """Beyond a bound what a peer tells is dropped, and counted."""
    go = asyncio.Event()

    async def slow(_peer, _event):
        await go.wait()

    async with linked(echo, server={"notified": slow, "max_served": 10}) as link:
        for _ in range(100):
            link.client.channel.send(Frame(frame(method="notifications/roots/list_changed")))
        assert await link.call() == "t"
        assert len(link.server.tasks) <= 21
        assert link.server.ignored >= 79
        go.set()


async def test_a_callback_at_the_end_that_raises_harms_nobody(errors):
    """Closing is complete all the same."""

    def fails(_peer):
        raise ValueError("ended")

    async with linked(echo, server={"ended": fails}) as link:
        await link.server.close()
        assert link.server.is_over
    assert len(errors.records) == 1


async def test_whatever_a_callback_raises_the_connection_goes_on():
    """Also what is no ``Exception``: a test that fails within a callback does not hang."""

    class Aside(BaseException):
        pass

    def progress(_params):
        raise Aside

    async def tool(request, peer):
        peer.send(peer.session.progress(request, 1, None, None), request)
        await asyncio.sleep(0)
        return done()

    async with linked(tool) as link:
        assert await link.started(on_progress=progress) == "done"
