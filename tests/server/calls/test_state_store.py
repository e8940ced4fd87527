"""The store in memory keeps the promises of the seam."""

from __future__ import annotations

from antiphon.server.calls.state_store import MemoryStateStore


class Clock:
    """Time that a test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def test_what_is_put_is_found_until_it_is_too_old() -> None:
    """A value lives for its time, and is replaced by a later one."""
    clock = Clock()
    store = MemoryStateStore(clock=clock)
    await store.put("a", b"old", 5)
    await store.put("a", b"new", 10)
    clock.now = 9.9
    assert await store.get("a") == b"new"
    clock.now = 10.0
    assert await store.get("a") is None


async def test_only_the_first_adds() -> None:
    """Of two that claim, one wins; after its time anybody may."""
    clock = Clock()
    store = MemoryStateStore(clock=clock)
    assert await store.add("a", b"first", 10)
    assert not await store.add("a", b"second", 10)
    assert await store.get("a") == b"first"
    clock.now = 11.0
    assert await store.add("a", b"third", 10)


async def test_what_is_deleted_is_gone() -> None:
    """Deleting twice does no harm."""
    store = MemoryStateStore()
    await store.put("a", b"value", 10)
    await store.delete("a")
    await store.delete("a")
    assert await store.get("a") is None


async def test_the_oldest_makes_room() -> None:
    """Memory is bounded, whatever the size and the number of values."""
    store = MemoryStateStore(limit=10_000)
    for number in range(1_000):
        await store.put(f"k{number}", b"", 10)
    assert len(store) < 50
    await store.put("large", b"x" * 9_000, 10)
    assert await store.get("large") == b"x" * 9_000
    assert len(store) < 10


async def test_a_value_is_replaced_only_where_it_is_the_expected_one() -> None:
    """Of two that saw the same value, one replaces it; what is too old is not there to be replaced."""
    clock = Clock()
    store = MemoryStateStore(clock=clock)
    assert not await store.replace("a", b"new", 10, expected=b"old")
    await store.put("a", b"old", 10)
    assert await store.replace("a", b"new", 10, expected=b"old")
    assert not await store.replace("a", b"newer", 10, expected=b"old")
    assert await store.get("a") == b"new"
    clock.now = 11.0
    assert not await store.replace("a", b"newest", 10, expected=b"new")
