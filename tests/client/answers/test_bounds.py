"""What an ask has to be before an answerer sees it."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from antiphon.client.answers.answerers import MAX_FORM, MAX_TOKENS, admit_ask
from antiphon.errors import InvalidParams
from antiphon.wire.common import RequestParams
from antiphon.wire.content import TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import (
    MAX_BLOCKS,
    MAX_LIST,
    MAX_MESSAGES,
    MAX_TOOLS,
    CreateMessageRequestParams,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
)
from antiphon.wire.tools import Tool

HELLO = SamplingMessage(role="user", content=TextContent(text="hello"))
SAMPLE = CreateMessageRequestParams(messages=[HELLO], max_tokens=5)
USE = SamplingMessage(role="assistant", content=ToolUseContent(id="u", name="t", input={}))
RESULT = SamplingMessage(role="user", content=ToolResultContent(tool_use_id="u", content=[]))


def changed(**members: Any) -> CreateMessageRequestParams:
    """Make a request that differs from the good one."""
    return structs.replace(SAMPLE, **members)


def test_a_good_ask_is_passed_on_as_it_is() -> None:
    """The very object: nothing is copied."""
    for params in (SAMPLE, ElicitRequestParams.form("name?", {"type": "object", "properties": {}}), RequestParams()):
        assert admit_ask(params) is params


@pytest.mark.parametrize(
    ("params", "place"),
    [
        (changed(messages=[]), "messages"),
        (changed(messages=[HELLO] * (MAX_MESSAGES + 1)), "messages"),
        (changed(messages=[SamplingMessage(role="user", content=[TextContent(text="x")] * (MAX_BLOCKS + 1))]),
         "messages[0].content"),
        (changed(max_tokens=0), "maxTokens"),
        (changed(max_tokens=-5), "maxTokens"),
        (changed(tools=[Tool(name=str(n), input_schema={}) for n in range(MAX_TOOLS + 1)]), "tools"),
        (changed(stop_sequences=["x"] * (MAX_LIST + 1)), "stopSequences"),
        (changed(model_preferences=ModelPreferences(hints=[ModelHint()] * (MAX_LIST + 1))), "modelPreferences.hints"),
        (changed(messages=[HELLO, USE]), "messages[1].content.id"),
        (changed(messages=[HELLO, RESULT]), "messages[1].content.toolUseId"),
        (ElicitRequestParams.form("x" * MAX_FORM, {"type": "object"}), "params"),
        (ElicitRequestParams.visit("?", "https://example.com/" + "x" * MAX_FORM), "params"),
    ],
)  # fmt: skip
def test_a_bad_ask_is_refused_with_the_place(params: Any, place: str) -> None:
    """For every answerer, a plain function as well."""
    with pytest.raises(InvalidParams) as caught:
        admit_ask(params)
    assert caught.value.message.startswith(f"{place}:")
    assert caught.value.data == {"place": place}


@pytest.mark.parametrize(("wanted", "seen"), [(MAX_TOKENS, MAX_TOKENS), (10**9, MAX_TOKENS), (10**30, MAX_TOKENS)])
def test_no_answerer_is_asked_for_a_billion_tokens(wanted: int, seen: int) -> None:
    """The client may sample fewer tokens than are asked for (2025-11-25 client/sampling)."""
    admitted = admit_ask(changed(max_tokens=wanted))
    assert isinstance(admitted, CreateMessageRequestParams)
    assert admitted.max_tokens == seen


@pytest.mark.parametrize(
    ("wanted", "offered", "seen"),
    [
        ("thisServer", False, None),
        ("allServers", False, None),
        ("none", False, "none"),
        ("thisServer", True, "thisServer"),
    ],
)
def test_context_that_is_not_offered_is_not_seen(wanted: Any, offered: bool, seen: str | None) -> None:
    """It is ignored, as if it had not been asked for."""
    admitted = admit_ask(changed(include_context=wanted), offers_context=offered)
    assert isinstance(admitted, CreateMessageRequestParams)
    assert admitted.include_context == seen
