"""Our own requests as a part of its own; what a connection does with it is in ``test_asks`` and ``test_connection``."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from antiphon.engine.requests import WaitingRequests
from antiphon.errors import CallTimeout, ConnectionClosed, InvalidParams, LocalProtocolError, RemoteProtocolError
from antiphon.protocol.events import Outgoing, Replied, Request
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.lifecycle import ProgressNotificationParams
from antiphon.wire.methods import METHODS
from tests.support.linked import done, linked, settle


async def test_a_request_after_the_end_is_not_sent():
    """And is in no table."""
    async with linked(lambda _request, _peer: done()) as link:
        outgoing = link.open()
        await link.client.close()
        with pytest.raises(ConnectionClosed):
            await link.client.request(outgoing)
        link.check_empty()


async def test_a_request_that_is_given_up_fails_with_the_reason():
    """The peer is told to stop, as well."""
    stopped: list[Request] = []

    async def tool(request, _peer):
        stopped.append(request)
        await settle(200)
        return done()

    async with linked(tool) as link:
        call = link.started()
        await settle()
        link.client.abandon(next(iter(link.client.session.outgoing)), LocalProtocolError("enough"))
        with pytest.raises(LocalProtocolError, match="enough"):
            await call
        await settle()
        assert stopped[0].cancelled


class Fixture:
    """A table, and what it gave up."""

    def __init__(self) -> None:
        self.given_up: list[Outgoing] = []
        self.waiting = WaitingRequests(asyncio.get_running_loop(), self.given_up.append)

    def add(self, id=1, timeout=None, on_progress=None):
        """Enter a request."""
        return self.waiting.add(Outgoing(id, METHODS["tools/list"], None, True, b""), timeout, on_progress)


@pytest.fixture
async def it() -> Fixture:
    """Make an empty table."""
    return Fixture()


async def test_a_result_wakes_whoever_waits(it):
    """As it came."""
    waiter = it.add()
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"{}"), None))
    assert bytes(await waiter.future) == b"{}"
    it.waiting.end(waiter)
    assert len(it.waiting) == 0


async def test_an_error_is_raised_as_the_exception_of_its_code(it):
    """Marked as the peer's."""
    waiter = it.add()
    it.waiting.replied(Replied(waiter.outgoing, None, ErrorObject(code=-32602, message="no", data=1)))
    with pytest.raises(InvalidParams) as caught:
        await waiter.future
    assert (caught.value.remote, caught.value.data) == (True, 1)


async def test_a_reply_that_cannot_be_read_is_raised_as_such(it):
    """It is no error of the peer's making that it meant to send."""
    waiter = it.add()
    it.waiting.replied(Replied(waiter.outgoing, None, None, "cannot be read"))
    with pytest.raises(RemoteProtocolError, match="cannot be read"):
        await waiter.future


async def test_only_the_first_reply_counts(it):
    """What comes after it, or after the end, is for nobody."""
    waiter = it.add()
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"1"), None))
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"2"), None))
    it.waiting.fail(1, LocalProtocolError("late"))
    it.waiting.fail_all(lambda: ConnectionClosed("late"))
    assert bytes(await waiter.future) == b"1"
    it.waiting.end(waiter)
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"3"), None))
    it.waiting.fail(1, LocalProtocolError("later"))


@pytest.mark.requirement("lifecycle.timeouts")
async def test_a_deadline_that_passes_gives_the_request_up(it, clock):
    """Whoever waits is told how long it was."""
    waiter = it.add(timeout=2.5)
    await clock.advance(3)
    assert it.given_up == [waiter.outgoing]
    with pytest.raises(CallTimeout, match=r"tools/list was not answered within 2\.5 s"):
        await waiter.future


async def test_a_deadline_that_passes_after_the_reply_gives_nothing_up(it, clock):
    """The caller had not yet looked at it."""
    waiter = it.add(timeout=1)
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"{}"), None))
    await clock.advance(2)
    assert it.given_up == []
    assert bytes(await waiter.future) == b"{}"


async def test_all_fail_with_an_exception_each(it):
    """None of them shares a traceback with another."""
    waiters = [it.add(number) for number in range(3)]
    it.waiting.fail_all(lambda: ConnectionClosed("gone"))
    errors = [waiter.future.exception() for waiter in waiters]
    assert {type(error) for error in errors} == {ConnectionClosed}
    assert len({id(error) for error in errors}) == 3


async def test_all_that_wait_are_paused_together(it, clock):
    """Those that come later are not."""
    early = it.add(1, timeout=1)
    paused = it.waiting.pause()
    late = it.add(2, timeout=1)
    await clock.advance(5)
    assert it.given_up == [late.outgoing]
    it.waiting.resume(paused)
    await clock.advance(1)
    assert it.given_up == [late.outgoing, early.outgoing]
    for waiter in (early, late):
        waiter.let_go()


async def test_progress_is_told_to_whoever_asked(it):
    """What the callback returns is returned; nobody is told after the end."""
    seen = []
    waiter = it.add(on_progress=lambda params: seen.append(params.progress) or "returned")
    silent = it.add(2)

    def progress(token):
        return it.waiting.report_progress_to(ProgressNotificationParams(progress_token=token, progress=1))

    assert progress(1) == "returned"
    assert progress(2) is None
    assert progress("unknown") is None
    it.waiting.replied(Replied(waiter.outgoing, Raw(b"{}"), None))
    assert progress(1) is None
    assert seen == [1]
    assert not silent.future.done()


async def test_a_failure_nobody_looks_at_can_be_let_go(it):
    """Without a complaint of the loop about an exception that was never retrieved."""
    failed, open_, withdrawn = it.add(1), it.add(2), it.add(3)
    it.waiting.fail(1, LocalProtocolError("no"))
    withdrawn.future.cancel()
    for waiter in (failed, open_, withdrawn):
        waiter.let_go()
        it.waiting.end(waiter)
    assert len(it.waiting) == 0
