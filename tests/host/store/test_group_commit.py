"""Changes that gather while others are made."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

import pytest

from antiphon.host.store.sql_store import CALM, MAX_GROUP, MAX_OWED, Grouped, Owed


class No(Exception):
    """A change that is refused."""


class Maker:
    """Makes numbers when it is let; refuses the negative ones, and fails at 13."""

    def __init__(self) -> None:
        self.made: list[list[int]] = []
        self.go = asyncio.Event()

    def make(self, numbers: Sequence[int]) -> asyncio.Future[None]:
        return asyncio.ensure_future(self._make(numbers))

    async def _make(self, numbers: Sequence[int]) -> None:
        await self.go.wait()
        if 13 in numbers:
            raise OSError("no luck")
        if any(number < 0 for number in numbers):
            raise No
        self.made.append(list(numbers))


@pytest.fixture
def maker() -> Maker:
    """Make one that waits."""
    return Maker()


async def outcomes(maker: Maker, *numbers: int) -> list[BaseException | None]:
    """Add all at once, and let them be made."""
    grouped = Grouped(maker.make, No)
    adding = asyncio.gather(*(grouped.add(number) for number in numbers), return_exceptions=True)
    maker.go.set()
    found = await adding
    await grouped.finish()
    return found


async def test_what_is_wanted_at_once_is_made_together(maker: Maker):
    """In the order it came; the first one waits for nobody."""
    assert await outcomes(maker, 1, 2, 3) == [None] * 3
    assert maker.made == [[1], [2, 3]]


async def test_while_several_come_at_once_none_is_made_alone():
    """A transaction for the first of each turn would be one for each group; where changes come alone, none waits."""
    made: list[list[int]] = []
    now = 0.0
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    done.set_result(None)

    def make(numbers: Sequence[int]) -> asyncio.Future[None]:
        made.append(list(numbers))
        return done

    grouped = Grouped(make, No, lambda: now)
    for start in (0, 10, 20):
        await asyncio.gather(*(grouped.add(start + number) for number in range(3)))
    for number in range(CALM):
        alone = grouped.add(number)
        assert not alone.done()
        await alone
    now += 1
    assert grouped.add(30).done()
    # It may be in the same turn of the event loop as the one before.
    await asyncio.gather(grouped.add(31), grouped.add(32))
    assert made == [[0], [1, 2], [10, 11, 12], [20, 21, 22], *([number] for number in range(CALM)), [30], [31, 32]]


async def test_what_comes_meanwhile_waits_for_the_next(maker: Maker):
    """One transaction at a time."""
    grouped = Grouped(maker.make, No)
    first = asyncio.ensure_future(grouped.add(1))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    later = asyncio.gather(grouped.add(2), grouped.add(3))
    maker.go.set()
    await asyncio.gather(first, later)
    assert maker.made == [[1], [2, 3]]


async def test_a_refusal_concerns_only_whom_it_is_for(maker: Maker):
    """Each of the group is made alone then."""
    found = await outcomes(maker, 0, 1, -1, 2)
    assert [type(each) for each in found] == [type(None), type(None), No, type(None)]
    assert maker.made == [[0], [1], [2]]


async def test_a_failure_concerns_all(maker: Maker):
    """The store is broken: nothing of it was made. The next group has its own luck."""
    assert [type(each) for each in await outcomes(maker, 1, 2, 13)] == [type(None), OSError, OSError]
    assert await outcomes(maker, 3) == [None]
    assert maker.made == [[1], [3]]


async def test_what_cannot_even_be_begun_is_a_failure():
    """The store is closed: it is told, and the next one is told as well."""

    def closed(numbers: Sequence[int]):
        raise OSError("closed")

    grouped = Grouped(closed, No)
    for _ in range(2):
        with pytest.raises(OSError, match="closed"):
            await grouped.add(1)
    await grouped.finish()


async def test_what_is_cut_off_is_told(maker: Maker):
    """Nobody waits for ever."""
    grouped = Grouped(maker.make, No)
    tasks = [asyncio.ensure_future(grouped.add(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    grouped._making.cancel()
    maker.go.set()
    await asyncio.wait(tasks)
    assert (tasks[0].cancelled(), tasks[1].exception(), maker.made) == (True, None, [[2]])


async def test_whoever_stops_waiting_does_not_undo_it(maker: Maker):
    """It is made all the same, and nobody else is disturbed."""
    grouped = Grouped(maker.make, No)
    tasks = [asyncio.ensure_future(grouped.add(number)) for number in (1, 2)]
    await asyncio.sleep(0)
    tasks[0].cancel()
    maker.go.set()
    await asyncio.wait(tasks)
    await grouped.finish()
    assert (tasks[0].cancelled(), tasks[1].exception(), maker.made) == (True, None, [[1], [2]])


async def test_a_group_is_bounded(maker: Maker):
    """So that other processes have their turn."""
    await outcomes(maker, *range(100, 100 + MAX_GROUP + 2))
    assert [len(group) for group in maker.made] == [1, MAX_GROUP, 1]


class Shaky:
    """Runs work, but for a while cannot."""

    def __init__(self) -> None:
        self.down = False
        self.done: list[str] = []

    async def run(self, work: Callable[[object], None]) -> None:
        if self.down:
            raise ConnectionResetError
        work(None)

    def work(self, name: str) -> Callable[[object], None]:
        """Make work that notes that it was done."""
        return partial(self._note, name)

    def _note(self, name: str, connection: object) -> None:
        self.done.append(name)


async def test_what_is_owed_is_done_once_in_its_order():
    """And then forgotten."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    for name in ("a", "b", "a"):
        owed.add(name, shaky.work(name))
    await owed.pay()
    await owed.pay()
    assert (shaky.done, len(owed)) == (["a", "b"], 0)


async def test_what_fails_again_is_kept():
    """Whoever tries is told."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    owed.add("a", shaky.work("a"))
    shaky.down = True
    with pytest.raises(ConnectionResetError):
        await owed.pay()
    shaky.down = False
    await owed.pay()
    assert shaky.done == ["a"]


async def test_what_is_owed_is_done_once_also_for_many_who_ask_for_it_and_one_who_gives_up():
    """A transaction that was begun goes on: to make it again would write its records twice."""
    begun, go, done = asyncio.Event(), asyncio.Event(), list[str]()

    async def run(work: Callable[[object], None]) -> None:
        begun.set()
        await go.wait()
        work(None)

    owed = Owed(run)
    owed.add("a", lambda _: done.append("a"))
    first, second = asyncio.create_task(owed.pay()), asyncio.create_task(owed.pay())
    await begun.wait()
    first.cancel()
    await asyncio.wait([first])
    third = asyncio.create_task(owed.pay())
    owed.add("a", lambda _: done.append("later"))
    go.set()
    await asyncio.gather(second, third)
    await owed.pay()
    assert (done, len(owed)) == (["a", "later"], 0)


async def test_more_than_is_remembered_is_given_up_and_said(caplog: pytest.LogCaptureFixture):
    """What came first goes first."""
    shaky = Shaky()
    owed = Owed(shaky.run)
    for number in range(MAX_OWED + 1):
        owed.add(str(number), shaky.work(str(number)))
    await owed.pay()
    assert (shaky.done[0], len(shaky.done)) == ("1", MAX_OWED)
    assert "could not be saved" in caplog.text
