"""What every engine must do. ``Contract`` is a class of tests; each engine's test module has a subclass.

The subclass has a fixture ``together``, an async function that returns a further replica beside the others.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, TypeVar

import pytest

from antiphon.errors import ClusterUnavailable
from antiphon.replicas.engines.base import MAX_MESSAGE, Tallies

T = TypeVar("T")
Together = Callable[[], Awaitable[Any]]


@contextlib.asynccontextmanager
async def joining(make: Callable[[], Any]) -> AsyncIterator[Together]:
    """Yield a function that has a further replica join; all of them leave at the end."""
    async with contextlib.AsyncExitStack() as leaving:

        async def join() -> Any:
            replica = make()
            await replica.open()
            leaving.push_async_callback(replica.close)
            return replica

        yield join


class Inbox:
    """Takes what is delivered, in order."""

    def __init__(self) -> None:
        self._arrived: asyncio.Queue[tuple[str, bytes]] = asyncio.Queue()

    def __call__(self, sender: str, data: bytes) -> None:
        self._arrived.put_nowait((sender, data))

    async def next(self) -> tuple[str, bytes]:
        """Wait for the next message."""
        async with asyncio.timeout(30):
            return await self._arrived.get()


async def eventually(operation: Callable[[], Awaitable[T]]) -> T:
    """Repeat an operation until it has a result and the engine can be reached; return the result."""
    async with asyncio.timeout(60):
        while True:
            with contextlib.suppress(ClusterUnavailable):
                if result := await operation():
                    return result
            await asyncio.get_running_loop().run_in_executor(None, threading.Event().wait, 0.01)


async def is_served(replica: Any) -> bool:
    """Store a record and read it. An attempt that was carried out and not confirmed does not make the next one fail."""
    await replica.put("key", b"value", 60)
    return await replica.get("key") == b"value"


class Contract:
    async def test_a_record_is_there_for_every_replica(self, together: Together):
        """What one puts another gets, until somebody deletes it."""
        one, other = await together(), await together()
        await one.put("key", b"\x00value", 60)
        assert await other.get("key") == b"\x00value"
        await other.delete("key")
        assert await one.get("key") is None

    async def test_a_record_is_added_once(self, together: Together):
        """Of many that add at once, one does."""
        replicas = [await together() for _ in range(3)]
        added = await asyncio.gather(*(each.add("key", each.replica.encode(), 60) for each in replicas for _ in "123"))
        assert sum(added) == 1

    async def test_a_record_is_replaced_only_if_it_is_what_was_expected(self, together: Together):
        """Of many that replace the same value, one does; none does if there is no record."""
        replicas = [await together() for _ in range(3)]
        assert not await replicas[0].replace("key", b"new", 60, expected=b"old")
        await replicas[0].put("key", b"old", 60)
        done = await asyncio.gather(
            *(each.replace("key", each.replica.encode(), 60, expected=b"old") for each in replicas)
        )
        assert sum(done) == 1
        assert await replicas[0].get("key") == replicas[done.index(True)].replica.encode()

    async def test_a_record_is_forgotten_after_its_time(self, together: Together):
        """Then it can be added again."""
        one = await together()
        await one.put("key", b"value", 0.001)
        assert await eventually(lambda: one.add("key", b"again", 60))

    async def test_events_follow_in_order(self, together: Together):
        """One replica keeps them, another reads those after a number; a stream that was forgotten has none."""
        one, other = await together(), await together()
        for number in (0, 1, 2, 10):
            await one.append("session/1", number, b"event %d" % number)
        assert await other.after("session/1", -1) == [(each, b"event %d" % each) for each in (0, 1, 2, 10)]
        assert await other.after("session/1", 1) == [(2, b"event 2"), (10, b"event 10")]
        assert await other.after("session/2", -1) == []
        await other.forget("session/1")
        assert await one.after("session/1", -1) == []

    async def test_an_event_is_kept_once(self, together: Together):
        """Who did not learn whether it was kept tries again, and others may have been kept since."""
        one = await together()
        for number in (1, 2, 1, 2, 3):
            await one.append("session/1", number, b"event %d" % number)
        assert await one.after("session/1", -1) == [(each, b"event %d" % each) for each in (1, 2, 3)]

    async def test_a_message_reaches_the_replica_it_is_for(self, together: Together):
        """With its sender's name and in order, and no other replica gets it."""
        one, other, third = await together(), await together(), await together()
        to_other, to_third = Inbox(), Inbox()
        other.listen("topic", to_other)
        third.listen("topic", to_third)
        for number in range(100):
            await one.send(other.replica, "topic", b"%d" % number)
        await one.send(third.replica, "topic", b"for the third")
        assert [await to_other.next() for _ in range(100)] == [(one.replica, b"%d" % each) for each in range(100)]
        assert await to_third.next() == (one.replica, b"for the third")

    async def test_a_replica_can_send_to_itself(self, together: Together):
        """So that nobody has to ask first who it is."""
        one, inbox = await together(), Inbox()
        one.listen("topic", inbox)
        await one.send(one.replica, "topic", b"hello")
        assert await inbox.next() == (one.replica, b"hello")

    async def test_what_is_published_reaches_all_others(self, together: Together):
        """And not the one that publishes it."""
        one, other, third = await together(), await together(), await together()
        inboxes = [Inbox(), Inbox(), Inbox()]
        for replica, inbox in zip((one, other, third), inboxes, strict=True):
            replica.listen("topic", inbox)
        await one.publish("topic", b"from one")
        await other.publish("topic", b"from other")
        assert await inboxes[0].next() == (other.replica, b"from other")
        assert await inboxes[1].next() == (one.replica, b"from one")
        assert [await inboxes[2].next() for _ in range(2)] == [
            (one.replica, b"from one"),
            (other.replica, b"from other"),
        ]

    async def test_what_one_counts_the_others_know(self, together: Together):
        """Counts of a principal are told to all, sealed by whoever uses them."""
        replicas = [await together() for _ in range(3)]
        inbox = Inbox()
        for replica in replicas:
            tallies = Tallies(replica, "tallies/shop", lambda data, _: data, lambda data, _: data, time.monotonic)
            replica.listen(tallies._topic, tallies._deliver)
            tallies.add("calls", lambda: {"ann": 7}, lambda who, counts: inbox(who, b"%d" % counts["ann"]))
        await tallies.tell()
        assert [await inbox.next() for _ in range(2)] == [(replicas[2].replica, b"7")] * 2

    async def test_topics_are_kept_apart(self, together: Together):
        """A listener gets its topic only; after the end of its listening it gets nothing, and the others go on."""
        one, other = await together(), await together()
        ended, inbox = Inbox(), Inbox()
        end = other.listen("first", ended)
        other.listen("second", inbox)
        end()
        await one.send(other.replica, "first", b"nobody")
        await one.send(other.replica, "second", b"somebody")
        assert await inbox.next() == (one.replica, b"somebody")
        assert ended._arrived.empty()

    async def test_a_large_message_arrives_whole(self, together: Together):
        """Requests and replies are as large as frames."""
        one, other, inbox = await together(), await together(), Inbox()
        other.listen("topic", inbox)
        data = bytes(range(256)) * 16_384
        await one.send(other.replica, "topic", data)
        assert (await inbox.next())[1] == data

    async def test_what_is_too_large_is_refused(self, together: Together):
        """The replica that wanted it stays one of the cluster, and the others hear nothing of it."""
        one, other, inbox = await together(), await together(), Inbox()
        other.listen("topic", inbox)
        data = bytes(MAX_MESSAGE + 1)
        for operation in (
            one.send(other.replica, "topic", data),
            one.put("key", data, 60),
            one.append("session/1", 1, data),
        ):
            with pytest.raises(ClusterUnavailable, match="too many for one message"):
                await operation
        await one.send(other.replica, "topic", b"hello")
        assert await inbox.next() == (one.replica, b"hello")

    async def test_a_replica_lives_until_it_leaves(self, together: Together):
        """The others see it at once; under a new name it could join again."""
        one, other = await together(), await together()
        name = other.replica
        assert await one.is_alive(name)
        assert not await one.is_alive("nobody")
        await other.close()
        assert not await one.is_alive(name)
        assert other.replica != name

    async def test_it_is_left_by_its_last_user(self, together: Together):
        """Two servers of one process may share it."""
        one, other = await together(), await together()
        await other.open()
        await other.close()
        assert await one.is_alive(other.replica)

    async def test_sending_to_a_replica_that_is_gone_is_no_error(self, together: Together):
        """Who must know asks whether it is alive."""
        one = await together()
        await one.send("nobody", "topic", b"hello")
        assert not await one.is_alive("nobody")
        assert await one.is_alive(one.replica)
