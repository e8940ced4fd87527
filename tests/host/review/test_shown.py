"""What is shown of a question: all of it, in order."""

from __future__ import annotations

import msgspec

from antiphon.host.review.review import ToolItem
from antiphon.host.review.shown import shape_of, show
from antiphon.wire.content import (
    TextContent,
)
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult, ModelHint, ModelPreferences, ToolChoice
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin, request
from tests.host.review.questions import form, question

TOOL = Tool(name="look", input_schema={"type": "object"})


def test_every_member_of_a_request_is_shown():
    """Tokens, temperature, stops, choice of tools, hints, priorities, metadata."""
    params = request(
        temperature=0.5,
        stop_sequences=["END"],
        tools=[TOOL],
        tool_choice=ToolChoice(mode="auto"),
        model_preferences=ModelPreferences(hints=[ModelHint(name="fast")], cost_priority=1, speed_priority=0),
        metadata={"a": 1},
    )
    assert dict(show(question(params)).facts) == {
        "fact.max_tokens": "100",
        "fact.temperature": "0.5",
        "fact.stop": '["END"]',
        "fact.tool_choice": "auto",
        "fact.hints": '["fast"]',
        "fact.cost": "1",
        "fact.speed": "0",
        "fact.metadata": '{"a":1}',
    }


def test_an_answer_is_shown_with_its_own_digest():
    """What is approved then is the answer, not the request."""
    result = CreateMessageResult(role="assistant", content=TextContent(text="so"), model="m")
    shown = show(question(result=result))
    assert (shown.answer_text, shown.answer.parts[0].text) == ("so", "so")
    assert shown.digest != show(question()).digest


def test_a_call_of_a_tool_is_shown_with_what_the_server_says_of_it():
    """What will be sent, and the definition."""
    item = ToolItem(
        origin=origin(tool=TOOL),
        params=CallToolRequestParams(name="look", arguments=msgspec.Raw(b'{"at":"it"}')),
        choices=frozenset({"approve", "deny"}),
    )
    shown = show(msgspec.structs.replace(question(), kind="tool", item=item))
    assert '"at": "it"' in shown.arguments
    assert '"look"' in shown.tool


def test_only_a_plain_address_is_a_link():
    """Https, in letters that look like themselves, without a user name before the host."""
    opens = {
        url: show(form(ElicitRequestParams.visit("Go", url))).opens
        for url in (
            "https://example.com/a?b",
            "http://example.com/",
            "https://good.example@evil.example/",
            "https://ex\u0430mple.com/",
            "javascript:alert(1)",
            "https://a b/",
        )
    }
    assert list(opens.values()) == [True, False, False, False, False, False]


def test_a_form_that_cannot_be_read_is_still_shown():
    """The host refuses it before; what was kept all the same is not a fault of the page."""
    broken = ElicitRequestParams.form("?", {"properties": {"a": {"type": "nothing"}}})
    assert show(form(broken)).fields == ()


def test_what_is_over_is_not_there():
    """Its content is gone with the decision."""
    assert show(msgspec.structs.replace(question(), item=None)) is None


def test_only_the_same_server_prompt_and_tools_are_alike():
    """Other texts and fewer tokens are alike; another system prompt, tool or server is not."""
    base = shape_of(question())
    assert base == shape_of(question(request("Another", max_tokens=5)))
    assert base != shape_of(question(request(system_prompt="Be rude")))
    assert base != shape_of(question(request(tools=[TOOL])))
    assert base != shape_of(question(who=origin(command=["other"])))
    assert shape_of(form(ElicitRequestParams.visit("Go", "https://example.com"))) is None
