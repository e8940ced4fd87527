"""Messages handed over one by one, in tasks that are not the connection's, as transports with many requests do."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.engine.connection import LATER, Connection
from antiphon.protocol.events import Request
from antiphon.transports.queued import memory_pair
from antiphon.wire.envelope import Envelope, decode_envelope
from antiphon.wire.revisions import LATEST_LEGACY
from tests.support.linked import Linked, Recorder, done, settle
from tests.support.pair import Pair, frame


def message(id: str = "a", method: str = "tools/call") -> Envelope:
    """Make a message as a transport has decoded it."""
    return decode_envelope(frame(id=id, method=method, params={"name": "t"}))


def notice(id: str) -> Envelope:
    """Make a cancellation."""
    return decode_envelope(frame(method="notifications/cancelled", params={"requestId": id}))


class Driven:
    """A server that is not started: the test hands it its messages."""

    def __init__(self, handler) -> None:
        ours, theirs = memory_pair()
        self.far = ours
        self.channel = Recorder(theirs)
        pair = Pair.opened(LATEST_LEGACY)
        self.peer = Connection(self.channel, pair.server, {"tools/call": handler})
        self.waited: list[str] = []

    def start(self, id: str = "a") -> asyncio.Task[str]:
        """Hand over a call in a task, which goes on to something else after it."""

        async def exchange() -> str:
            await self.peer.handle(message(id), waits=lambda: self.waited.append(id))
            await asyncio.sleep(0)
            return "went on"

        return asyncio.ensure_future(exchange())


@pytest.fixture
async def driven():
    """Close what a test has made."""
    made: list[Driven] = []

    def make(handler) -> Driven:
        made.append(Driven(handler))
        return made[-1]

    yield make
    for each in made:
        await each.peer.close()


async def endless(_request, _peer):
    """Wait for ever."""
    await asyncio.Event().wait()


async def test_a_handler_that_never_waits_has_replied_when_handle_returns(driven):
    """In the caller's task, and nobody was told that it waits."""
    tasks = []

    async def tool(_request, _peer):
        tasks.append(asyncio.current_task())
        return done()

    it = driven(tool)
    await it.peer.handle(message(), waits=lambda: it.waited.append("a"))
    assert [reply["id"] for reply in it.channel.sent] == ["a"]
    assert it.waited == []
    assert tasks == [asyncio.current_task()]


async def test_whoever_hands_over_is_told_once_that_the_handler_waits(driven):
    """Before it does; no reader is started."""
    go = asyncio.Event()

    async def tool(_request, _peer):
        await asyncio.sleep(0)
        await go.wait()
        return done()

    it = driven(tool)
    exchange = it.start()
    await settle()
    assert it.waited == ["a"]
    assert len(it.peer.tasks) == 0
    go.set()
    assert await exchange == "went on"
    assert [reply["id"] for reply in it.channel.sent] == ["a"]


async def test_a_request_may_be_cancelled_by_a_message(driven):
    """``handle`` returns, the task goes on, nothing is sent."""
    it = driven(endless)
    exchange = it.start()
    await settle()
    await it.peer.handle(notice("a"))
    assert await exchange == "went on"
    assert it.channel.sent == []
    assert it.peer.session.incoming == {}


async def test_a_request_may_be_withdrawn_with_its_stream(driven):
    """As by a notification; what is not there any more does no harm."""
    reasons = []

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            reasons.append(error.args[0])
            raise

    it = driven(tool)
    exchange = it.start()
    await settle()
    it.peer.withdraw("a", "the stream was closed")
    it.peer.withdraw("a", "twice")
    it.peer.withdraw("b", "never was")
    assert await exchange == "went on"
    assert reasons == ["the stream was closed"]
    assert it.channel.sent == []


async def test_closing_stops_handlers_in_tasks_of_others(driven):
    """The handler ends, the task it ran in does not: it still has a response to send."""
    cleaned = []

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    it = driven(tool)
    exchange = it.start()
    await settle()
    await it.peer.close()
    assert await exchange == "went on"
    assert exchange.cancelling() == 0
    assert cleaned == [True]
    assert it.channel.sent == []


async def test_a_handler_may_close_from_a_task_of_others(driven):
    """It goes on to its own end."""
    ended = []

    async def tool(_request, peer):
        await peer.close()
        ended.append(True)
        return done()

    it = driven(tool)
    assert await it.start() == "went on"
    assert ended == [True]


async def test_whoever_is_cancelled_from_outside_stays_cancelled(driven):
    """The handler is stopped with it, and the request is not left open."""
    stopped = []

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)

    it = driven(tool)
    exchange = it.start()
    await settle()
    exchange.cancel()
    await asyncio.wait([exchange])
    assert exchange.cancelled()
    assert stopped == [True]
    assert it.peer.session.incoming == {}


async def test_a_task_may_serve_again_after_a_cancellation(driven):
    """What stopped its first handler does not protect, nor end, its second."""
    seen = []

    async def tool(request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            seen.append(request.id)

    it = driven(tool)

    async def both():
        await it.peer.handle(message("a"))
        await it.peer.handle(message("b"))
        return "went on"

    task = asyncio.ensure_future(both())
    for id in "ab":
        await settle()
        it.peer.withdraw(id, "test")
    assert await task == "went on"
    assert seen == ["a", "b"]
    assert task.cancelling() == 0


async def test_a_reply_that_comes_later_comes_later(driven):
    """``handle`` does not wait for it."""
    kept: list[Request] = []

    def tool(request, _peer):
        kept.append(request)
        return LATER

    it = driven(tool)
    assert await it.start() == "went on"
    assert it.channel.sent == []
    it.peer.reply(kept[0], done())
    assert [reply["id"] for reply in it.channel.sent] == ["a"]


async def test_what_the_session_answers_is_answered_at_once(driven):
    """Pings, and what is refused."""
    it = driven(endless)
    await it.peer.handle(message("p", "ping"))
    await it.peer.handle(message("q", "no/such"))
    assert [(reply["id"], "result" in reply) for reply in it.channel.sent] == [("p", True), ("q", False)]


async def test_replies_and_asks_pass_one_by_one_as_well(driven):
    """An ask goes out on the channel, its answer comes in a message of its own."""

    async def tool(request, peer):
        return done((await Linked(peer, peer).ask(request)) and "answered")

    it = driven(tool)
    exchange = it.start()
    await settle()
    (ask,) = it.channel.sent
    await it.peer.handle(decode_envelope(frame(id=ask["id"], result={"any": 1})))
    assert await exchange == "went on"
    assert it.channel.sent[1]["result"]["content"][0]["text"] == "answered"
