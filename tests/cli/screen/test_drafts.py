"""What is kept of an unfinished decision on the screen, and what is refused of one on what is no longer shown."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.host import ReviewItem
from antiphon.host.review.review import hash_of
from antiphon.wire.envelope import encode
from tests.cli.screen.reviewing import Asking, asking, lines, reviewing
from tests.host.asks import request

SIZES = pytest.mark.parametrize("size", [(80, 24), (200, 50)])


@SIZES
async def test_an_edit_outlives_a_look_elsewhere_and_a_restart(size: tuple[int, int]):
    """What the editor had left is in it the next time: after another request was shown, and on another screen."""
    seen: list[str] = []

    async def editor(text: str) -> str:
        seen.append(text)
        return text.replace("sweater", "hat")

    async with asking() as desk:
        await desk.ask("Describe a sweater")
        await desk.ask("Second")
        async with reviewing(desk.store, size=size, editor=editor) as review:
            await review.press("e", sees="Describe a hat")
            await review.press("escape", sees="Nothing was decided.")
            await review.press("j", sees="│ Second")
            await review.press("k", sees="│ Describe a sweater")
            await review.press("e", sees="Describe a hat")
            await review.press("escape", sees="Nothing was decided.")
        async with reviewing(desk.store, size=size, editor=editor) as review:
            await review.press("e", sees="Describe a hat")
            await review.press("a", sees="The edited request was approved.")
    assert ["Describe a hat" in text for text in seen] == [False, True, True]


async def asks_otherwise(desk: Asking, text: str) -> None:
    """Have what waits ask something else, as a process does that asks again after a crash."""
    question = await desk.newest()
    assert isinstance(question.item, ReviewItem)
    params = request(text)
    item = msgspec.structs.replace(question.item, params=params, received=params)
    row = await desk.store.review(question.id)
    assert row is not None
    desk.store._keep(msgspec.structs.replace(row, item=encode(item).decode(), hash=hash_of(item)))


@SIZES
async def test_a_decision_on_what_is_no_longer_asked_is_refused(size: tuple[int, int]):
    """It is drawn anew, and only then decided."""
    async with asking() as desk:
        await desk.ask("Describe a hat")
        async with reviewing(desk.store, size=size) as review:
            review.stage.workers.cancel_group(review.stage, "watch")
            await asks_otherwise(desk, "Describe a bomb")
            await review.press("a", sees="│ Describe a bomb")
            assert review.decisions == []
            [question] = await desk.queue.pending()
            assert question.state == "pending"
            await review.press("d", sees="Denied.")


async def test_what_is_asked_otherwise_is_drawn_anew():
    """By itself, as soon as it is."""
    async with asking() as desk:
        await desk.ask("Describe a hat")
        async with reviewing(desk.store) as review:
            await asks_otherwise(desk, "Describe a coat")
            await review.sees("│ Describe a coat")
            assert "Describe a hat" not in review.text


@SIZES
async def test_the_line_of_an_undo_says_how_long(size: tuple[int, int]):
    """And afterwards that it is too late; a refusal has none."""
    async with asking() as desk:
        await desk.ask("First")
        await desk.ask("Second")
        async with reviewing(desk.store, size=size, undo=5.0) as review:
            await review.press("d", sees="Denied.")
            assert not any("takes it back" in line for line in lines(review.app))
            review.type("u")
            await review.sees("There is nothing to take back.")
            await review.press("a", sees="Approved. u takes it back within 5 s.")
            undoable = review.stage._acting._undoable
            assert len(undoable) == 1
            question = await desk.queue.get(undoable[0])
            row = await desk.store.review(question.id)
            assert row is not None and row.release is not None
            desk.store._keep(msgspec.structs.replace(row, state="decided"))
            await review.press("u", sees="Too late")
