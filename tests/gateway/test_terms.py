"""The options of a gateway that say how its servers are run."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import ConfigError
from antiphon.gateway.terms import IDLE_TIMEOUT, MAX_PROCESSES, Full, Processes, ProcessPlace, terms_of
from antiphon.host import Host, Scripted


def test_what_is_not_said_is_as_usual():
    """And ``None`` is said."""
    host = Host(Scripted([]))
    usual, other = terms_of(host, {}), terms_of(host, {"idle_timeout": None, "max_processes": 1, "start_timeout": 5.0})
    assert (usual.idle_timeout, usual.processes.limit) == (IDLE_TIMEOUT, MAX_PROCESSES)
    assert (other.idle_timeout, other.processes.limit, other.start_timeout) == (None, 1, 5.0)
    with pytest.raises(ConfigError, match="at least one process"):
        terms_of(host, {"max_processes": 0})


class Busy:
    """Has a process, and uses it until it is told that nobody does any more."""

    def __init__(self) -> None:
        self.resting_since: float | None = None
        self.place: ProcessPlace | None = None

    async def enter(self, processes: Processes) -> Busy:
        """Get a place."""
        self.place = await processes.enter(self)
        return self

    def stop_resting(self) -> bool:
        """Give the place back at once."""
        assert self.place is not None
        self.resting_since = None
        self.place.give_back()
        return True


async def test_the_longest_unused_makes_room():
    """Not one that was used later, and none that is used now."""
    processes = Processes(3, 30.0)
    older, newer, used = [await Busy().enter(processes) for _ in range(3)]
    older.resting_since, newer.resting_since = 1.0, 2.0
    await Busy().enter(processes)
    assert (processes.running, older.resting_since, newer.resting_since) == (3, None, 2.0)
    assert used.place is not None


async def test_who_finds_all_in_use_waits_until_one_rests():
    """In order; a place that is given back is taken by the first who waits."""
    processes = Processes(1, 30.0)
    first = await Busy().enter(processes)
    waiting = [asyncio.create_task(Busy().enter(processes)) for _ in range(2)]
    await asyncio.sleep(0)
    assert not any(one.done() for one in waiting)
    first.resting_since = 1.0
    processes.make_room()
    second = await waiting[0]
    assert processes.running == 1
    assert second.place is not None
    second.place.give_back()
    second.place.give_back()
    await waiting[1]
    assert processes.running == 1


async def test_nobody_waits_for_ever():
    """And whoever gave up has no server stopped later."""
    processes = Processes(1, 0.0)
    only = await Busy().enter(processes)
    with pytest.raises(Full, match="all 1 processes of this gateway are in use"):
        await Busy().enter(processes)
    only.resting_since = 1.0
    processes.make_room()
    assert (processes.running, only.resting_since) == (1, 1.0)
