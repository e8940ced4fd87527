"""The same hostile texts as in the browser, at the terminal: nothing of them reaches it as control."""

from __future__ import annotations

import asyncio
from unicodedata import category

import pytest

from antiphon.cli.commands.review.queue_list import draw_list, draw_question, make_layout
from antiphon.host import MemoryStore, Queue, ReviewItem
from antiphon.host.checks.risk import assess_elicitation, assess_risks
from antiphon.host.checks.visible import count_hidden
from antiphon.host.review.review import ElicitItem
from antiphon.wire.common import Implementation
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.origin import Origin, OriginCall, identify_target
from antiphon.wire.tools import Tool
from tests.host.asks import CHOICES, request
from tests.web.hostile import HOSTILE


def find_ask_method(text: str) -> Origin:
    """Have a text everywhere a server, or a call to it, can put one."""
    call = OriginCall(id="call", method="tools/call", name=text, arguments={text: text})
    return Origin(
        id="1", identity=identify_target([text]), target=text, server=Implementation(name=text, version=text), call=call
    )


def sampling(text: str) -> ReviewItem:
    """Ask for a completion with it."""
    tool = Tool(name="t", description=text, input_schema={"type": "object", "description": text})
    sent = request(text, system_prompt=text, tools=[tool], stop_sequences=[text], metadata={text: text})
    who = find_ask_method(text)
    return ReviewItem(
        origin=who,
        params=sent,
        received=request("another", system_prompt=text),
        provider=text,
        choices=CHOICES,
        risks=tuple(assess_risks(sent, who)),
        model=text,
        models=(text, "plain"),
    )


def form(text: str) -> ElicitItem:
    """Ask a person with it; longer forms are refused before anybody is asked."""
    text = text[:30_000]
    field = {"type": "string", "title": text, "description": text, "default": text}
    params = ElicitRequestParams.form(text, {"properties": {text: field}})
    who = find_ask_method(text)
    return ElicitItem(origin=who, params=params, risks=tuple(assess_elicitation(params, who)))


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_nothing_hidden_reaches_the_terminal(text: str):
    """In the list, in a request and in a form: only what can be seen, and the marks of what cannot."""
    queue = Queue(MemoryStore())
    waiting = [asyncio.create_task(queue.review(sampling(text))), asyncio.create_task(queue.elicit(form(text)))]
    async for _ in queue.changes():
        questions = await queue.pending()
        if len(questions) == len(waiting):
            break
    rows = [row for entry in draw_list(questions, make_layout(), 0.0) for row in entry]
    for question in questions:
        rows += draw_question(question, make_layout(), 0.0)
    assert rows
    for row in rows:
        assert not any(category(char) == "Cc" for char in row), row
        # What joins an emoji is no mark, and may stand at the end of a row.
        assert set(count_hidden(row)) <= {"zero-width", "variation"}, row
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
