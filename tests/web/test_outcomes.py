"""The list of what a browser has decided last: without a browser, and without a script."""

from __future__ import annotations

import re

from antiphon.host.review.review import Deny
from tests.web.pages import desk


def undoing(page: str) -> list[str]:
    """Find the decisions that the buttons of a page take back."""
    return re.findall(r'name="of" value="([^"]+)"', page)


async def test_a_decision_is_listed_with_its_request_and_can_be_taken_back():
    """By the server's words and ours; once it is taken back, its entry is gone."""
    async with desk(undo=30) as page:
        question, task = await page.asked(text="Describe <b>it</b>")
        await page.post(f"/review/{question.id}/approve", page.about(question))
        listed = (await page.get("/outcomes")).text
        assert "Describe &lt;b&gt;it&lt;/b&gt;" in listed
        assert "Approved." in listed
        undone = await page.post("/undo", {"of": undoing(listed)})
        assert undone.json()["done"] == "Taken back: it is waiting again."
        assert "Describe" not in (await page.get("/outcomes")).text
        assert not task.done()


async def test_of_several_that_are_taken_back_the_late_ones_are_said():
    """What can be taken back is; for the others it was too late."""
    async with desk(undo=30) as page:
        (held, one), (other, _) = [await page.asked(text=text) for text in ("One", "Two")]
        for each in (held, other):
            await page.post(f"/review/{each.id}/approve", page.about(each))
        both = undoing((await page.get("/outcomes")).text)
        assert await page.store.close_review(other.id, "withdrawn", keep_item=False) is None
        done = await page.post("/undo", {"of": both})
        assert done.json()["done"].startswith("Some of them were taken back")
        assert not one.done()


async def test_what_another_tab_took_back_is_not_said_to_be_late():
    """The request waits again, as both tabs wanted, and is taken back once."""
    async with desk(undo=30) as page:
        question, task = await page.asked()
        await page.post(f"/review/{question.id}/approve", page.about(question))
        of = undoing((await page.get("/outcomes")).text)
        for _ in range(2):
            assert (await page.post("/undo", {"of": of})).json()["done"] == "Taken back: it is waiting again."
        steps = [entry.record for entry in await page.store.entries()]
        assert [record.outcome for record in steps if record.step == "review"] == ["undone:approve"]
        assert not task.done()


async def test_a_later_decision_is_not_taken_back_by_an_older_button():
    """One approves; another takes that back and blocks the server: the first one's button no longer counts."""
    async with desk(undo=30) as page:
        question, task = await page.asked()
        await page.post(f"/review/{question.id}/approve", page.about(question))
        of = undoing((await page.get("/outcomes")).text)
        await page.queue.undo(question.id, by="Bob")
        await page.queue.decide(question.id, Deny(reach="server"), hash=question.hash, by="Bob")
        assert "Approved" not in (await page.get("/outcomes")).text
        late = await page.post("/undo", {"of": of})
        assert (late.status_code, late.json()["problem"]) == (422, "Too late to take it back.")
        assert (await page.queue.get(question.id)).by == "Bob"
        assert await page.store.blocks()
        shown = (await page.get(f"/review/{question.id}")).text
        assert "Denied, server blocked. It takes effect in a moment; until then it can be taken back. By Bob." in shown
        assert not task.done()


async def test_another_browser_has_a_list_of_its_own():
    """Nobody is offered to take back what another person decided."""
    async with desk(undo=30) as page:
        question, _ = await page.asked(text="Mine")
        await page.post(f"/review/{question.id}/approve", page.about(question))
        assert "Mine" in (await page.get("/outcomes")).text
        page.client.cookies.clear()
        await page.enter()
        other = await page.get("/outcomes")
        assert (other.status_code, "Mine" in other.text) == (200, False)
