"""Cancellation: both ways, and in every race."""

from __future__ import annotations

import asyncio
import logging

import pytest

from antiphon.channel import Frame
from antiphon.engine.connection import LATER
from antiphon.errors import InvalidParams, RemoteProtocolError
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LATEST, LATEST_LEGACY
from tests.support.linked import ANSWER, SAMPLE, done, linked, recorded, settle
from tests.support.pair import decoded, frame


def notice(id):
    """Write a cancellation."""
    return Frame(frame(method="notifications/cancelled", params={"requestId": id, "reason": "test"}))


def request(id, name="t"):
    """Write a call."""
    return Frame(frame(id=id, method="tools/call", params={"name": name}))


async def cancelled(task):
    """Cancel a call of ours and wait for its end."""
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


@pytest.mark.requirement("cancel.receiver", "cancel.race")
@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST])
async def test_a_caller_that_no_longer_waits_stops_the_handler(revision):
    """It is cancelled where it waits, cleans up, and sends nothing."""
    seen = []

    async def tool(request, _peer):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError as error:
            seen.append((request.cancelled, error.args))
            raise

    async with linked(tool, revision=revision) as link:
        call = link.started()
        await settle()
        await cancelled(call)
        await settle()
        assert seen == [(True, ("the caller no longer waits",))]
        assert link.client.ignored == 0
        link.check_empty()


@pytest.mark.requirement("cancel.log")
async def test_the_reason_of_a_cancellation_is_logged(caplog):
    """For whoever looks for it."""
    caplog.set_level(logging.DEBUG, logger="antiphon.connection")

    async def tool(_request, _peer):
        await asyncio.Event().wait()

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        link.client.channel.send(notice("a"))
        await settle()
    assert "tools/call was cancelled: test" in caplog.text


async def test_a_handler_that_will_not_stop_sends_nothing():
    """Its result and its error are dropped."""

    async def tool(request, _peer):
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if request.params.name == "fails":
                raise ValueError("in cleanup") from None
            return done("never mind")

    async with linked(tool) as link:
        for name in ("returns", "fails"):
            call = link.started(name)
            await settle()
            await cancelled(call)
            await settle()
        assert link.client.ignored == 0
        link.check_empty()


async def test_a_cancellation_during_cleanup_changes_nothing():
    """A second notice, and one under the same id, do not interrupt it."""
    cleaning, go, seen = asyncio.Event(), asyncio.Event(), []

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await go.wait()
            seen.append("clean")

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        link.client.channel.send(notice("a"))
        await cleaning.wait()
        link.client.channel.send(notice("a"))
        await settle()
        go.set()
        await settle()
        assert seen == ["clean"]
        assert link.server.ignored == 1


@pytest.mark.requirement("cancel.race", "cancel.invalid")
async def test_a_cancellation_after_the_reply_has_no_effect():
    """The handler has ended, and with it the task."""

    async def tool(_request, _peer):
        await asyncio.sleep(0)
        return done()

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        await settle()
        link.client.channel.send(notice("a"))
        assert await link.call() == "done"
        assert link.server.ignored == 1


async def test_a_cancellation_in_the_same_read_as_its_request_stops_it():
    """The handler has just begun to wait when the next frame is taken."""
    ended = asyncio.Event()

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with linked(tool) as link:
        for frame_ in (request("a"), notice("a"), request("b"), notice("b")):
            link.client.channel.send(frame_)
        await ended.wait()
        await settle()
        link.check_empty()


async def test_a_handler_that_never_waits_is_done_before_its_cancellation():
    """Both come together; the reply is sent, the notice is late."""

    async def tool(_request, _peer):
        return done()

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        link.client.channel.send(notice("a"))
        await settle()
        assert link.server.ignored == 1
        assert link.client.ignored == 1


async def test_the_id_of_a_cancelled_request_may_come_again():
    """The old handler, still cleaning up, does not end the new request."""
    go, runs = asyncio.Event(), []

    async def tool(_request, _peer):
        runs.append(len(runs))
        if len(runs) > 1:
            await asyncio.sleep(0)
            return done("second")
        try:
            await asyncio.Event().wait()
        finally:
            await go.wait()

    async with linked(tool) as link:
        outgoing = link.open()
        link.client.channel.send(Frame(outgoing.data))
        link.client.channel.send(notice(outgoing.id))
        await settle()
        call = asyncio.ensure_future(link.client.request(outgoing))
        go.set()
        assert decoded(bytes(await call))["content"][0]["text"] == "second"
        await settle()
        link.check_empty()


async def test_a_call_that_is_cancelled_before_it_is_sent_leaves_nothing():
    """The task never ran."""

    async def tool(_request, _peer):
        return done()

    async with linked(tool) as link:
        call = link.started()
        await cancelled(call)
        assert await link.call() == "done"
        link.check_empty()


async def test_a_reply_that_comes_with_the_cancellation_of_its_caller_is_dropped():
    """No exception is left that nobody saw."""
    go = asyncio.Event()

    async def tool(_request, _peer):
        await go.wait()
        raise InvalidParams("too late")

    async with linked(tool) as link:
        call = link.started()
        await settle()
        go.set()
        for _ in range(10):
            await asyncio.sleep(0)
            if not link.client.session.outgoing:
                break
        call.cancel()
        await asyncio.wait([call])
        assert call.cancelled() or isinstance(call.exception(), InvalidParams)
        link.check_empty()


# --- with asks --------------------------------------------------------------------------------------------------------


async def test_asks_are_cancelled_with_their_call():
    """The person who thinks about it is no longer asked; each side is told once."""
    asked, ended = asyncio.Event(), []

    async def tool(request, peer):
        try:
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))
        finally:
            ended.append("handler")

    async def answer(request, _peer):
        asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append(f"answer {request.cancelled}")

    channels, recorder = recorded()
    async with linked(tool, answer, channels=channels) as link:
        call = link.started()
        await asked.wait()
        await cancelled(call)
        await settle()
        assert sorted(ended) == ["answer True", "handler"]
        assert [one["method"] for one in recorder.sent] == ["sampling/createMessage", "notifications/cancelled"]
        link.check_empty()


async def test_an_answer_that_crosses_the_cancellation_of_its_call_is_dropped():
    """It finds nobody, and does no harm."""
    go = asyncio.Event()

    async def tool(request, peer):
        await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))

    async def answer(_request, _peer):
        await go.wait()
        return ANSWER

    async with linked(tool, answer) as link:
        call = link.started()
        await settle()
        go.set()
        call.cancel()
        await asyncio.wait([call])
        await settle()
        link.check_empty()


async def test_a_server_may_withdraw_one_ask_and_go_on():
    """Its handler no longer waits for it."""
    stopped = asyncio.Event()

    async def tool(request, peer):
        ask = asyncio.ensure_future(peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request)))
        await asyncio.sleep(0)
        ask.cancel()
        await stopped.wait()
        return done()

    async def answer(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(tool, answer) as link:
        assert await link.call() == "done"
        link.check_empty()


async def test_whoever_waits_may_be_told_why():
    """``abandon`` gives up a request on behalf of its caller."""
    stopped = asyncio.Event()

    async def tool(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(tool) as link:
        outgoing = link.open()
        call = asyncio.ensure_future(link.client.request(outgoing))
        await settle()
        link.client.abandon(outgoing.id, RemoteProtocolError("too many asks"))
        link.client.abandon(outgoing.id, RemoteProtocolError("twice"))
        with pytest.raises(RemoteProtocolError, match="too many asks"):
            await call
        await stopped.wait()
        link.check_empty()


# --- requests whose reply is given later ------------------------------------------------------------------------------


async def test_whoever_replies_later_is_told_of_the_cancellation():
    """With the reason, once."""
    told = []

    def tool(request, _peer):
        request.on_cancel = told.append
        return LATER

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        link.client.channel.send(notice("a"))
        link.client.channel.send(notice("a"))
        await settle()
        assert told == ["test"]
        link.check_empty()


async def test_a_cancellation_that_fails_harms_nobody(errors):
    """It is logged; the connection goes on."""

    def fails(_reason):
        raise ValueError("on_cancel")

    def tool(request, _peer):
        if request.id == "a":
            request.on_cancel = fails
            return LATER
        return done()

    async with linked(tool) as link:
        link.client.channel.send(request("a"))
        link.client.channel.send(notice("a"))
        assert await link.call() == "done"
    assert len(errors.records) == 1
