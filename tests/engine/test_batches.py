"""Batches at 2025-03-26: served at once, answered in one frame."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.channel import Frame
from antiphon.errors import InvalidParams
from antiphon.wire.revisions import find_revision
from tests.support.linked import done, linked, recorded, settle
from tests.support.pair import frame

WITH = find_revision("2025-03-26")


def call(id: Any, name: str = "t") -> bytes:
    """Write a call."""
    return frame(id=id, method="tools/call", params={"name": name})


def notice(id: Any) -> bytes:
    """Write a cancellation."""
    return frame(method="notifications/cancelled", params={"requestId": id})


def batch(*messages: bytes) -> Frame:
    """Write a batch."""
    return Frame(b"[" + b",".join(messages) + b"]")


@pytest.mark.requirement("base.batch")
async def test_a_batch_is_answered_in_one_frame():
    """Requests, refusals and pings; notifications and replies leave no trace in it."""

    async def tool(request, _peer):
        if request.params.name == "bad":
            raise InvalidParams("no")
        await asyncio.sleep(0)
        return done(request.params.name)

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels) as link:
        link.client.channel.send(
            batch(
                call("a", "x"),
                frame(id="b", method="ping"),
                call("c", "bad"),
                frame(method="notifications/roots/list_changed"),
                b"1",
                frame(id=99, result={}),
            )
        )
        await settle()
        (replies,) = recorder.sent
        by_id = {reply["id"]: reply for reply in replies}
        assert set(by_id) == {"a", "b", "c", None}
        assert by_id["a"]["result"]["content"][0]["text"] == "x"
        assert by_id["c"]["error"]["code"] == -32602


@pytest.mark.requirement("base.batch")
async def test_a_batch_waits_for_its_slowest_member():
    """And its requests run at once."""
    go, running = asyncio.Event(), []

    async def tool(request, _peer):
        running.append(request.id)
        await go.wait()
        return done()

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels) as link:
        link.client.channel.send(batch(call("a"), call("b"), frame(id="p", method="ping")))
        await settle()
        assert (running, recorder.sent) == (["a", "b"], [])
        go.set()
        await settle()
        assert sorted(reply["id"] for reply in recorder.sent[0]) == ["a", "b", "p"]
        assert await link.call() == "done"


@pytest.mark.requirement("base.batch", "cancel.receiver")
async def test_a_cancelled_member_is_not_waited_for():
    """Its handler is stopped, the others are answered."""
    stopped = asyncio.Event()

    async def tool(request, _peer):
        if request.params.name == "slow":
            try:
                await asyncio.Event().wait()
            finally:
                stopped.set()
        return done()

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels) as link:
        link.client.channel.send(batch(call("a", "slow"), call("b")))
        await settle()
        assert recorder.sent == []
        link.client.channel.send(Frame(notice("a")))
        await stopped.wait()
        await settle()
        assert [[reply["id"] for reply in replies] for replies in recorder.sent] == [["b"]]


async def test_a_member_cancelled_in_its_own_batch_never_begins():
    """Its turn had not come."""
    begun = []

    async def tool(request, _peer):
        begun.append(request.id)
        return done()

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels) as link:
        link.client.channel.send(batch(call("a"), call("b"), notice("a")))
        await settle()
        assert begun == ["b"]
        assert [[reply["id"] for reply in replies] for replies in recorder.sent] == [["b"]]
        link.check_empty()


@pytest.mark.requirement("base.no-reply-to-notification")
@pytest.mark.parametrize(
    "messages",
    [
        [frame(method="notifications/roots/list_changed")],
        [frame(id=9, result={})],
        [call("a"), notice("a")],
        [frame(method="no/such")],
    ],
)
async def test_a_batch_without_anything_to_answer_is_not_answered(messages):
    """Not with an empty array either."""

    async def tool(_request, _peer):
        return done()

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels) as link:
        link.client.channel.send(batch(*messages))
        await settle()
        assert recorder.sent == []
        link.check_empty()


async def test_replies_in_a_batch_wake_their_callers():
    """A server may answer several calls at once."""
    kept = []

    async def tool(request, _peer):
        kept.append(request)
        await asyncio.Event().wait()

    async with linked(tool, revision=WITH) as link:
        calls = [link.started() for _ in range(3)]
        await settle()
        replies = [link.server.session.reply(request, done(str(request.id))) or b"" for request in kept]
        link.server.channel.send(batch(*replies))
        assert await asyncio.gather(*calls) == [str(request.id) for request in kept]


async def test_members_beyond_the_limit_are_refused_in_the_batch():
    """Each with its own error; all of them are answered."""

    async def tool(_request, _peer):
        await asyncio.sleep(0)
        return done()

    channels, recorder = recorded()
    async with linked(tool, revision=WITH, channels=channels, server={"max_served": 200}) as link:
        link.client.channel.send(batch(*[call(number) for number in range(250)]))
        await settle(100)
        replies = recorder.sent[0]
        assert sorted(reply["id"] for reply in replies) == list(range(250))
        assert sum("error" in reply for reply in replies) == 50
        link.check_empty()
