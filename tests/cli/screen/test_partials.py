"""Answers while they come, on the screen."""

from __future__ import annotations

import asyncio

from antiphon.cli.screen.partials import follow_partials, partial_lines, say_watching
from antiphon.cli.screen.words import words
from antiphon.host import MemoryStore, Queue
from antiphon.host.review.partials import Partial, Watching
from antiphon.host.store.base import PartialRow
from antiphon.wire.envelope import encode
from tests.cli.screen.reviewing import asking, reviewing


def partial(text: str = "A warm sweater", **more) -> Partial:
    """Make an answer that grows."""
    return Partial(target="python catalogue.py", name="catalogue.py", call="describe", model="opus", text=text, **more)


async def keep(store, text: str, id: str = "r") -> None:
    """Let an answer grow, as a host would."""
    await store.keep_partial(PartialRow(id=id, host="h", began=1.0, body=encode(partial(text)).decode()))


def test_the_end_of_what_has_come_is_written():
    """Clearly not finished and not sent, in two lines at most; of others, how many."""
    shown = partial_lines([partial(), partial("one two " * 50 + "\x1b[31mend")], words("en"), 40).plain
    head, text = shown.split("\n")
    assert head == "Being answered · not finished, not sent yet · opus · catalogue.py · describe (+1)"
    assert len(text) <= 40
    assert text.endswith("end") and "\x1b" not in text
    assert partial_lines([], words("en"), 40).plain == ""


async def test_the_screen_shows_an_answer_while_it_comes():
    """And nothing of it once it is whole; meanwhile the host knows that somebody looks."""
    async with asking() as desk, reviewing(desk.store) as review:
        await review.until(lambda: desk.store._watched)
        await keep(desk.store, "A warm sweater of")
        await review.sees("not finished, not sent yet")
        await review.sees("A warm sweater of")
        await keep(desk.store, "A warm sweater of fine wool")
        await review.sees("of fine wool")
        await desk.store.drop_partial("r")
        await review.until(lambda: "not sent yet" not in review.text)


async def test_nothing_is_looked_at_while_nothing_grows():
    """One look for each change of the queue; the next one waits for the next change."""
    looks: list[int] = []

    class Store(MemoryStore):
        async def partials(self) -> list[PartialRow]:
            looks.append(1)
            return await super().partials()

    store, shown = Store(), asyncio.Queue()
    following = asyncio.create_task(follow_partials(store, Queue(store), shown.put_nowait))
    await keep(store, "A warm")
    assert [each.text for each in await shown.get()] == ["A warm"]
    await store.drop_partial("r")
    assert await shown.get() == []
    before = len(looks)
    await keep(store, "Another", "s")
    assert [each.text for each in await shown.get()] == ["Another"]
    assert len(looks) <= before + 3
    following.cancel()
    await asyncio.wait([following])


async def test_the_store_is_told_that_somebody_looks():
    """As long as it goes on."""
    said: asyncio.Queue[float] = asyncio.Queue()

    class Store(MemoryStore):
        async def watch(self, until: float) -> None:
            said.put_nowait(until)

    saying = asyncio.create_task(say_watching(Watching(Store(), lambda: 1_000.0)))
    assert await said.get() > 1_000.0
    saying.cancel()
    await asyncio.wait([saying])
