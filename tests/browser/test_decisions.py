"""Decisions in a real browser: what a person clicks comes back at the server that asked."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from antiphon.host import Echo, Scripted
from tests.browser.visits import visit
from tests.host.asks import request, says
from tests.web.pages import desk

pytestmark = pytest.mark.browser


async def test_the_first_request_is_approved_in_three_actions(chromium: Browser):
    """Open the address, choose the request, approve: the server has its answer."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.click("#detail .decide .primary")
            await seen.said("Approved")
            assert (await task).text == "ok"
            await seen.count(0)


async def test_an_edited_request_is_shown_again_and_sent(chromium: Browser):
    """The text is changed, the difference is seen, and the provider gets the new text."""
    provider = Scripted(["ok"])
    async with desk(provider=provider) as page:
        question, task = await page.asked(text="Describe a sweater")
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("e")
            await seen.page.fill("textarea[name=text-0-0]", "Describe a scarf")
            await seen.page.click("[data-preview] button.primary")
            await seen.page.wait_for_selector("#preview .diff .added")
            assert "scarf" in await seen.page.inner_text("#preview .added")
            assert "sweater" in await seen.page.inner_text("#preview .removed")
            await seen.page.wait_for_selector("#preview [data-arming]:not([aria-disabled])")
            await seen.page.click("#preview button.primary")
            await seen.said("approved")
        await task
        assert [sent.messages[0].text for sent in provider.requests] == ["Describe a scarf"]


async def test_a_request_is_denied_with_a_reason(chromium: Browser):
    """The server learns that it was refused; the reason stays with our caller."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("r")
            await seen.page.keyboard.type("not today")
            await seen.page.keyboard.press("Enter")
            await seen.said("Denied")
        with pytest.raises(Rejected) as refused:
            await task
        assert (refused.value.data["reason"], refused.value.__notes__) == ("user", ["denied: not today"])


async def test_a_person_answers(chromium: Browser):
    """What was typed is the answer."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("w")
            await seen.page.keyboard.type("By hand.")
            await seen.page.click("text=Send my answer")
            await seen.said("Answered")
        answer = await task
        assert (answer.text, answer.model) == ("By hand.", "human")


async def test_a_grant_covers_what_already_waits_after_saying_how_many(chromium: Browser):
    """Only what matches, within its bounds: what is sent now counts towards the uses."""
    async with desk() as page:
        first, answered = await page.asked()
        alike = [(await page.asked(text="Describe a hat"))[1] for _ in range(2)]
        _, other = await page.asked(text="x" * 20_000)
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.page.click(".more > summary")
            await seen.page.click("text=Approve similar requests too")
            chosen = seen.page.locator("select[name=scope] option[value=session]")
            assert await chosen.inner_text() == "this session (2 that wait are sent now)"
            await seen.page.select_option("select[name=scope]", "session")
            await seen.page.fill("input[name=uses]", "5")
            await seen.page.click("text=Approve, and similar ones too")
            await seen.said("Approved")
            await asyncio.gather(answered, *alike)
            await seen.count(1)
        assert not other.done()
        (given,) = await page.host.grants.all()
        assert given.grant.terms.uses == 3


async def test_a_grant_is_given_used_and_revoked(chromium: Browser):
    """With a grant the next request passes alone; once it is revoked on its page, the next one waits again."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.click(".more > summary")
            await seen.page.click("text=Approve similar requests too")
            await seen.page.select_option("select[name=scope]", "session")
            await seen.page.fill("input[name=uses]", "5")
            await seen.page.click("text=Approve, and similar ones too")
            await seen.said("Approved")
            await task
            assert (await page.host(request(), question.item.origin)).text == "ok"
            await seen.page.click("text=Grants")
            await seen.page.wait_for_selector(".cards li")
            assert "1 of 5" in await seen.page.inner_text(".cards")
            await seen.page.click(".cards button")
            await seen.said("Revoked")
            await seen.page.wait_for_selector("text=There are no grants")
        _, waiting = await page.asked()
        assert not waiting.done()


async def test_the_first_of_two_reviewers_wins_and_the_second_is_told(chromium: Browser):
    """Both look at one request; one denies it, and the other's page says so by itself."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as ada, visit(chromium, page) as bob:
            await ada.open(question.id)
            await bob.open(question.id)
            await ada.page.click("#detail .decide button.danger")
            await ada.said("Denied")
            await bob.page.wait_for_selector(f"#detail[data-id='{question.id}'] .banner")
            assert "By page 2" in await bob.page.inner_text("#detail .banner")
            assert not await bob.page.query_selector("#detail form")
        with pytest.raises(Rejected):
            await task


async def test_an_answer_is_rewritten_before_it_leaves(chromium: Browser):
    """Where answers are reviewed, the model's own is shown, and what the person makes of it is sent."""
    async with desk(provider=Scripted(["a lie"]), review_response="always") as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("a")
            await seen.page.wait_for_selector("#queue [data-row] >> text=answer")
            await seen.page.keyboard.press("j")
            await seen.page.wait_for_selector("#detail[data-kind=response]")
            assert "a lie" in await seen.page.inner_text(".answer")
            await seen.page.keyboard.press("w")
            await seen.page.fill("textarea[name=text]", "the truth")
            await seen.page.click("text=Send the rewritten answer")
            await seen.said("Answered")
        assert (await task).text == "the truth"


async def test_an_answer_is_made_again(chromium: Browser):
    """Regenerate asks the model once more; the second answer is reviewed, and released."""
    async with desk(provider=Scripted(["first", "second"]), review_response="always") as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            await seen.page.keyboard.press("a")
            await seen.page.wait_for_selector("#queue [data-row] >> text=answer")
            await seen.page.keyboard.press("j")
            await seen.page.wait_for_selector("#detail[data-kind=response]")
            await seen.page.click(".more > summary")
            await seen.page.click("text=Have it answered again")
            await seen.page.click("button >> text=Answer again")
            await seen.page.wait_for_selector("#queue [data-row] >> text=second")
            await seen.page.keyboard.press("j")
            await seen.page.wait_for_selector(".answer >> text=second")
            await seen.page.wait_for_selector("#detail .decide [data-arming]:not([aria-disabled])")
            await seen.page.keyboard.press("a")
            await seen.said("Approved")
        assert (await task).text == "second"


async def test_approve_is_dead_for_a_moment(chromium: Browser):
    """A key pressed the moment a request appears decides nothing; the same key works afterwards."""
    async with desk() as page:
        await page.asked(text="First")
        question, task = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.page.wait_for_selector("#detail [data-key=a]:not([aria-disabled])")
            await seen.page.evaluate(
                """id => new Promise(done => {
                    new MutationObserver((_, watching) => {
                        const button = document.querySelector(`#detail[data-id='${id}'] [data-key=a]`);
                        if (!button) return;
                        watching.disconnect();
                        button.click();
                        done();
                    }).observe(document.body, { childList: true, subtree: true });
                    document.querySelector(`[data-row='${id}']`).click();
                })""",
                question.id,
            )
            await seen.page.wait_for_selector("#detail [data-key=a]:not([aria-disabled])")
            assert (await page.queue.get(question.id)).state == "pending"
            await seen.page.keyboard.press("a")
            await seen.said("Approved")
        await task


async def test_pictures_and_messages_of_both_roles_are_shown(chromium: Browser):
    """A conversation is shown in order, with who said what."""
    async with desk(provider=Echo()) as page:
        question, _ = await page.asked(messages=[says("One?"), says("Two.", "assistant"), says("Three?")])
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            roles = await seen.page.locator(".turn h3").all_inner_texts()
            texts = await seen.page.locator(".turn pre").all_inner_texts()
            assert list(zip(roles, texts, strict=True)) == [("user", "One?"), ("assistant", "Two."), ("user", "Three?")]
