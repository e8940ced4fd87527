"""How many calls have a connection at once, and what those beyond do."""

from __future__ import annotations

import asyncio
import errno
import resource

import pytest

from antiphon.transports.http.client import open_files
from antiphon.transports.http.client.open_files import MAX_AT_ONCE, Places, are_used_up, most_at_once


@pytest.mark.parametrize(
    ("soft", "most"), [(1024, 512), (4, 8), (resource.RLIM_INFINITY, MAX_AT_ONCE), (10**9, MAX_AT_ONCE)]
)
def test_half_of_the_files_are_for_calls(soft: int, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Never more than the bound, never so few that nothing goes on."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (soft, soft))
    assert most_at_once() == most


def test_which_failures_mean_that_there_are_none() -> None:
    """Those of the process and of the system."""
    assert are_used_up(OSError(errno.EMFILE, "too many"))
    assert are_used_up(OSError(errno.ENFILE, "too many"))
    assert not are_used_up(OSError(errno.ECONNREFUSED, "refused"))
    assert not are_used_up(ValueError())


async def test_who_comes_last_waits_for_a_place_and_tries_at_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """The calls before may wait for this very one: after a while it goes on without a place."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    waiting = asyncio.ensure_future(places.take())
    await asyncio.sleep(0)
    assert not waiting.done()
    places.free()
    assert await waiting
    monkeypatch.setattr(open_files, "PATIENCE", 0.01)
    assert not await places.take()
    places.free()
    assert await places.take()


async def test_places_are_given_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """The call that waits longest is next, and one that comes later does not pass those that wait."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    first, second = (asyncio.ensure_future(places.take()) for _ in range(2))
    await asyncio.sleep(0)
    places.free()
    third = asyncio.ensure_future(places.take())
    assert await first
    assert not second.done()
    places.free()
    assert await second
    assert not third.done()
    places.free()
    assert await third


async def test_a_call_that_is_given_up_keeps_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it still waits, or was just given one: the next call gets it."""
    monkeypatch.setattr(open_files, "most_at_once", lambda: 1)
    places = Places()
    assert await places.take()
    waiting, chosen, last = (asyncio.ensure_future(places.take()) for _ in range(3))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait((waiting,))
    places.free()
    chosen.cancel()
    await asyncio.wait((chosen,))
    assert chosen.cancelled()
    assert await last
    places.free()
    assert await places.take()
