"""Answers while they come, on the screen: when to look at them, and the lines in which they are shown.

Owns the looking. Where the lines stand is ``panes``'s business.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from textual.content import Content

from antiphon.cli.screen.header import plain
from antiphon.cli.screen.words import Words
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.partials import LOOK, Partial, Watching, partials_in
from antiphon.host.review.queue import Queue
from antiphon.host.store.base import Store

__all__ = ["follow_partials", "partial_lines", "say_watching"]

_SAY = 10.0
"""Seconds between two times that the store is told that somebody looks."""


async def say_watching(watching: Watching) -> None:
    """Say in the store that somebody looks, until cancelled."""
    while True:
        await watching.look()
        await asyncio.sleep(_SAY)


async def follow_partials(store: Store, queue: Queue, show: Callable[[list[Partial]], None]) -> None:
    """Show what comes of answers, until cancelled: a look for each change of the queue, more while one grows."""
    shown: list[Partial] = []
    async for _ in queue.changes():
        while (partials := await partials_in(store)) or shown:
            if partials != shown:
                shown = partials
                show(partials)
            await asyncio.sleep(LOOK)


def partial_lines(partials: Sequence[Partial], words: Words, width: int) -> Content:
    """Write the answer that began last, and its end in two lines; of others how many there are."""
    if not partials:
        return plain("")
    last = partials[-1]
    parts = [words("partial.title"), words("partial.unsent"), last.model, last.name, last.call]
    more = f" (+{len(partials) - 1})" if len(partials) > 1 else ""
    head = inert_line(" · ".join(filter(None, parts)) + more)
    # Half as many characters as two lines have cells: those of some scripts take two.
    text = inert_line(" ".join(last.text.split()))[-max(1, width - 2) :]
    return Content.styled(head, "bold") + Content("\n" + text)
