"""Texts that want to run, to call home or to hide, in a real browser: they are text, and nothing happens."""

from __future__ import annotations

import asyncio

import pytest
from playwright.async_api import Browser

from antiphon.host import ReviewItem
from antiphon.host.checks.risk import assess_elicitation, assess_risks
from antiphon.host.checks.visible import make_inert
from antiphon.host.review.review import ElicitItem
from antiphon.web.render import PIECE
from antiphon.wire.common import Implementation
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin, OriginCall, identify_target
from antiphon.wire.tools import Tool
from tests.browser.visits import visit
from tests.host.asks import CHOICES, request
from tests.web.hostile import HOSTILE
from tests.web.pages import desk

pytestmark = pytest.mark.browser


def find_ask_method(text: str, number: int) -> Origin:
    """Have a text everywhere a server, or a call to it, can put one."""
    call = OriginCall(id=f"call-{number}", method="tools/call", name=text, arguments={text: text})
    server = Implementation(name=text, version=text)
    return Origin(id=str(number), identity=identify_target([text]), target=text, server=server, call=call)


def sampling(text: str, number: int) -> ReviewItem:
    """Ask for a completion with it."""
    tool = Tool(name="t", description=text, input_schema={"type": "object", "description": text})
    sent = request(text, system_prompt=text, tools=[tool], stop_sequences=[text], metadata={text: text})
    who = find_ask_method(text, number)
    received = request("another", system_prompt=text, metadata={"k": text})
    return ReviewItem(
        origin=who,
        params=sent,
        received=received,
        provider=text,
        choices=CHOICES,
        risks=tuple(assess_risks(sent, who)),
        model=text,
        models=(text, "plain"),
    )


def form(text: str, number: int) -> ElicitItem:
    """Ask a person with it."""
    field = {"type": "string", "title": text, "description": text, "default": text}
    choice = {"type": "string", "enum": [text, "plain"], "title": text}
    params = ElicitRequestParams.form(text, {"properties": {text: field, "c": choice}})
    who = find_ask_method(text, number)
    return ElicitItem(origin=who, params=params, risks=tuple(assess_elicitation(params, who)))


def test_the_corpus_is_large_enough():
    """At least sixty texts, no two alike."""
    assert len(set(HOSTILE)) == len(HOSTILE) >= 60


@pytest.mark.parametrize(("language", "texts"), [("en", HOSTILE), ("zh", HOSTILE[::4])], ids=["en", "zh"])
async def test_every_text_is_shown_as_text(chromium: Browser, language: str, texts: list[str]):
    """Each is seen whole, with marks for what cannot be seen; no dialog, no script, no request to anywhere else."""
    async with desk() as page, visit(chromium, page, locale=language) as seen:
        queue = page.queue
        waiting = [asyncio.create_task(queue.review(sampling(text, at))) for at, text in enumerate(texts)]
        await seen.count(len(texts))
        shown = {question.item.params.messages[0].text: question.id for question in await queue.pending()}
        for text in texts:
            await seen.page.click(f"[data-row='{shown[text]}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{shown[text]}']")
            found = await seen.page.text_content("#detail .turn pre")
            assert found == make_inert(text[:PIECE])
        assert await seen.page.evaluate("window.ran") is None
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


async def test_every_text_is_inert_in_forms_edits_and_previews(chromium: Browser):
    """In a form to fill in, in the form that edits a request and in its preview, a text is a text as well."""
    async with desk() as page, visit(chromium, page) as seen:
        queue = page.queue
        waiting = [asyncio.create_task(queue.elicit(form(text, at))) for at, text in enumerate(HOSTILE[::2])]
        waiting += [asyncio.create_task(queue.review(sampling(text, at))) for at, text in enumerate(HOSTILE[1::6])]
        await seen.count(len(waiting))
        for question in await queue.pending():
            await seen.page.click(f"[data-row='{question.id}']")
            await seen.page.wait_for_selector(f"#detail[data-id='{question.id}']")
            if question.kind == "request":
                await seen.page.click("[data-edit]")
                await seen.page.click("[data-preview] button.primary")
                await seen.page.wait_for_selector("#preview-title")
        assert await seen.page.evaluate("window.ran") is None
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
