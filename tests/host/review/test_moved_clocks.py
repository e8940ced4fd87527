"""What people decide while the clock of the machine is set: nothing is lost, nothing waits for as long as the jump."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon.host import Host, Scripted
from antiphon.host.review.question import Question
from antiphon.host.review.queue import AlreadyDecided, Queue
from antiphon.host.store.base import Store
from tests.host.asks import origin, request
from tests.host.review.test_queue import approval, first
from tests.host.store.stores import KINDS, Clock, Place
from tests.support.network import until

HOUR = 3600.0


class Waiting:
    """A request that waits for a person, with the clock that is set and the one that never is."""

    def __init__(self, place: Place, store: Store) -> None:
        self.wall, self.steady = place.clock, Clock()
        self.store = store
        self.queue = self.make_queue(self.wall)
        host = Host(Scripted(["ok"]), reviewer=self.queue, store=store, review_timeout=100.0)
        self.task = asyncio.create_task(host(request(), origin()))

    def make_queue(self, wall: Callable[[], float]) -> Queue:
        """Make the queue of another process, whose clock may differ."""
        return Queue(self.store, clock=wall, monotonic=self.steady, undo=5.0)

    async def approve(self, queue: Queue | None = None) -> None:
        """Approve the request."""
        queue = queue or self.queue
        [question] = await first(queue)
        await queue.decide(question.id, approval(question), hash=question.hash)

    async def held(self) -> Question:
        """Return the question, once the process that waits knows that its decision is held."""
        await until(lambda: self.queue._waiting._release)
        return (await self.store_questions())[0]

    async def store_questions(self) -> list[Question]:
        """Return all open questions, also those that a clock says have expired."""
        return [await self.queue.get(row.id) for row in await self.store.reviews(("pending",))]


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


@asynccontextmanager
async def waiting(place: Place, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Waiting]:
    """Have a request wait in a store that is read all the time."""
    monkeypatch.setattr("antiphon.host.review.decision_watch.CHECK", 0.001)
    async with asyncio.timeout(60), place.open() as store:
        made = Waiting(place, store)
        yield made
        made.task.cancel()
        await asyncio.gather(made.task, return_exceptions=True)


@pytest.mark.parametrize("jump", [HOUR, -HOUR, 24 * HOUR, 60.0])
async def test_an_approval_takes_effect_though_the_clock_is_set_while_it_can_be_undone(
    place: Place, monkeypatch: pytest.MonkeyPatch, jump: float
):
    """It does so when the seconds to undo it have passed, neither before nor as much later as the clock was set."""
    async with waiting(place, monkeypatch) as made:
        await made.approve()
        await made.held()
        made.wall.now += jump
        made.steady.now += 4.9
        assert (await made.held()).state == "held"
        made.steady.now += 0.1
        assert (await made.task).text == "ok"


@pytest.mark.parametrize("jump", [HOUR, -HOUR])
async def test_an_approval_is_undone_though_the_clock_is_set_while_it_can_be(
    place: Place, monkeypatch: pytest.MonkeyPatch, jump: float
):
    """The question waits again, and its server is answered by the next decision, not by the one taken back."""
    async with waiting(place, monkeypatch) as made:
        await made.approve()
        held = await made.held()
        made.wall.now += jump
        await made.queue.undo(held.id, decided=held.decided)
        made.steady.now += 60
        [question] = await first(made.queue)
        assert (question.id, question.decision, made.task.done()) == (held.id, None, False)


@pytest.mark.parametrize("skew", [60.0, -HOUR])
async def test_a_person_whose_clock_differs_holds_an_approval_no_longer(
    place: Place, monkeypatch: pytest.MonkeyPatch, skew: float
):
    """The page runs where the clock is an hour ahead, or was set since: the host goes by how long it was to be held."""
    async with waiting(place, monkeypatch) as made:
        [question] = await first(made.queue)
        await until(lambda: any(each.is_read for each in made.queue._waiting._questions.values()))
        decided = made.make_queue(lambda: made.wall.now)
        made.wall.now += skew
        await decided.decide(question.id, approval(question), hash=question.hash)
        made.wall.now -= skew
        await made.held()
        made.steady.now += 5.0
        assert (await made.task).text == "ok"


@pytest.mark.parametrize("jump", [24 * HOUR, -24 * HOUR])
async def test_a_question_is_open_as_long_as_its_caller_waits(
    place: Place, monkeypatch: pytest.MonkeyPatch, jump: float
):
    """The clock was set by a day: the question shows the time that is left, and is decided as before."""
    async with waiting(place, monkeypatch) as made:
        [question] = await first(made.queue)
        assert question.expires == pytest.approx(made.wall.now + 100.0, abs=2.0)
        made.wall.now += jump
        made.steady.now += 10.0
        async for _ in made.queue.changes(0.01):
            if (await made.store_questions())[0].expires == pytest.approx(made.wall.now + 90.0, abs=2.0):
                break
        await made.approve()
        await made.held()
        made.steady.now += 5.0
        assert (await made.task).text == "ok"


async def test_a_person_is_told_that_a_question_has_expired(place: Place, monkeypatch: pytest.MonkeyPatch):
    """Nobody has decided, so nobody is told so; its caller may still be there for a moment."""
    async with waiting(place, monkeypatch) as made:
        [question] = await first(made.queue)
        made.wall.now += 101.0
        made.steady.now += 101.0
        with pytest.raises(AlreadyDecided, match=f"{question.id} has expired"):
            await made.queue.decide(question.id, approval(question), hash=question.hash)
