"""From what an author writes to a sampling request, and what an author reads of its answer."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import LocalProtocolError, ToolError
from antiphon.server.asks.sample import Sample, sampling_params
from antiphon.wire.content import AudioContent, ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
    check_conversation,
)
from antiphon.wire.tools import Tool


def sample(*content: Any, **members: Any) -> Sample[None]:
    """Make a sample of blocks."""
    answer = CreateMessageResult(role="assistant", content=list(content), model="m", **members)
    asked = SamplingMessage(role="user", content=TextContent(text="q"))
    return Sample([asked, SamplingMessage(role="assistant", content=answer.content)], answer, None)


def use(id: str) -> ToolUseContent:
    """Make a use of a tool."""
    return ToolUseContent(id=id, name="t", input={})


def test_the_text_of_a_sample_is_all_its_text() -> None:
    """Joined by newlines."""
    assert sample(TextContent(text="a"), TextContent(text="b")).text == "a\nb"


def test_one_block_is_a_list_of_one() -> None:
    """However it travelled."""
    block = TextContent(text="a")
    assert Sample([], CreateMessageResult(role="assistant", content=block, model="m"), None).content == [block]


def test_a_sample_tells_model_and_stop_reason() -> None:
    """By the client's names."""
    one = sample(TextContent(text="a"), stop_reason="maxTokens")
    assert (one.model, one.stop_reason, one.by, one.turns) == ("m", "maxTokens", "client", 1)
    assert sample(TextContent(text="a")).stop_reason is None
    assert repr(one) == "Sample(model='m', stop_reason='maxTokens', text='a')"


def test_a_value_is_shown() -> None:
    """Where there is one."""
    answer = CreateMessageResult(role="assistant", content=TextContent(text="1"), model="m")
    assert repr(Sample([], answer, 1)) == "Sample(model='m', stop_reason=None, text='1', value=1)"


def test_tool_uses_are_picked_out() -> None:
    """In order, the text beside."""
    one = sample(use("0"), TextContent(text="a"), use("1"))
    assert one.tool_uses == [use("0"), use("1")]
    assert one.text == "a"


def test_results_of_any_kind_answer_the_uses() -> None:
    """In the order of the uses, in a message that holds nothing else."""
    picture = ImageContent.of(b"p", "image/png")
    one = sample(*[use(id) for id in "abcde"])
    messages = one.with_results({"b": {"n": 1}, "a": "text", "c": picture, "d": ToolError("no such thing"), "e": None})
    check_conversation(messages)
    assert messages[:-1] == one.messages
    results = [block for block in messages[-1].blocks if isinstance(block, ToolResultContent)]
    assert [(result.tool_use_id, result.is_error) for result in results] == [
        ("a", False), ("b", False), ("c", False), ("d", True), ("e", False),
    ]  # fmt: skip
    assert [result.text for result in results] == ["text", '{"n":1}', "", "no such thing", "null"]
    assert results[2].content == [picture]


@pytest.mark.parametrize(("given", "problem"), [({}, r"no result for \['a'\]"), ({"a": 1, "b": 2}, r"no use \['b'\]")])
def test_every_use_is_answered_and_nothing_else(given: Any, problem: str) -> None:
    """A conversation that could not be sent is not made."""
    with pytest.raises(LocalProtocolError, match=problem):
        sample(use("a")).with_results(given)


def params(messages: Any = "hello", **options: Any) -> CreateMessageRequestParams:
    """Build params of what is given."""
    return sampling_params(messages, **options)


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
    tool = Tool(name="t", input_schema={"type": "object"})
    assert params(tool_choice=given, tools=[tool]).tool_choice == ToolChoice(mode="required")


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        ("sonnet", ModelPreferences(hints=[ModelHint(name="sonnet")])),
        (["a", "b"], ModelPreferences(hints=[ModelHint(name="a"), ModelHint(name="b")])),
        (ModelPreferences(cost_priority=1), ModelPreferences(cost_priority=1)),
        (
            {"cost": 0.3, "speed": 1, "intelligence": 0},
            ModelPreferences(cost_priority=0.3, speed_priority=1, intelligence_priority=0),
        ),
        ({"cost": 0.3, "hints": "sonnet"}, ModelPreferences(cost_priority=0.3, hints=[ModelHint(name="sonnet")])),
        ({"hints": ["a", "b"]}, ModelPreferences(hints=[ModelHint(name="a"), ModelHint(name="b")])),
    ],
)
def test_preferences_may_be_names(given: Any, expected: Any) -> None:
    """One, several, priorities in short, or the full form."""
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


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"cost": 1.1}, "the cost priority must be from 0 to 1, got 1.1"),
        ({"speed": -0.1}, "the speed priority must be from 0 to 1"),
        ({"intelligence": float("nan")}, "the intelligence priority must be from 0 to 1"),
        ({"cost": True}, "the cost priority must be from 0 to 1"),
        ({"cost": "high"}, "the cost priority must be from 0 to 1"),
        (ModelPreferences(cost_priority=2), "the cost priority must be from 0 to 1"),
        ({"price": 0.5}, 'unknown \'price\'; known are "cost", "speed", "intelligence"'),
        ([1], "a model's name is text, got 1"),
    ],
)
def test_preferences_out_of_range_are_refused(given: Any, message: str) -> None:
    """Before anything is sent; the error says what may be."""
    with pytest.raises(LocalProtocolError, match=message):
        params(model_preferences=given)


def test_blocks_are_messages_of_the_users() -> None:
    """Each is a message of its own, which every revision can carry."""
    picture, sound = ImageContent.of(b"p", "image/png"), AudioContent.of(b"s", "audio/wav")
    messages = params(["What is this?", picture, sound]).messages
    assert [(one.role, one.content) for one in messages[1:]] == [("user", picture), ("user", sound)]
    assert params(picture).messages == [SamplingMessage(role="user", content=picture)]


@pytest.mark.parametrize("given", [[1], [b"bytes"], {"role": "user"}])
def test_what_is_no_message_is_refused(given: Any) -> None:
    """The error says where it is and what may be there."""
    with pytest.raises(LocalProtocolError, match=r"messages\[0\] is a \w+: give text, a SamplingMessage, or a block"):
        params([given])


@pytest.mark.parametrize("temperature", [float("nan"), float("inf")])
def test_a_temperature_is_a_number(temperature: float) -> None:
    """JSON has no others."""
    with pytest.raises(LocalProtocolError, match="temperature must be a finite number"):
        params(temperature=temperature)


def test_tools_that_must_be_used_must_be_there() -> None:
    """A model could not answer."""
    with pytest.raises(LocalProtocolError, match="needs tools="):
        params(tool_choice="required")


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([ToolResultContent(tool_use_id="1", content=[])], r"messages\[0\].content.toolUseId: answers no tool_use"),
        (["q", ToolUseContent(id="1", name="t", input={})], r"messages\[1\].content: a tool_use may only come from"),
    ],
)
def test_a_conversation_that_breaks_a_rule_is_refused(messages: Any, place: str) -> None:
    """Before anything is sent; the place is named."""
    with pytest.raises(LocalProtocolError, match=place):
        params(messages)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"max_tokens": "5"}, "max_tokens must be at least 1, and a whole number, got '5'"),
        ({"max_tokens": 2.5}, "max_tokens"),
        ({"max_tokens": None}, "max_tokens"),
        ({"system_prompt": 5}, "system_prompt must be text, got 5"),
        ({"temperature": "hot"}, "temperature must be a finite number"),
        ({"stop_sequences": "END"}, "stop_sequences must be a list of texts, got 'END'"),
        ({"metadata": 5}, "metadata must be a mapping"),
        ({"include_context": "all"}, "include_context must be"),
        ({"model_preferences": 5}, "model_preferences must be"),
    ],
)
def test_an_argument_of_another_kind_is_named(wrong: dict[str, Any], why: str) -> None:
    """Before anything is sent; and a text is not taken for a list of its letters."""
    with pytest.raises(LocalProtocolError, match=why):
        params(**wrong)


@pytest.mark.parametrize("wrong", [None, 5, b"text", {"role": "user", "content": "text"}])
def test_what_is_no_conversation_is_named(wrong: Any) -> None:
    """A mapping is not taken for a list of its keys."""
    with pytest.raises(LocalProtocolError, match=f"messages is a {type(wrong).__name__}: give text"):
        params(wrong)
