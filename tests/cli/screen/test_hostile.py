"""A hostile server's words are shown inertly: nothing is obeyed, nothing interpreted, nothing left out."""

from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest
from rich.segment import Segment

from antiphon.cli.screen.drawn.document import Document
from antiphon.cli.screen.drawn.pieces import quoted
from antiphon.cli.screen.views import RowsView
from antiphon.host.checks.visible import hidden, inert
from antiphon.host.review.review import ElicitItem, ReviewItem, ToolItem
from antiphon.wire.common import Implementation
from antiphon.wire.content import ImageContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.cli.screen.hostile import ALL
from tests.cli.screen.reviewing import Reviewing, asking, reviewing
from tests.host.asks import CHOICES, origin, request, says

PARTS = [ALL[start::16] for start in range(16)]


def harmless(segments: list[Segment]) -> None:
    """Hold that a terminal obeys nothing of what is drawn, and that no text became a link or an action."""
    for segment in segments:
        assert segment.control is None
        assert hidden(segment.text) == {}, segment
        assert "\n" not in segment.text
        style = segment.style
        assert style is None or (not style.link and "@click" not in style.meta), segment


def drawn(review: Reviewing) -> list[Segment]:
    """Collect all that is on the terminal."""
    strips = review.app.screen._compositor.render_strips()
    return [segment for strip in strips for segment in strip]


def from_everywhere(text: str) -> Origin:
    """Say it in all that a server, or its configuration, says of itself."""
    call = {"method": "tools/call", "name": text[:200], "arguments": {text[:50]: text[:500]}, "id": "call-1"}
    made = msgspec.to_builtins(origin())
    tool = Tool(name=text[:100], description=text, input_schema={"title": text[:500]})
    return msgspec.structs.replace(
        msgspec.convert({**made, "call": call}, Origin),
        target=text[:500],
        server=Implementation(name=text[:200], version=text[:200]),
        tool=tool,
    )


def items(text: str) -> list[Any]:
    """Ask it in every way."""
    who = from_everywhere(text)
    tools = [Tool(name=text[:100], description=text[:1000], input_schema={"description": text[:1000]})]
    turns = [
        says(text),
        SamplingMessage(
            role="assistant", content=ToolUseContent(id=text[:50], name=text[:50], input={"a": text[:500]})
        ),
        SamplingMessage(
            role="user", content=[ToolResultContent(tool_use_id=text[:50], content=[says(text[:500]).blocks[0]])]
        ),
        SamplingMessage(role="user", content=ImageContent(data="AAAA", mime_type=text[:100])),
    ]
    params = request(messages=turns, system_prompt=text, tools=tools, stop_sequences=[text[:50]], metadata={"a": text})
    schema = {
        "properties": {
            text[:40]: {"type": "string", "title": text[:300], "description": text[:300], "default": text[:300]},
            "pick": {"type": "string", "enum": [text[:300], "b"], "default": text[:300]},
        }
    }
    told = {"expires_in": 600.0, "origin": who}
    return [
        ReviewItem(params=params, received=request(text[:3000]), provider="echo", choices=CHOICES, **told),
        ElicitItem(params=ElicitRequestParams.form(text, schema), **told),
        ElicitItem(params=ElicitRequestParams.visit(text, text[:2000]), **told),
        ToolItem(params=CallToolRequestParams.of(text[:100], {text[:50]: text}), choices=CHOICES, **told),
    ]


@pytest.mark.parametrize("texts", PARTS)
async def test_a_hostile_prompt_is_inert_on_the_whole_screen(texts: list[str]):
    """In the queue, in what is asked, and in who asks; all of it is there, as text."""
    async with asking() as desk:
        await desk.put_all(texts, system="Be [bold]brief[/bold].")
        async with reviewing(desk.store, size=(100, 30)) as review:
            for text in texts:
                await review.until(lambda wanted=text: _is_shown(review, wanted))
                harmless(drawn(review))
                await review.ready()
                if not _has(review, text):
                    review.type("f")
                await review.until(lambda wanted=text: _has(review, wanted))
                harmless(drawn(review))
                review.type("j")
        assert review.app.failure is None


def _is_shown(review: Reviewing, text: str) -> bool:
    shown = review.stage.shown
    return shown is not None and shown.turns[0].parts[0].text == text


def _has(review: Reviewing, text: str) -> bool:
    document = review.stage.query_one("#request", RowsView).document
    rows = [document.row(at) for at in range(len(document))]
    quoted_text = "".join(row.text for row in rows if row.lead.endswith("│ "))
    return inert(text).replace("\n", "") in quoted_text.replace("\n", "")


@pytest.mark.parametrize("number", range(4))
async def test_hostile_words_are_inert_wherever_they_stand(number: int):
    """As a system prompt, a tool, an argument, a field, an address, a name; in the forms as well."""
    texts = [text for text in ALL if len(text) < 400][::9]
    async with asking() as desk:
        for text in texts[:4]:
            item = items(text)[number]
            ask = desk.queue.confirm if number == 3 else desk.queue.review if number == 0 else desk.queue.elicit
            await desk.waits(ask(item))
        async with reviewing(desk.store, size=(100, 30)) as review:
            for _ in texts[:4]:
                document = review.stage.query_one("#request", RowsView).document
                rows = [document.row(at) for at in range(len(document))]
                assert all(hidden(row.lead + row.text) == {} for row in rows)
                harmless(drawn(review))
                if number == 1:
                    await review.press("a", sees="Esc")
                    harmless(drawn(review))
                    review.type("escape")
                    await review.until(lambda: review.app.screen is review.stage)
                await review.pilot.press("x", "j")
        assert review.app.failure is None


def test_nothing_of_a_text_is_lost_by_wrapping():
    """Whatever the width: rows joined are the inert text."""
    for text in ALL:
        for width in (17, 40, 80):
            document = Document([quoted(text)], width)
            rows = [document.row(at) for at in range(len(document))]
            assert "".join(row.text for row in rows) == inert(text).replace("\n", "")
            assert all(row.lead == " │ " for row in rows)


def test_there_are_enough_of_them():
    """Of every kind."""
    assert len(ALL) >= 90
    assert any(re.search(r"\[@click", text) for text in ALL)
