"""The end: from any task, in any order, any number of times, and nothing is left."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.engine.connection import LATER
from antiphon.errors import ConnectionClosed
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST
from tests.support.linked import ANSWER, SAMPLE, done, linked, settle


async def endless(_request, _peer):
    """Wait for ever."""
    await asyncio.Event().wait()


async def test_closing_tells_whoever_waits():
    """On both sides of the channel; each gets an exception of its own."""
    async with linked(endless) as link:
        calls = [link.started() for _ in range(3)]
        await settle()
        await link.client.close()
        errors = await asyncio.gather(*calls, return_exceptions=True)
        assert all(isinstance(error, ConnectionClosed) for error in errors)
        assert len({id(error) for error in errors}) == 3
        await link.server.wait_ended()
        assert link.server.is_over
        assert link.client.session.outgoing == {}


async def test_closing_twice_and_at_once_is_closing_once():
    """From many tasks; all return when it is done."""
    async with linked(endless) as link:
        call = link.started()
        await settle()
        await asyncio.gather(*(link.client.close() for _ in range(5)), link.server.close(), link.server.close())
        await link.client.close()
        with pytest.raises(ConnectionClosed):
            await call


async def test_after_the_end_nothing_is_sent():
    """A call raises at once, and a notification goes nowhere."""
    async with linked(endless) as link:
        await link.client.close()
        with pytest.raises(ConnectionClosed):
            await link.call()
        assert link.client.session.outgoing == {}


async def test_closing_is_not_undone_by_cancelling_who_closes():
    """The work goes on, and the next one who closes waits for it."""
    go = asyncio.Event()

    async def slow(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            await go.wait()

    async with linked(slow) as link:
        call = link.started()
        await settle()
        closing = asyncio.ensure_future(link.server.close())
        await settle()
        closing.cancel()
        await asyncio.wait([closing])
        again = asyncio.ensure_future(link.server.close())
        await settle()
        assert not again.done()
        go.set()
        await again
        with pytest.raises(ConnectionClosed):
            await call


@pytest.mark.parametrize("waits", [False, True])
async def test_a_handler_may_close_its_own_connection(waits):
    """Before and after it has waited; it goes on to its own end."""
    ended = asyncio.Event()

    async def tool(_request, peer):
        await asyncio.sleep(0) if waits else None
        await peer.close()
        ended.set()
        return done()

    async with linked(tool) as link:
        call = link.started()
        async with asyncio.timeout(30):
            await ended.wait()
        with pytest.raises(ConnectionClosed):
            await call


@pytest.mark.parametrize("waits", [False, True])
async def test_an_answerer_may_close_its_own_client(waits):
    """A person says: enough of this server."""

    async def tool(request, peer):
        await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))

    async def answer(_request, peer):
        await asyncio.sleep(0) if waits else None
        await peer.close()
        return ANSWER

    async with linked(tool, answer) as link:
        with pytest.raises(ConnectionClosed):
            await link.call()
        async with asyncio.timeout(30):
            await link.client.close()


async def test_a_callback_may_close_the_connection():
    """One for notifications, as a coroutine."""
    closed = asyncio.Event()

    async def tool(_request, peer):
        peer.send(b'{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}')
        await asyncio.Event().wait()

    async with linked(tool, client={"on_notified": lambda _peer, _event: close()}) as link:

        async def close():
            await link.client.close()
            closed.set()

        with pytest.raises(ConnectionClosed):
            await link.call()
        await closed.wait()


async def test_a_handler_that_closes_in_its_cleanup_does_not_wait_for_itself():
    """Somebody else is closing already, and waits for this very handler."""
    order = []

    async def tool(_request, peer):
        try:
            await asyncio.Event().wait()
        finally:
            await peer.close()
            order.append("handler")

    async with linked(tool) as link:
        call = link.started()
        await settle()
        async with asyncio.timeout(30):
            await link.server.close()
        order.append("closed")
        assert order == ["handler", "closed"]
        with pytest.raises(ConnectionClosed):
            await call


async def test_handlers_have_time_to_clean_up():
    """They are cancelled once, by whatever ends the connection first, and waited for."""
    seen = []

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            for _ in range(20):
                await asyncio.sleep(0)
            seen.append("clean")
            raise

    async with linked(tool) as link:
        calls = [link.started() for _ in range(3)]
        await settle()
        await link.client.close()
        await link.server.wait_ended()
        await link.server.close()
        assert seen == ["clean"] * 3
        await asyncio.gather(*calls, return_exceptions=True)


async def test_a_handler_that_will_not_end_is_left_after_its_time(clock):
    """Closing insists once, and goes on."""
    stubborn, go = [], asyncio.Event()

    async def tool(_request, _peer):
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                stubborn.append("no")
        return done()

    async with linked(tool) as link:
        call = link.started()
        await settle()
        closing = asyncio.ensure_future(link.server.close())
        await clock.advance(4.9)
        assert not closing.done()
        await clock.advance(0.2)
        await closing
        await settle()
        assert stubborn == ["no", "no"]
        go.set()
        with pytest.raises(ConnectionClosed):
            await call


async def test_a_peer_that_ends_in_mid_call_ends_the_call():
    """With the reason its channel gives."""
    async with linked(endless) as link:
        call = link.started()
        await settle()
        await link.server.channel.close()
        with pytest.raises(ConnectionClosed, match="The peer closed the in-memory channel"):
            await call
        await link.client.wait_ended()


async def test_a_peer_that_ends_withdraws_its_requests():
    """Nobody will hear what a person answers now."""
    stopped = asyncio.Event()

    async def tool(request, peer):
        await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))

    async def answer(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(tool, answer) as link:
        call = link.started()
        await settle()
        await link.server.channel.close()
        await stopped.wait()
        with pytest.raises(ConnectionClosed):
            await call


async def test_handlers_may_finish_after_the_peer_has_ended(clock):
    """For as long as the grace; a process whose input has ended still writes its replies."""
    go, finished = asyncio.Event(), []

    async def tool(request, _peer):
        await go.wait()
        finished.append(request.id)
        return done()

    async with linked(tool, server={"grace": 2.0}) as link:
        call = link.started()
        await settle()
        await link.client.close()
        await clock.advance(1)
        assert not link.server.is_over
        go.set()
        await link.server.wait_ended()
        assert len(finished) == 1
        await asyncio.wait([call])
        assert isinstance(call.exception(), ConnectionClosed)


async def test_replies_given_later_have_the_grace_as_well():
    """Where they may be rounds; a subscription ends with its peer."""
    kept, told = [], []

    def later(request, _peer):
        kept.append(request)
        request.on_cancel = told.append
        return LATER

    handlers = {"tools/call": later, "subscriptions/listen": later}
    async with linked(handlers, revision=LATEST, server={"grace": 5.0}) as link:
        call = link.started()
        await settle()
        await link.client.close()
        await settle()
        assert not link.server.is_over
        link.server.reply(kept[0], done())
        await link.server.wait_ended()
        assert told == []
        await asyncio.wait([call])
        assert call.exception() is not None


async def test_after_the_grace_handlers_are_stopped(clock):
    """Each of them, those that reply later included."""
    told = []

    def later(request, _peer):
        request.on_cancel = told.append
        return LATER

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            told.append("stopped")

    async with linked({"tools/call": tool, "resources/read": later}, revision=LATEST, server={"grace": 2.0}) as link:
        call = link.started()
        read = asyncio.ensure_future(
            link.client.request(link.open("resources/read", METHODS["resources/read"].params(uri="a:b")))
        )
        await settle()
        await link.client.close()
        await clock.advance(2.1)
        await link.server.wait_ended()
        await settle()
        assert sorted(told) == ["stopped", "the connection has ended"]
        await asyncio.wait([call, read])
        assert call.exception() is not None
        assert read.exception() is not None


async def test_an_ask_after_the_peer_has_ended_fails_at_once():
    """During the grace nobody is there to answer."""
    go, seen = asyncio.Event(), []

    async def tool(request, peer):
        await go.wait()
        try:
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))
        except ConnectionClosed as error:
            seen.append(error)
        return done()

    async with linked(tool, server={"grace": 30.0}) as link:
        call = link.started()
        await settle()
        await link.client.close()
        go.set()
        await link.server.wait_ended()
        assert len(seen) == 1
        await asyncio.wait([call])
        assert call.exception() is not None


async def test_the_owner_is_told_of_the_end_once():
    """Whoever ended it."""
    ended = []
    async with linked(
        endless,
        client={"on_end": lambda _peer: ended.append("client")},
        server={"on_end": lambda _peer: ended.append("server")},
    ) as link:
        await link.server.close()
        await link.client.wait_ended()
        await link.client.close()
    assert sorted(ended) == ["client", "server"]


async def test_later_requests_are_told_when_the_connection_closes():
    """So that what runs for them elsewhere can stop."""
    told = []

    def later(request, _peer):
        request.on_cancel = told.append
        return LATER

    async with linked(later) as link:
        call = link.started()
        await settle()
        await link.server.close()
        assert told == ["the connection has ended"]
        with pytest.raises(ConnectionClosed):
            await call
