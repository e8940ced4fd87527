"""The list of what a browser has decided last: without a browser, and without a script."""

from __future__ import annotations

from tests.web.pages import desk


async def test_a_decision_is_listed_with_its_request_and_can_be_taken_back():
    """By the server's words and ours; once it is taken back, its entry is gone."""
    async with desk(undo=30) as page:
        question, task = await page.asked(text="Describe <b>it</b>")
        await page.post(f"/review/{question.id}/approve", page.about(question))
        listed = (await page.get("/outcomes")).text
        assert "Describe &lt;b&gt;it&lt;/b&gt;" in listed
        assert "Approved." in listed
        undone = await page.post("/undo", {"id": [question.id]})
        assert undone.json()["done"] == "Taken back: it is waiting again."
        assert "Describe" not in (await page.get("/outcomes")).text
        assert not task.done()


async def test_of_several_that_are_taken_back_the_late_ones_are_said():
    """What can be taken back is; for the others it was too late."""
    async with desk(undo=30) as page:
        held, one = await page.asked(text="One")
        await page.post(f"/review/{held.id}/approve", page.about(held))
        other, _ = await page.asked(text="Two")
        done = await page.post("/undo", {"id": [held.id, other.id]})
        assert done.json()["done"].startswith("Some of them were taken back")
        assert not one.done()


async def test_another_browser_has_a_list_of_its_own():
    """Nobody is offered to take back what another person decided."""
    async with desk(undo=30) as page:
        question, _ = await page.asked(text="Mine")
        await page.post(f"/review/{question.id}/approve", page.about(question))
        page.client.cookies.clear()
        await page.enter()
        assert "Mine" not in (await page.get("/outcomes")).text
