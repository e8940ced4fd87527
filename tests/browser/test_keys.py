"""The keys of the page: they can be switched off and changed, ask before they reach far, and ignore words."""

from __future__ import annotations

import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from tests.browser.visits import Visit, visit
from tests.web.pages import desk

pytestmark = pytest.mark.browser

WORDS = {"server": "Block the server", "call": "Stop the whole call"}


async def saved(seen: Visit) -> None:
    """Save the settings, which loads the page again."""
    async with seen.page.expect_navigation():
        await seen.page.click("text=Save")
    await seen.page.wait_for_selector("body[data-ready]")


async def test_single_letters_are_switched_off(chromium: Browser):
    """No letter decides or leads anywhere, and none is printed on a button; Ctrl+Enter still sends."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.page.goto(f"{page.running.origin}/settings")
            await seen.page.wait_for_selector("body[data-ready]")
            await seen.page.uncheck("[name=letters]")
            await saved(seen)
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector("#detail .approve:not([aria-disabled])")
            assert await seen.page.locator("#detail kbd:visible").count() == 0
            for key in ("a", "d", "h", "b"):
                await seen.key(key)
                await seen.page.evaluate("new Promise(done => setTimeout(done, 150))")
            assert seen.page.url.endswith(question.id)
            assert not task.done()
            await seen.page.click(".more > summary")
            await seen.page.click("summary:has-text('Answer yourself')")
            await seen.page.fill("[name=text]", "By hand")
            await seen.key("Control+Enter")
            assert (await task).text == "By hand"


async def test_a_key_is_changed(chromium: Browser):
    """The new one approves, the old one does nothing; two alike are refused."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.page.goto(f"{page.running.origin}/settings")
            await seen.page.wait_for_selector("body[data-ready]")
            await seen.page.click("text=Choose other keys")
            await seen.page.fill("[name=key-approve]", "d")
            await seen.page.click("text=Save")
            await seen.page.wait_for_selector(".problem >> text=no two are the same")
            await seen.page.fill("[name=key-approve]", "i")
            await saved(seen)
            await seen.page.goto(f"{page.running.origin}/review/{question.id}")
            await seen.page.wait_for_selector("#detail .approve:not([aria-disabled])")
            assert await seen.page.inner_text("#detail .approve kbd") == "i"
            await seen.key("i")
            assert (await task).text == "ok"


QUICKLY = """word => [...word].forEach((key, at) => {
    const event = new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true });
    Object.defineProperty(event, "timeStamp", { value: performance.now() + at });
    document.activeElement.dispatchEvent(event);
})"""


@pytest.mark.parametrize("word", ["bad", "add", "deny", "hello", "ba"])
async def test_a_word_that_is_typed_outside_a_field_does_nothing(chromium: Browser, word: str):
    """No letter of it decides, asks or leads anywhere; a letter by itself does."""
    async with desk() as page:
        question, task = await page.asked()
        async with visit(chromium, page) as seen:
            await seen.open(question.id)
            # A millisecond apart by their own stamps. On a busy machine the letters of a driver are as far apart as
            # those of a person who means each.
            await seen.page.evaluate(QUICKLY, word)
            await seen.page.evaluate("new Promise(done => setTimeout(done, 200))")
            assert seen.page.url.endswith(question.id)
            assert not await seen.page.is_visible("#sure")
            assert not task.done()
            await seen.key("d")
            await seen.said("Denied")
        with pytest.raises(Rejected):
            await task


@pytest.mark.parametrize(("key", "reach"), [("b", "server"), ("s", "call")])
async def test_what_reaches_further_asks_once_and_can_be_taken_back(chromium: Browser, key: str, reach: str):
    """With what it withdraws counted and named, by key and by its button: of the server, or of the call alone."""
    async with desk(undo=60) as page:
        first, _ = await page.asked(text="First")
        await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.key(key)
            await seen.page.wait_for_selector("#sure[open]")
            assert await seen.page.locator("#sure li").all_inner_texts() == ["First", "Second"]
            assert ": 2" in await seen.page.inner_text("#sure h2")
            assert await seen.page.inner_text("#sure .danger") == WORDS[reach]
            await seen.key("Enter")
            await seen.page.wait_for_selector("#sure", state="hidden")
            assert (await page.queue.get(first.id)).state == "pending"
            await seen.key("r")
            await seen.page.click(f"#detail button[name=reach][value={reach}]")
            await seen.page.click("#sure .danger")
            await seen.page.wait_for_selector("#undo")
            assert len(await page.store.blocks()) == (1 if key == "b" else 0)
            await seen.key("u")
            await seen.said("Taken back")
            await seen.count(2)
        assert await page.store.blocks() == []


async def test_denying_those_that_are_selected_asks_once_and_can_be_taken_back(chromium: Browser):
    """They are counted and named; taken back, all of them wait again."""
    async with desk(undo=60) as page:
        asked = [await page.asked(text=text) for text in ("First", "Second", "Third")]
        async with visit(chromium, page) as seen:
            await seen.open(asked[0][0].id)
            for question, _ in asked[:2]:
                await seen.page.check(f"[name=ask][value^='{question.id}']")
            await seen.page.click("#several .danger")
            await seen.page.wait_for_selector("#sure[open]")
            assert await seen.page.locator("#sure li").all_inner_texts() == ["First", "Second"]
            await seen.page.click("#sure .danger")
            await seen.page.wait_for_selector("#undo >> text=2 requests")
            await seen.key("u")
            await seen.said("Taken back")
            await seen.count(3)
        assert not any(task.done() for _, task in asked)


async def test_a_block_takes_effect_when_it_cannot_be_taken_back_any_more(chromium: Browser):
    """Nothing new passes from the moment of the decision; then all that waits is withdrawn."""
    async with desk(undo=1) as page:
        first, one = await page.asked(text="First")
        _, two = await page.asked(text="Second")
        async with visit(chromium, page) as seen:
            await seen.open(first.id)
            await seen.key("b")
            await seen.page.click("#sure .danger")
            await seen.count(0)
        for task in (one, two):
            with pytest.raises(Rejected):
                await task
        assert len(await page.store.blocks()) == 1


async def test_the_enter_of_an_input_method_chooses_a_word_and_does_nothing(chromium: Browser):
    """Whoever searches in Chinese ends a word with it; only the next one takes what was found."""
    async with desk() as page, visit(chromium, page) as seen:
        question, _ = await page.asked()
        await seen.open(question.id)
        await seen.key("Control+k")
        await seen.page.wait_for_selector("#palette[open] li button")
        for composing in ("true", "false"):
            await seen.page.evaluate(
                f"""document.querySelector("#palette input").dispatchEvent(
                    new KeyboardEvent("keydown", {{ key: "Enter", isComposing: {composing}, bubbles: true }}))"""
            )
            assert await seen.page.evaluate("document.querySelector('#palette').open") == (composing == "true")


async def test_undo_takes_back_what_it_was_pressed_for(chromium: Browser):
    """Its time may be up in the moment before the key acts: another decision, whose turn it is then, stays."""
    async with desk(undo=60) as page, visit(chromium, page) as seen:
        older, _ = await page.asked(text="Older")
        newer, _ = await page.asked(text="Newer")
        for question in (older, newer):
            await seen.open(question.id)
            await seen.key("a")
            await seen.page.wait_for_selector(f"#undo[data-of='{question.id}']")
        # As the list is drawn when the newer one cannot be taken back any more.
        await seen.page.evaluate(
            """ids => {
                document.dispatchEvent(new KeyboardEvent("keydown", { key: "u", bubbles: true }));
                const [older, newer] = ids.map((id) => document.querySelector(`#outcomes [data-of='${id}']`));
                newer.querySelector("form").remove();
                newer.removeAttribute("id");
                older.id = "undo";
                return new Promise((done) => setTimeout(done, 300));
            }""",
            [older.id, newer.id],
        )
        assert [(await page.queue.get(each.id)).state for each in (older, newer)] == ["held", "held"]
        await seen.key("u")
        await seen.page.wait_for_selector(f"#detail[data-id='{older.id}'][data-state='pending']")
