"""Reading one frame after another: who reads while a handler waits, and what ends it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest

from antiphon.channel import Frame
from antiphon.errors import ConnectionClosed
from antiphon.transports.queued import memory_pair
from tests.support.linked import Recorder, done, linked, settle
from tests.support.pair import frame


async def echo(request, _peer):
    """Return the tool's name."""
    return done(request.params.name)


async def test_a_handler_that_never_waits_runs_in_the_task_that_reads():
    """It costs no task."""
    tasks = set()

    async def tool(_request, _peer):
        tasks.add(asyncio.current_task())
        return done()

    async with linked(tool) as link:
        for _ in range(3):
            await link.call()
        assert len(tasks) == 1
        assert len(link.server.tasks) == 1


async def test_while_a_handler_waits_another_task_reads():
    """And the first one does not read beside it when its handler is done."""
    go, tasks = asyncio.Event(), []

    async def tool(request, _peer):
        tasks.append(asyncio.current_task())
        if request.params.name == "slow":
            await go.wait()
        return done(request.params.name)

    async with linked(tool) as link:
        slow = link.started("slow")
        await settle()
        assert await link.call("quick") == "quick"
        go.set()
        assert await slow == "slow"
        assert await link.call("again") == "again"
        await settle()
        assert len(link.server.tasks) == 1
    assert tasks[0] is not tasks[1] is tasks[2]


async def test_what_came_with_a_call_that_waits_begins_at_once():
    """All of it in one pass of the event loop, in the order of its coming; the peer does not pay a pass for each."""
    loop, passes, begun, gate = asyncio.get_running_loop(), 0, [], asyncio.Event()

    def count():
        nonlocal passes
        passes += 1
        if not gate.is_set():
            loop.call_soon(count)

    async def tool(request, _peer):
        begun.append((request.params.name, passes))
        await gate.wait()
        return done(request.params.name)

    async with linked(tool) as link:
        calls = [link.started(name) for name in "abcd"]
        count()
        await settle()
        gate.set()
        assert await asyncio.gather(*calls) == [*"abcd"]
    assert [name for name, _ in begun] == [*"abcd"]
    assert len({at for _, at in begun[1:]}) == 1


async def test_what_came_with_a_call_that_waits_can_be_cancelled():
    """Each by itself, and although it has not waited yet when that is asked for."""
    gate, cancelled = asyncio.Event(), []

    async def tool(request, _peer):
        try:
            await gate.wait()
        except asyncio.CancelledError:
            cancelled.append(request.params.name)
            raise
        return done(request.params.name)

    async with linked(tool) as link:
        calls = {name: link.started(name) for name in "abc"}
        await settle()
        calls["b"].cancel()
        await settle()
        gate.set()
        assert [await calls["a"], await calls["c"]] == ["a", "c"]
        assert cancelled == ["b"]
        link.check_empty()


async def test_a_reply_is_taken_where_it_arrives():
    """Whoever waits for it is next: the task that reads need not wake before."""
    gate = asyncio.Event()

    async def tool(_request, _peer):
        await gate.wait()
        return done()

    async with linked(tool) as link:
        call = link.started()
        await settle()
        (id,) = link.client.session.outgoing
        link.server.channel.send(Frame(frame(id=id, result=msgspec.to_builtins(done("early")))))
        assert link.client.session.outgoing == {}
        assert await call == "early"
        gate.set()


async def test_a_reply_does_not_overtake_what_came_before_it():
    """What was told first is heard first."""
    heard = []

    async def tool(request, peer):
        peer.send(frame(method="notifications/tools/list_changed"), request)
        return done(request.params.name)

    async with linked(tool, client={"on_notified": lambda _peer, event: heard.append(event.method.name)}) as link:
        assert await link.call("after") == "after"
        assert heard == ["notifications/tools/list_changed"]


async def test_what_is_no_reply_is_read_once(monkeypatch):
    """Although it was looked at where it arrived."""
    async with linked(echo) as link:
        seen, receive = [], link.server.session.receive
        monkeypatch.setattr(link.server.session, "receive", lambda data: seen.append(data) or receive(data))
        assert [await link.call("one"), await link.call("two")] == ["one", "two"]
        assert len(seen) == 2


async def test_a_fault_where_a_reply_arrives_ends_the_connection(monkeypatch, errors):
    """As one in the task that reads does; the transport, which has handed it over, is not troubled."""
    async with linked(echo) as link:
        monkeypatch.setattr(link.client.waiting, "replied", lambda _event: 1 / 0)
        with pytest.raises(ConnectionClosed, match="the log says why"):
            await link.call()
    assert "division by zero" in str(errors.records[0].exc_info)


async def test_after_the_end_nothing_is_read():
    """What has arrived by then has no effect."""

    async def tool(request, peer):
        if request.params.name == "last":
            await peer.close()
        return done(request.params.name)

    async with linked(tool) as link:
        last, lost = link.started("last"), link.started("lost")
        for call in (last, lost):
            with pytest.raises(ConnectionClosed):
                await call
        assert link.server.is_over


@pytest.mark.parametrize(
    "data", [b"nonsense", b"[]", b"{}", b"[[[", b"\xff", frame(id=None, method="ping"), b"1" * 9_000]
)
async def test_bad_frames_do_not_end_a_connection(data):
    """Each is answered, and the next good one as well."""
    async with linked(echo) as link:
        link.client.channel.send(Frame(data))
        await settle()
        assert await link.call("still here") == "still here"


async def test_a_frame_beyond_the_limit_is_refused():
    """The transport has dropped it; the next one is served."""
    async with linked(echo, channels=memory_pair(2_000), server={"max_frame": 2_000}) as link:
        link.client.channel.send(Frame(b"x" * 3_000))
        await settle()
        assert await link.call("still here") == "still here"
        assert link.client.ignored == 1


async def test_a_channel_that_fails_ends_the_connection(errors):
    """A bug of a transport, or of ours: it is logged, and nobody waits for ever."""

    async def fails():
        raise OSError("broken")

    ours, theirs = memory_pair()
    broken = Recorder(ours)
    broken.receive = fails
    async with linked(echo, channels=(broken, theirs)) as link:
        with pytest.raises(ConnectionClosed, match="the log says why"):
            await link.call()
    assert "broken" in str(errors.records[0].exc_info)
