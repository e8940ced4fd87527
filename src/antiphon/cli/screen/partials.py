"""Unfinished answers on the screen: when to read them, and the lines that show them."""

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
"""Seconds between two reports to the store that somebody is watching."""


async def say_watching(watching: Watching) -> None:
    """Report to the store that somebody is watching, until cancelled."""
    while True:
        await watching.look()
        await asyncio.sleep(_SAY)


async def follow_partials(store: Store, queue: Queue, show: Callable[[list[Partial]], None]) -> None:
    """Show what arrives of answers, until cancelled: read on each change of the queue, more often while one grows."""
    shown: list[Partial] = []
    async for _ in queue.changes():
        while (partials := await partials_in(store)) or shown:
            if partials != shown:
                shown = partials
                show(partials)
            await asyncio.sleep(LOOK)


def partial_lines(partials: Sequence[Partial], words: Words, width: int) -> Content:
    """Show the answer that began last, with its end in two lines, and the number of others."""
    if not partials:
        return plain("")
    last = partials[-1]
    parts = [words("partial.title"), words("partial.unsent"), last.model, last.name, last.call]
    more = f" (+{len(partials) - 1})" if len(partials) > 1 else ""
    head = inert_line(" · ".join(filter(None, parts)) + more)
    # Half as many characters as two lines have cells, because some scripts take two cells per character.
    text = inert_line(" ".join(last.text.split()))[-max(1, width - 2) :]
    return Content.styled(head, "bold") + Content("\n" + text)
