"""Two answers beside one another, over real HTTP."""

from __future__ import annotations

import asyncio
import re

from antiphon.host.review.question import Question
from antiphon.host.review.review import digest
from tests.host.test_pipeline_models import Provider
from tests.host.test_pipeline_rivals import Failing
from tests.web.pages import Desk, desk


async def compared(page: Desk, **more) -> tuple[Question, asyncio.Task]:
    """Let a server ask, have two models answer, and return the question which of them is to be sent."""
    question, task = await page.asked(**more)
    form = page.about(question, digest(question.item.params), beside="dear")
    sent = await page.post(f"/review/{question.id}/approve", form)
    assert sent.status_code == 200, sent.text
    return await page.arrived({question.id}), task


async def test_a_request_offers_to_compare_two_models():
    """Those that may answer it, but for the one that was chosen anyway."""
    async with desk(provider=Provider()) as page:
        question, _ = await page.asked()
        shown = (await page.get(f"/review/{question.id}")).text
        assert "Compare two models" in shown
        assert re.search(r'<select name="beside">\s*<option value="dear"', shown)
        assert not re.search(r'<select name="beside">\s*<option value="cheap"', shown)


async def test_both_answers_are_shown_with_what_they_took():
    """Each with its model, cost and time; each is sent by a button of its own."""
    async with desk(provider=Provider()) as page:
        question, task = await compared(page)
        shown = (await page.get(f"/review/{question.id}")).text
        for text in (
            "cheap 1",
            "dear 2",
            "cheap · $0.001 · ",
            "dear · $0.10 · ",
            "The first answer",
            "The second answer",
        ):
            assert text in shown
        assert shown.count(f'action="/review/{question.id}/approve"') == 2
        chosen = page.about(question, digest(question.item.rival.result))
        assert (await page.post(f"/review/{question.id}/approve", chosen)).status_code == 200
        assert (await task).text == "dear 2"


async def test_a_second_answer_that_failed_says_so():
    """The first is there, to be sent by the one button."""
    async with desk(provider=Failing("dear")) as page:
        question, task = await compared(page)
        shown = (await page.get(f"/review/{question.id}")).text
        assert "There is no second answer: the model failed. The first one is as it was." in shown
        assert shown.count(f'action="/review/{question.id}/approve"') == 1
        await page.post(f"/review/{question.id}/approve", page.about(question))
        assert (await task).text == "cheap 1"


async def test_an_answer_can_be_kept_while_another_model_is_asked():
    """From where it is reviewed."""
    async with desk(provider=Provider(), review_response="always") as page:
        question, _ = await page.asked()
        await page.post(f"/review/{question.id}/approve", page.about(question))
        answer = await page.arrived({question.id})
        form = page.about(answer, model="dear", beside="true")
        assert (await page.post(f"/review/{answer.id}/regenerate", form)).status_code == 200
        both = await page.arrived({question.id, answer.id})
        assert (both.item.result.text, both.item.rival.result.text) == ("cheap 1", "dear 2")


async def test_the_second_answer_is_marked_and_drawn_like_the_first():
    """What cannot be seen in it is made visible, its risks are listed, and a long one is shown piece by piece."""
    provider = Failing("dear", text="A\u202e" + "long " * 20_000)
    async with desk(provider=provider) as page:
        question, _ = await compared(page)
        shown = (await page.get(f"/review/{question.id}")).text
        assert "\u27e6U+202E\u27e7" in shown
        assert f"/review/{question.id}/text/rival-0-0" in shown
        assert "long" in (await page.get(f"/review/{question.id}/text/rival-0-0")).text
