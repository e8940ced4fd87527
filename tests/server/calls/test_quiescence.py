"""When a round is sent: the passes of the event loop that are waited for, and when they are counted anew."""

from __future__ import annotations

import asyncio

from antiphon.server.calls.quiescence import PASSES, Quiescence


class Rounds:
    """Counts how often a round was to be sent. ``is_there``: whether there is one to send."""

    def __init__(self, *, is_there: bool = True) -> None:
        self.sent = 0
        self.is_there = is_there

    def send(self) -> bool:
        """Take note."""
        self.sent += 1
        return self.is_there


async def passes(number: int) -> None:
    """Let so many passes of the event loop go by."""
    for _ in range(number):
        await asyncio.sleep(0)


async def test_what_the_body_itself_asks_is_sent_at_the_next_pass() -> None:
    """It waits for its answer: nobody but a task it made can add an ask, and that one has its turn before."""
    rounds = Rounds()
    sent_before: list[int] = []
    asyncio.get_running_loop().call_soon(lambda: sent_before.append(rounds.sent))
    Quiescence().count(rounds.send)
    assert rounds.sent == 0
    await passes(1)
    assert (sent_before, rounds.sent) == ([0], 1)


async def test_what_another_task_asks_waits_for_its_siblings() -> None:
    """A few passes more: those of a nested ``gather``."""
    rounds = Rounds()
    Quiescence().count(rounds.send, is_direct=False)
    await passes(PASSES)
    assert rounds.sent == 0
    await passes(1)
    assert rounds.sent == 1


async def test_another_ask_begins_the_count_anew() -> None:
    """And the round is sent once."""
    rounds, quiescence = Rounds(), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES)
    quiescence.count(rounds.send)
    await passes(PASSES)
    assert rounds.sent == 0
    await passes(2)
    assert rounds.sent == 1


async def test_after_a_round_the_count_is_short_again() -> None:
    """The next ask may be the body's own."""
    rounds, quiescence = Rounds(), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES + 1)
    quiescence.count(rounds.send)
    await passes(2)
    assert rounds.sent == 2


async def test_while_there_is_no_round_the_count_stays_long() -> None:
    """Asks of other tasks that came while nobody could be asked are waited for when somebody can."""
    rounds, quiescence = Rounds(is_there=False), Quiescence()
    quiescence.count(rounds.send, is_direct=False)
    await passes(PASSES + 1)
    quiescence.count(rounds.send)
    await passes(PASSES)
    assert rounds.sent == 1


async def test_what_was_too_early_is_looked_at_again() -> None:
    """After some time, and without counting anew."""
    quiescence, done, tries = Quiescence(), asyncio.Event(), list[int]()

    def send() -> bool:
        tries.append(1)
        if len(tries) == 1:
            quiescence.look_again(0.001, send)
            return False
        done.set()
        return True

    quiescence.count(send)
    async with asyncio.timeout(30):
        await done.wait()
    assert len(tries) == 2
