"""Back-pressure: a peer that reads slowly slows us down; one that reads nothing is given up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from antiphon.channel import Frame
from antiphon.errors import CallTimeout, ConnectionClosed, RemoteProtocolError
from antiphon.transports.inbox import Room
from antiphon.transports.queued import memory_pair
from antiphon.wire.revisions import find_revision
from tests.support.linked import done, linked, settle
from tests.support.pair import frame


class Tight:
    """A channel whose peer reads only when told to."""

    def __init__(self) -> None:
        self.inner, self.other = memory_pair()
        self.room = Room()
        self.sent = 0
        self.receive = self.inner.receive
        self.close = self.inner.close
        self.closed_error = self.inner.closed_error

    def send(self, one: Frame) -> Awaitable[None] | None:
        """Send a frame, and ask to wait while there is no room."""
        self.sent += 1
        self.inner.send(one)
        return self.room.full


async def quick(_request, _peer):
    """Answer at once."""
    return done()


async def test_a_server_stops_reading_while_its_replies_are_not_read():
    """So a flood of requests is not answered into memory."""
    tight = Tight()
    async with linked(quick, channels=(tight.other, tight)) as link:
        tight.room.shut()
        for number in range(50):
            link.client.channel.send(Frame(frame(id=f"x{number}", method="tools/call", params={"name": "t"})))
        await settle(100)
        assert tight.sent == 1
        tight.room.open()
        await settle(200)
        assert tight.sent == 50


async def test_pings_are_held_back_as_well():
    """What the session answers by itself is no way around."""
    tight = Tight()
    async with linked(quick, channels=(tight.other, tight)) as link:
        tight.room.shut()
        for number in range(50):
            link.client.channel.send(Frame(frame(id=f"x{number}", method="ping")))
        await settle(100)
        assert tight.sent == 1
        tight.room.open()
        await settle()


async def test_batches_are_held_back_as_well():
    """Also one that the session answers alone."""
    tight = Tight()
    async with linked(quick, revision=find_revision("2025-03-26"), channels=(tight.other, tight)) as link:
        tight.room.shut()
        for number in range(50):
            link.client.channel.send(Frame(b"[1,%b]" % frame(id=f"x{number}", method="ping")))
        await settle(100)
        assert tight.sent == 1
        tight.room.open()
        await settle(200)
        assert tight.sent == 50


@pytest.mark.parametrize("says", ["a log message", "an ask"])
async def test_requests_that_are_cancelled_at_once_are_bounded(says: str):
    """They count as open until the peer has read what their handlers had sent."""

    async def talks(request, peer):
        if request.params.name == "quick":
            return done()
        if says == "an ask":
            await link.ask(request)
        else:
            wait = peer.send(b'{"jsonrpc":"2.0","method":"notifications/message"}', request)
            assert wait is not None
            await wait
        return done()

    async def never(_request, _peer):
        await asyncio.Event().wait()

    tight = Tight()
    async with linked(talks, never, channels=(tight.other, tight), server={"max_served": 5}) as link:
        tight.room.shut()
        for _ in range(50):
            call = link.started()
            await settle()
            call.cancel()
            await settle()
        # Each of five has sent one frame, or an ask and that it is given up. The sixth was refused, and its reply is
        # what the task that reads waits for.
        assert tight.sent == (11 if says == "an ask" else 6)
        tight.room.open()
        await settle(1000)
        assert link.server._unread == 0
        assert await link.call("quick") == "done"


async def test_a_peer_that_reads_nothing_is_gone_after_a_minute(clock):
    """The connection ends, and says why."""
    tight = Tight()
    async with linked(quick, channels=(tight.other, tight)) as link:
        tight.room.shut()
        call = link.started()
        await clock.advance(59)
        assert not link.server.is_over
        await clock.advance(2)
        assert link.server.is_over
        assert "read nothing for 60 s" in str(link.server._over())
        assert await call == "done"
        tight.room.open()


async def test_a_deadline_holds_while_the_peer_does_not_even_read(clock):
    """A call does not wait for room longer than for its reply."""

    async def never(_request, _peer):
        await asyncio.Event().wait()

    tight = Tight()
    async with linked(never, channels=(tight, tight.other)) as link:
        tight.room.shut()
        call = link.started(timeout=5)
        await clock.advance(5)
        with pytest.raises(CallTimeout):
            await call
        tight.room.open()
        link.check_empty()


async def test_a_reply_ends_the_wait_for_room():
    """It came all the same."""
    tight = Tight()
    async with linked(quick, channels=(tight, tight.other)) as link:
        tight.room.shut()
        assert await link.call() == "done"
        tight.room.open()
        link.check_empty()


async def test_a_caller_may_stop_waiting_for_room():
    """The request is withdrawn."""

    async def never(_request, _peer):
        await asyncio.Event().wait()

    tight = Tight()
    async with linked(never, channels=(tight, tight.other)) as link:
        tight.room.shut()
        call = link.started()
        await settle()
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        tight.room.open()
        await settle()
        link.check_empty()


async def test_a_failure_that_comes_as_its_caller_stops_waiting_is_let_go():
    """No exception is left that nobody saw."""

    async def never(_request, _peer):
        await asyncio.Event().wait()

    tight = Tight()
    async with linked(never, channels=(tight, tight.other)) as link:
        tight.room.shut()
        outgoing = link.open()
        call = asyncio.ensure_future(link.client.request(outgoing))
        await settle()
        link.client.abandon(outgoing.id, RemoteProtocolError("given up"))
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled()
        tight.room.open()


async def test_a_client_gives_up_a_server_that_reads_nothing(clock):
    """Calls without a deadline do not wait for ever."""

    async def never(_request, _peer):
        await asyncio.Event().wait()

    tight = Tight()
    async with linked(never, channels=(tight, tight.other)) as link:
        tight.room.shut()
        call = link.started()
        await clock.advance(61)
        with pytest.raises(ConnectionClosed, match="read nothing"):
            await call
        tight.room.open()


async def test_closing_does_not_wait_for_a_stalled_peer():
    """What waits for room is stopped."""
    tight = Tight()
    async with linked(quick, channels=(tight.other, tight)) as link:
        tight.room.shut()
        call = link.started()
        await settle()
        async with asyncio.timeout(30):
            await link.server.close()
        assert await call == "done"
        tight.room.open()
