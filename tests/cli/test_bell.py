"""The bell rings for what is new, at a terminal, and says nothing."""

from __future__ import annotations

import asyncio
import io

from antiphon.cli.store import ring_for_questions
from antiphon.host import MemoryStore, Queue, ReviewItem
from tests.host.asks import CHOICES, origin, request


class Terminal(io.StringIO):
    """Hears the bell."""

    def __init__(self) -> None:
        super().__init__()
        self.rung = asyncio.Event()

    def isatty(self) -> bool:
        return True

    def write(self, text: str) -> int:
        self.rung.set()
        return super().write(text)


def item(number: int) -> ReviewItem:
    """Make a request."""
    params = request(f"Describe {number}")
    return ReviewItem(origin=origin(str(number)), params=params, received=params, provider="echo", choices=CHOICES)


async def put(queue: Queue, number: int) -> asyncio.Task[object]:
    """Leave a question; it is there when this returns."""
    task = asyncio.create_task(queue.review(item(number)))
    async for _ in queue.changes():
        if any(question.item.origin.id == str(number) for question in await queue.pending()):
            break
    return task


async def test_it_rings_for_what_is_new():
    """Not for what waited before, and not when something goes."""
    store, terminal = MemoryStore(), Terminal()
    queue = Queue(store)
    old = await put(queue, 1)
    async with ring_for_questions(store, stream=terminal):
        new = await put(queue, 2)
        await terminal.rung.wait()
        old.cancel()
        await asyncio.wait([old])
        terminal.rung.clear()
        newest = await put(queue, 3)
        await terminal.rung.wait()
    assert terminal.getvalue() == "\a\a"
    for task in (new, newest):
        task.cancel()
    await asyncio.wait([new, newest])


async def test_it_is_silent_in_a_pipe_and_where_nobody_wants_it():
    """A file is no place for a bell."""
    store, pipe, unwanted, terminal = MemoryStore(), io.StringIO(), Terminal(), Terminal()
    silent = ring_for_questions(store, stream=pipe), ring_for_questions(store, wanted=False, stream=unwanted)
    async with silent[0], silent[1], ring_for_questions(store, stream=terminal):
        first = await put(Queue(store), 1)
        await terminal.rung.wait()
        terminal.rung.clear()
        second = await put(Queue(store), 2)
        await terminal.rung.wait()
    assert (pipe.getvalue(), unwanted.getvalue()) == ("", "")
    for task in (first, second):
        task.cancel()
    await asyncio.wait([first, second])
