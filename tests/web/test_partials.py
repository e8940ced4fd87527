"""Answers while they come, in the stream of a page."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator

from antiphon.host.pipeline.growth import Partial
from antiphon.host.store.base import PartialRow
from antiphon.wire.envelope import encode_value
from tests.web.pages import Desk, desk


async def keep(page: Desk, text: str, **more) -> None:
    """Let an answer grow, as a host would."""
    body = Partial(target="python a.py", name="a.py", call="describe", model="opus", text=text, **more)
    row = PartialRow(id="r", host="h", began=1.0, body=encode_value(body).decode())
    await page.store.keep_partial(row)


async def shown(lines: AsyncIterator[str]) -> str:
    """Wait for the next news of answers in a stream."""
    async for line in lines:
        if line == "event: partials":
            return json.loads((await anext(lines)).removeprefix("data: "))["html"]
    raise AssertionError


async def test_the_stream_tells_of_an_answer_while_it_comes():
    """Whose it is, how much has come, and its text, made inert; then that there is none any more."""
    async with desk() as page, page.client.stream("GET", "/live") as answer:
        lines = answer.aiter_lines()
        await keep(page, "A <b>warm</b>\u202e sweater")
        first = await shown(lines)
        assert "A &lt;b&gt;warm&lt;/b&gt;\u27e6U+202E\u27e7 sweater</pre>" in first
        for text in ("opus", "a.py", "describe", "22 characters so far", 'data-partial="r"'):
            assert text in first
        await keep(page, "A warm sweater of fine wool", omitted=1_000)
        second = await shown(lines)
        assert "of fine wool" in second
        assert "1,027 characters so far" in second
        await page.store.drop_partial("r")
        assert "article" not in await shown(lines)


async def test_an_answer_that_is_too_fast_says_so():
    """Instead of a text that would not be its end."""
    async with desk() as page, page.client.stream("GET", "/live") as answer:
        lines = answer.aiter_lines()
        await keep(page, "", cut=True)
        assert "too fast to be shown" in await shown(lines)


async def test_an_open_page_is_somebody_who_looks():
    """From the moment it listens."""
    async with desk() as page:
        assert not await page.store.watched()
        async with page.client.stream("GET", "/live") as answer:
            lines = answer.aiter_lines()
            async for line in lines:
                if line.startswith("event"):
                    break
            assert await page.store.watched()


async def test_every_page_has_a_place_for_them():
    """Hidden while there is none, and named for what it is."""
    async with desk() as page:
        shown = (await page.get("/history")).text
        assert '<aside id="partials" class="partials" aria-labelledby="partials-title" hidden>' in shown
        assert "not finished, not sent yet" in shown
