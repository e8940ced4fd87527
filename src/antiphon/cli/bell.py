"""The terminal's bell, rung when a new question comes. It reveals nothing of the question."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TextIO

from antiphon.host.review.queue import Queue
from antiphon.host.store import Store
from antiphon.machine.asyncio_tasks import end_tasks

_BELL = "\a"


@asynccontextmanager
async def ring_for_questions(
    store: Store, *, wanted: bool = True, stream: TextIO | None = None
) -> AsyncGenerator[None]:
    """Ring for new questions in this store while the context lasts; only at a terminal."""
    out = stream or sys.stderr
    if not (wanted and out.isatty()):
        yield
        return
    queue = Queue(store)
    # Questions from before this are in the list already.
    known = {question.id for question in await queue.pending()}
    listening = asyncio.create_task(_listen_for_questions(queue, known, out))
    try:
        yield
    finally:
        await end_tasks(listening)


async def _listen_for_questions(queue: Queue, known: set[str], stream: TextIO) -> None:
    async for _ in queue.changes():
        pending = {question.id for question in await queue.pending()}
        if pending - known:
            # One bell for all questions that came together.
            stream.write(_BELL)
            stream.flush()
        known = pending
