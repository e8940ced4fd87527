"""The table of keystrokes on the page of its design: each way is walked, and the keys that were pressed are counted."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable
from itertools import groupby
from pathlib import Path

import pytest
from playwright.async_api import Browser

from antiphon.errors import Rejected
from antiphon.host.review.keymap import print_key_name
from antiphon.host.review.review import Approve, digest
from antiphon.wire.elicitation import ElicitRequestParams
from tests.browser.test_shown import elicited
from tests.browser.visits import ARMED, Visit, visit
from tests.host.asks import origin, request
from tests.web.pages import Desk, desk

pytestmark = pytest.mark.browser

PAGE = Path(__file__).parents[2] / "docs" / "design" / "review-page.md"
FORM = ElicitRequestParams.form(
    "Where to?", {"properties": {"name": {"type": "string"}, "town": {"type": "string"}}, "required": ["name"]}
)


def read_table() -> dict[str, list[str]]:
    """Read the keys of this page for each action."""
    rows = re.findall(r"^\| ([^|]+) \| ([^|]*`[^|]*) \|", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    keys = PAGE.read_text(encoding="utf-8").partition("\n## Keys\n")[2].partition("\n## ")[0]
    return {name: re.findall(r"`([^`]+)`", cell) for name, cell in rows if f"| {name} |" in keys}


class Hands:
    """A person at the keyboard: what is typed into a field is no key of the page."""

    def __init__(self, desk: Desk, seen: Visit) -> None:
        self.desk = desk
        self.seen = seen
        self.page = seen.page
        self.pressed: list[str] = []

    async def press(self, key: str) -> None:
        """Press a key of the page."""
        self.pressed.append(print_key_name(key))
        await self.page.keyboard.press(key)

    async def write(self, text: str) -> None:
        """Type into the field that has the focus."""
        assert await self.page.evaluate("document.activeElement.matches('input, textarea')")
        await self.page.keyboard.type(text)

    async def asked(self, text: str = "First") -> asyncio.Task:
        """Have a server ask, and open what it asks."""
        question, task = await self.desk.asked(text=text)
        await self.seen.open(question.id)
        return task


async def approve(hands: Hands) -> None:
    """As it is."""
    task = await hands.asked()
    await hands.press("a")
    await task


async def deny(hands: Hands) -> None:
    """The reason is recorded."""
    task = await hands.asked()
    await hands.press("r")
    await hands.write("not today")
    await hands.press("Control+Enter")
    with pytest.raises(Rejected) as refused:
        await task
    assert refused.value.__notes__ == ["denied: not today"]


async def edit(hands: Hands) -> None:
    """What will be sent is shown before it is sent."""
    task = await hands.asked()
    await hands.press("e")
    await hands.page.wait_for_selector("textarea[name='text-0-0']:focus")
    await hands.write("Kindly: ")
    await hands.press("Control+Enter")
    await hands.page.wait_for_selector("#preview button:not([aria-disabled])")
    await hands.press("Control+Enter")
    assert (await task).text
    assert hands.desk.host.provider.requests[-1].messages[0].content.text == "Kindly: First"


async def grant(hands: Hands) -> None:
    """Ten more pass, and the one after them waits."""
    task = await hands.asked()
    await hands.press("g")
    await hands.page.wait_for_selector("[data-fold=grant] button:not([aria-disabled])")
    await hands.press("Control+Enter")
    await task
    for number in range(10):
        await hands.desk.host(request(f"Next {number}"), origin(f"next-{number}"))
    await hands.desk.asked(text="One more")


async def answer(hands: Hands) -> None:
    """Both fields, and it is sent from the last one."""
    id, task = await elicited(hands.desk, FORM)
    await hands.page.click(f"[data-row='{id}']")
    await hands.page.wait_for_selector(f"#detail[data-id='{id}']:not([inert])")
    await hands.page.wait_for_selector(ARMED)
    for name, text in (("field-0", "Ann"), ("field-1", "Oslo")):
        while await hands.page.evaluate("document.activeElement.name") != name:
            await hands.press("Tab")
            # Past the button that copies the question, at most.
            assert len(hands.pressed) <= 3
        await hands.write(text)
    await hands.press("Control+Enter")
    assert (await task).content == {"name": "Ann", "town": "Oslo"}


async def block(hands: Hands) -> None:
    """What is withdrawn was named before."""
    task = await hands.asked()
    await hands.press("b")
    await hands.page.wait_for_selector("#sure[open]")
    await hands.press("Tab")
    # In the order of the buttons: a browser's own controls come after the last one.
    assert await hands.page.evaluate("document.activeElement.matches('#sure button:last-child')")
    await hands.press("Enter")
    with pytest.raises(Rejected):
        await task
    assert len(await hands.desk.store.blocks()) == 1


async def yesterday(hands: Hands) -> None:
    """With its model and its cost."""
    question, task = await hands.desk.asked()
    await hands.desk.queue.decide(question.id, Approve(digest=digest(question.item.params)), hash=question.hash)
    await task
    hands.desk.running.page.site.clock = lambda: time.time() + 86_400
    await hands.press("y")
    await hands.page.wait_for_selector(".past tbody tr")
    row = await hands.page.inner_text(".past tbody tr")
    assert "scripted" in row
    assert "$0.00" in row


async def export(hands: Hands) -> None:
    """As a file of that day."""
    await yesterday(hands)
    async with hands.page.expect_download() as saved:
        await hands.press("E")
    download = await saved.value
    assert download.suggested_filename.endswith(".csv")
    assert "since=" in download.url


WALKS: dict[str, Callable[[Hands], Awaitable[None]]] = {
    "approve": approve,
    "deny with a reason": deny,
    "edit and approve": edit,
    "approve the next ten alike": grant,
    "answer a form": answer,
    "block the server": block,
    "find what was sent yesterday": yesterday,
    "export what was found": export,
}


def test_every_row_of_the_table_is_walked():
    """And no row is missing."""
    assert list(read_table()) == list(WALKS)


@pytest.mark.parametrize("action", WALKS)
async def test_the_table_names_the_keys_that_are_pressed(chromium: Browser, action: str):
    """As many as it says, in its order; several ``Tab`` in a row are one way from field to field."""
    async with desk() as page, visit(chromium, page) as seen:
        await seen.page.wait_for_selector("body[data-ready]", state="attached")
        hands = Hands(page, seen)
        await WALKS[action](hands)
        runs = [(key, len(list(run))) for key, run in groupby(hands.pressed)]
        assert [key for key, times in runs for _ in range(1 if key == "Tab" else times)] == read_table()[action]
