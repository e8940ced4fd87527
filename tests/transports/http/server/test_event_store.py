"""The memory of what was sent: by stream, in order, bounded."""

from __future__ import annotations

from antiphon.protocol.http.sse import EventParser
from antiphon.transports.http.server.event_store import RETRY, EventCursor, MemoryEventStore


async def test_each_stream_has_its_own_events():
    """What comes after an event is what its own stream has after it."""
    store = MemoryEventStore()
    for number in (1, 2, 3):
        await store.append("a", number, b"a%d" % number)
        await store.append("b", number, b"b%d" % number)
    assert await store.after("a", 1) == [(2, b"a2"), (3, b"a3")]
    assert await store.after("c", 0) == []


async def test_a_stream_can_be_forgotten():
    """The others stay."""
    store = MemoryEventStore()
    await store.append("a", 1, b"x")
    await store.append("b", 1, b"y")
    await store.forget("a")
    await store.forget("never there")
    assert await store.after("a", 0) == []
    assert await store.after("b", 0) == [(1, b"y")]


async def test_the_oldest_go_first():
    """By bytes and by number, over all streams."""
    store = MemoryEventStore(max_bytes=10, max_events=3)
    await store.append("a", 1, b"12345678")
    await store.append("b", 1, b"1234")
    assert await store.after("a", 0) == []
    for number in range(2, 5):
        await store.append("b", number, b"")
    assert [number for number, _ in await store.after("b", 0)] == [2, 3, 4]


async def test_nothing_is_left_of_what_was_dropped():
    """Neither bytes nor names."""
    store = MemoryEventStore(max_events=1)
    for number in range(100):
        await store.append(f"stream {number}", 1, b"x")
    await store.forget("stream 99")
    assert (store._bytes, store._events, store._numbers) == (0, {}, {})


def cursor(store=None, *, priming=True):
    """Make one."""
    return EventCursor(store or MemoryEventStore(), "key", "4", priming)


def read(events):
    """Return ids and data of events."""
    return [(event.id, event.data) for event in EventParser().feed(events)]


async def test_what_was_kept_can_be_had_again():
    """In order, under the ids it was sent with."""
    made = cursor()
    first = await made.keep(b"one")
    second = await made.keep(b"two")
    assert read(first + second) == [("4-1", b"one"), ("4-2", b"two")]
    assert read(await made.since(0)) == [("4-1", b"one"), ("4-2", b"two")]
    assert read(await made.since(1)) == [("4-2", b"two")]


def test_a_response_begins_with_the_place_it_begins_at():
    """Where the revision has it so."""
    made = cursor()
    (event,) = EventParser().feed(made.opening(3))
    assert (event.id, event.data, event.retry) == ("4-3", b"", RETRY)
    assert read(made.opening()) == [("4-0", b"")]
    assert cursor(priming=False).opening() == b""
