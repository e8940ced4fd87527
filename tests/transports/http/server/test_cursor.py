"""What makes a stream resumable: ids, and what is kept."""

from __future__ import annotations

import pytest

from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.server.cursor import RETRY, Cursor
from antiphon.transports.http.server.event_store import MemoryEventStore


class Slow(MemoryEventStore):
    """A store that may have to wait."""

    async def append(self, stream: str, number: int, data: bytes) -> None:
        """Keep it elsewhere."""
        await super().append(f"{stream}/elsewhere", number, data)


def cursor(store=None, *, priming=True):
    """Make one."""
    return Cursor(store or MemoryEventStore(), "key", "4", priming)


def read(events):
    """Return ids and data of events."""
    return [(event.id, event.data) for event in EventParser().feed(events)]


async def test_what_was_kept_in_either_way_can_be_had_again():
    """In order, under the ids it was sent with."""
    made = cursor()
    first = await made.keep(b"one")
    second = made.following(b"two")
    made.keep_now(b"two")
    assert read(first + second) == [("4-1", b"one"), ("4-2", b"two")]
    assert read(await made.since(0)) == [("4-1", b"one"), ("4-2", b"two")]
    assert read(await made.since(1)) == [("4-2", b"two")]


def test_what_is_only_written_is_not_counted():
    """It may have to be written again."""
    made = cursor()
    assert made.following(b"x") == made.following(b"x")
    assert made.last == 0


def test_a_response_begins_with_the_place_it_begins_at():
    """Where the revision has it so."""
    made = cursor()
    (event,) = EventParser().feed(made.opening(3))
    assert (event.id, event.data, event.retry) == ("4-3", b"", RETRY)
    assert read(made.opening()) == [("4-0", b"")]
    assert cursor(priming=False).opening() == b""


@pytest.mark.parametrize(("store", "instant"), [(MemoryEventStore, True), (Slow, False)])
def test_only_our_own_store_keeps_without_waiting(store, instant):
    """One that is made of it may have a way of its own to keep things."""
    assert cursor(store()).is_instant is instant
