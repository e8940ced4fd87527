"""From what an author writes to a sampling request, and from the answer to what an author reads."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import LocalProtocolError
from antiphon.server.sampling import Sample, sampling_params
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from antiphon.wire.tools import Tool

DEFAULTS: dict[str, Any] = {
    "system_prompt": None, "max_tokens": 10, "temperature": None, "stop_sequences": None, "model_preferences": None,
    "include_context": None, "metadata": None, "tools": None, "tool_choice": None,
}  # fmt: skip


def params(messages: Any = "hello", **options: Any) -> CreateMessageRequestParams:
    """Build params of what is given."""
    return sampling_params(messages, **{**DEFAULTS, **options})


def assistant(text: str) -> SamplingMessage:
    """Make a message of the model's."""
    return SamplingMessage(role="assistant", content=TextContent(text=text))


def test_a_string_is_a_message_of_the_users() -> None:
    """The shortest form."""
    (message,) = params("hello").messages
    assert (message.role, message.text) == ("user", "hello")


def test_strings_and_messages_may_be_mixed() -> None:
    """In the order given."""
    messages = params(["a", assistant("b"), "c"]).messages
    assert [(one.role, one.text) for one in messages] == [("user", "a"), ("assistant", "b"), ("user", "c")]


def test_one_message_is_a_conversation() -> None:
    """Without a list around it."""
    assert params(assistant("b")).messages == [assistant("b")]


@pytest.mark.parametrize("nothing", [[], ()])
def test_an_empty_conversation_is_refused(nothing: Any) -> None:
    """Before anything is sent."""
    with pytest.raises(LocalProtocolError, match="messages must not be empty"):
        params(nothing)


@pytest.mark.parametrize("count", [0, -1])
def test_an_answer_has_at_least_one_token(count: int) -> None:
    """Before anything is sent."""
    with pytest.raises(LocalProtocolError, match="max_tokens must be at least 1"):
        params(max_tokens=count)


def test_a_tool_choice_must_be_one_of_three() -> None:
    """The error names them."""
    with pytest.raises(LocalProtocolError, match='"auto", "required" or "none"'):
        params(tool_choice="maybe")


@pytest.mark.parametrize("given", ["required", ToolChoice(mode="required")])
def test_a_tool_choice_may_be_a_word(given: Any) -> None:
    """Or what travels."""
    assert params(tool_choice=given).tool_choice == ToolChoice(mode="required")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("sonnet", ModelPreferences(hints=[ModelHint(name="sonnet")])),
        (["a", "b"], ModelPreferences(hints=[ModelHint(name="a"), ModelHint(name="b")])),
        (ModelPreferences(cost_priority=1), ModelPreferences(cost_priority=1)),
    ],
)
def test_preferences_may_be_names(given: Any, expected: Any) -> None:
    """One, several, or the full form."""
    assert params(model_preferences=given).model_preferences == expected


def test_everything_else_goes_as_it_is() -> None:
    """Nothing is dropped."""
    tool = Tool(name="t", input_schema={"type": "object"})
    made = params(
        system_prompt="s",
        temperature=0.5,
        stop_sequences=("x",),
        include_context="none",
        metadata={"k": 1},
        tools=[tool],
    )
    assert (made.system_prompt, made.temperature, made.stop_sequences) == ("s", 0.5, ["x"])
    assert (made.include_context, made.metadata, made.tools) == ("none", {"k": 1}, [tool])


def sample(*content: Any, **members: Any) -> Sample:
    """Make a sample of blocks."""
    result = CreateMessageResult(role="assistant", content=list(content), model="m", **members)
    return Sample([SamplingMessage(role="user", content=TextContent(text="q"))], result)


def test_the_text_of_a_sample_is_all_its_text() -> None:
    """Joined by newlines."""
    assert sample(TextContent(text="a"), TextContent(text="b")).text == "a\nb"


def test_one_block_is_a_list_of_one() -> None:
    """However it travelled."""
    block = TextContent(text="a")
    assert Sample([], CreateMessageResult(role="assistant", content=block, model="m")).content == [block]


def test_a_sample_tells_model_and_stop_reason() -> None:
    """By the client's names."""
    one = sample(TextContent(text="a"), stop_reason="maxTokens")
    assert (one.model, one.stop_reason) == ("m", "maxTokens")
    assert sample(TextContent(text="a")).stop_reason is None
    assert repr(one) == "Sample(model='m', stop_reason='maxTokens', text='a')"


def test_tool_uses_are_picked_out() -> None:
    """In order, the text beside."""
    uses = [ToolUseContent(id=str(n), name="t", input={}) for n in range(2)]
    one = sample(uses[0], TextContent(text="a"), uses[1])
    assert one.tool_uses == uses
    assert one.text == "a"


def test_the_conversation_can_be_continued() -> None:
    """The question, then the answer."""
    one = sample(TextContent(text="a"))
    assert [(message.role, message.text) for message in one.messages] == [("user", "q"), ("assistant", "a")]
    assert len(params([*one.messages, "and?"]).messages) == 3
