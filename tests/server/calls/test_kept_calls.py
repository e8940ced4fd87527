"""The table of calls between requests: bounded, fair, and cleared in time by one timer."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec import Raw

from antiphon.server.calls.call_weight import OVERHEAD
from antiphon.server.calls.kept_calls import EndedCall, KeptCalls
from antiphon.server.calls.parked_call import RoundCall


def ended(owner: str | None = None) -> EndedCall:
    """Make what is left of a call."""
    return EndedCall(run=b"", replayed_from=b"", generation=1, owner=owner, reply=Raw(b"{}"), is_error=False)


@pytest.fixture
def left() -> list[str]:
    """Why parked calls had to go."""
    return []


def parked(owner: str | None = None, weight: int = 1) -> Any:
    """Make a call that is parked: for the table, one with an owner and a weight."""
    call = RoundCall.__new__(RoundCall)
    call.owner = owner
    call._held = weight - OVERHEAD
    call.generation = 1
    call._pending = {}
    return call


def table(left: list[str], ttl: float = 60.0, limit: int = 8, room: int = 1_000) -> KeptCalls:
    """Make a table that notes who leaves."""
    return KeptCalls(ttl, limit, room, lambda call, reason: left.append(reason))


async def test_the_oldest_leaves_when_it_is_full(left: list[str]) -> None:
    """Touched again, a call is young again."""
    kept = table(left, limit=2)
    for id in (b"a", b"b", b"a", b"c"):
        kept.keep(id, parked())
    assert [kept.get(id) is not None for id in (b"a", b"b", b"c")] == [True, False, True]
    assert left == ["too many calls wait"]
    kept.clear()


async def test_a_known_client_has_a_quarter(left: list[str]) -> None:
    """Beyond it its own oldest leaves, and nobody else's."""
    kept = table(left, limit=8)
    kept.keep(b"other", parked("other"))
    for number in range(5):
        kept.keep(bytes([number]), parked("greedy"))
    assert len(kept) == 3
    assert kept.get(b"other") is not None
    assert left == ["too many calls of this client wait"] * 3
    kept.clear()


async def test_what_has_ended_leaves_without_a_word(left: list[str]) -> None:
    """There is no handler that could be told."""
    kept = table(left, limit=1)
    kept.keep(b"a", ended())
    kept.keep(b"b", ended())
    assert left == []
    assert kept.get(b"a") is None
    kept.clear()


async def test_a_call_may_become_its_result(left: list[str]) -> None:
    """The same place, no room needed."""
    kept = table(left, limit=1)
    kept.keep(b"a", parked("ann"))
    kept.keep(b"a", ended("ann"))
    assert isinstance(kept.get(b"a"), EndedCall)
    assert left == []
    kept.forget(b"a")
    kept.forget(b"a")
    assert len(kept) == 0


async def test_time_clears_it(left: list[str]) -> None:
    """Each entry leaves after its own time; the timer rests when nothing is kept."""
    gone = asyncio.Event()

    def leave(call: RoundCall, reason: str) -> None:
        left.append(f"{call.owner}: {reason}")
        if len(left) == 2:
            gone.set()

    kept = KeptCalls(0.03, 8, 1_000, leave)
    kept.keep(b"a", parked("ann"))
    kept.keep(b"b", parked("bob"))
    kept.keep(b"a", parked("ann"))
    async with asyncio.timeout(30):
        await gone.wait()
    assert left == ["bob: no retry came in time", "ann: no retry came in time"]
    assert len(kept) == 0


async def test_one_timer_serves_all(monkeypatch: pytest.MonkeyPatch, left: list[str]) -> None:
    """Ten thousand parked calls must not be ten thousand timers."""
    loop, timers = asyncio.get_running_loop(), SimpleNamespace(made=0)
    call_later = loop.call_later

    def counted(*arguments: Any, **options: Any) -> asyncio.TimerHandle:
        timers.made += 1
        return call_later(*arguments, **options)

    monkeypatch.setattr(loop, "call_later", counted)
    kept = table(left, limit=1_000, room=1_000_000)
    for number in range(500):
        kept.keep(number.to_bytes(2, "big"), ended())
    assert (timers.made, len(kept)) == (1, 500)
    kept.clear()


async def test_bytes_are_bounded_as_well(left: list[str]) -> None:
    """A few calls with much in them push out the oldest; the last one stays, whatever it weighs."""
    kept = table(left, room=1_000)
    for number, weight in enumerate((400, 400, 400)):
        kept.keep(bytes([number]), parked(weight=weight))
    assert (len(kept), len(left)) == (2, 1)
    kept.keep(b"heavy", parked(weight=5_000))
    assert (len(kept), len(left)) == (1, 3)
    kept.keep(b"heavy", parked(weight=1))
    kept.keep(b"light", parked(weight=1))
    assert len(kept) == 2
    kept.clear()


async def test_a_known_client_has_a_quarter_of_the_bytes(left: list[str]) -> None:
    """Its own oldest leave, and nobody else's."""
    kept = table(left, room=1_000, limit=100)
    kept.keep(b"other", parked("other", 200))
    for number in range(5):
        kept.keep(bytes([number]), parked("greedy", 100))
    assert len(kept) == 3
    assert left == ["too many calls of this client wait"] * 3
    kept.clear()
