"""Texts that are too long to be drawn at once: their beginning, and the way to the rest, piece by piece."""

from __future__ import annotations

import html
import re

import pytest

from antiphon.web.render import PIECE
from tests.host.asks import says
from tests.web.pages import desk

TEXT = re.compile(r"<pre[^>]*>\n(.*?)</pre>\s*(?:<p class=\"rest\"><a[^>]* href=\"([^\"]+)\")?", re.DOTALL)
WORDS = "".join(f"word {at} " for at in range(12_000))


async def pieces(page, shown: str, link: str) -> str:
    """Read a text to its end, as its links lead."""
    read = ""
    while True:
        found = TEXT.search(shown)
        assert found
        read += html.unescape(found[1])
        if not found[2]:
            return read
        assert found[2].startswith(link)
        shown = (await page.get(html.unescape(found[2]))).text
        shown = shown[shown.index('id="piece"') :]


async def test_a_long_text_is_drawn_in_pieces_that_make_it_up():
    """Nothing is left out, nothing twice; the page itself has the first piece."""
    async with desk() as page:
        question, _ = await page.asked(messages=[says("Short"), says(WORDS)])
        shown = (await page.get(f"/review/{question.id}")).text
        assert "11999" not in shown
        second = shown[shown.index("Short</pre>") :]
        assert await pieces(page, second, f"/review/{question.id}/text/request-1-0") == WORDS


@pytest.mark.parametrize("key", ["system", "raw", "tools-0", "request-0-0"])
async def test_every_text_of_a_request_has_an_address(key: str):
    """And no other has: one that is not there, or a place behind its end."""
    from antiphon.wire.tools import Tool

    tool = Tool(name="t", input_schema={"type": "object"}, description=WORDS)
    async with desk() as page:
        question, _ = await page.asked(text=WORDS, system_prompt=WORDS, tools=[tool])
        at = f"/review/{question.id}/text/{key}"
        first = (await page.get(at)).text
        assert f"{at}?from={PIECE}" in first
        assert (await page.get(f"{at}?from={PIECE}")).status_code == 200
        for other in (f"{at}x", f"{at}?from=99999999", f"/review/none/text/{key}"):
            assert (await page.get(other)).status_code == 404


async def test_what_looks_like_a_secret_is_marked_in_every_piece():
    """Also where a piece ends in the middle of it."""
    text = "x " * (PIECE // 2 - 5) + "AKIAIOSFODNN7EXAMPLE " + "y " * 100
    async with desk() as page:
        question, _ = await page.asked(text=text)
        shown = (await page.get(f"/review/{question.id}")).text
        assert '<mark class="risky">AKIAIOSFOD</mark>' in shown
        rest = (await page.get(f"/review/{question.id}/text/request-0-0?from={PIECE}")).text
        assert '<mark class="risky">NN7EXAMPLE</mark>' in rest


async def test_a_long_text_that_was_kept_is_read_to_its_end():
    """In the record of decisions as well, with its answer."""
    from antiphon.host import MemoryStore, Scripted

    async with desk(provider=Scripted([WORDS]), store=MemoryStore(keep_content=True), keep_content=True) as page:
        question, task = await page.asked(text=WORDS)
        await page.post(f"/review/{question.id}/approve", page.about(question))
        await task
        found = re.search(r'href="(/history/\d+)"', (await page.get("/history")).text)
        assert found
        shown = (await page.get(found[1])).text
        assert await pieces(page, shown, f"{found[1]}/text/request/request-0-0") == WORDS
        answer = shown[shown.index('id="answer-title"') :]
        assert await pieces(page, answer, f"{found[1]}/text/answer/answer-0-0") == WORDS
        assert (await page.get("/history/999/text/request/system")).status_code == 404
