"""Sampling messages and results."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.errors import InvalidParams
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent, ToolUseContent, UnknownContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ModelPreferences,
    SamplingMessage,
    check_conversation,
)

A, B = TextContent.of("a"), TextContent.of("b")


@pytest.mark.parametrize(
    ("content", "blocks", "text"),
    [(A, [A], "a"), ([A, B], [A, B], "a\nb"), ([], [], ""), (UnknownContent("x", {}), [UnknownContent("x", {})], "")],
)
def test_content_is_a_block_or_a_list(content, blocks, text):
    """Both are read alike, and written as they were."""
    for value in (
        SamplingMessage(role="user", content=content),
        CreateMessageResult(role="assistant", model="m", content=content),
    ):
        assert value.blocks == blocks
        assert value.text == text
        assert decode_wire(encode_value(value), type(value)) == value


def test_messages_are_required_even_when_empty():
    """Whether none is enough is for the host to say."""
    assert encode_value(CreateMessageRequestParams(messages=[], max_tokens=1)) == b'{"messages":[],"maxTokens":1}'


def test_a_priority_of_zero_is_a_priority():
    """0 is not absent."""
    assert encode_value(ModelPreferences(cost_priority=0)) == b'{"costPriority":0}'


def says(text: str, role: str = "user") -> SamplingMessage:
    """Make a message of text."""
    return SamplingMessage(role=role, content=TextContent(text=text))


def uses(*ids: str, role: str = "assistant") -> SamplingMessage:
    """Make a message that uses a tool once for each id."""
    return SamplingMessage(role=role, content=[ToolUseContent(id=each, name="f", input={}) for each in ids])


def results(*ids: str, role: str = "user") -> SamplingMessage:
    """Make a message that answers these uses."""
    blocks = [ToolResultContent(tool_use_id=each, content=[TextContent(text="ok")]) for each in ids]
    return SamplingMessage(role=role, content=blocks)


def refused(*messages: SamplingMessage) -> str:
    """Return the place that is named, which also begins the message."""
    with pytest.raises(InvalidParams) as caught:
        check_conversation(messages)
    assert caught.value.code == -32602
    assert caught.value.message.startswith(caught.value.data["place"] + ": ")
    return caught.value.data["place"]


def test_a_tool_loop_keeps_the_rules():
    """Uses are answered in the next message, in any order; ids may come again later."""
    check_conversation([says("q"), uses("1", "2"), results("2", "1"), uses("1"), results("1"), says("ok", "assistant")])


def test_text_beside_a_use_is_allowed():
    """A model may say something before it uses a tool."""
    thinking = SamplingMessage(role="assistant", content=[TextContent(text="hm"), *uses("1").blocks])
    check_conversation([says("q"), thinking, results("1")])


@pytest.mark.requirement("sampling.balance")
@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([says("q", role="system")], "messages[0].role"),
        ([uses("1", role="user")], "messages[0].content[0]"),
        ([uses("1"), results("1", role="assistant")], "messages[1].content[0]"),
        ([uses("1")], "messages[0].content[0].id"),
        ([says("q"), uses("1"), says("no result")], "messages[1].content[0].id"),
        ([uses("1", "2"), results("1")], "messages[0].content[1].id"),
        ([uses("1"), says("late"), results("1")], "messages[0].content[0].id"),
        ([uses("1"), results("1", "1")], "messages[1].content[1].toolUseId"),
        ([uses("1"), results("2")], "messages[1].content[0].toolUseId"),
        ([results("1")], "messages[0].content[0].toolUseId"),
        ([uses("1"), results("1"), results("1")], "messages[2].content[0].toolUseId"),
        ([uses("1", "1"), results("1")], "messages[0].content[1].id"),
    ],
)
def test_a_broken_rule_names_its_place(messages: list[SamplingMessage], place: str):
    """2025-11-25 client/sampling: what does not pair up is invalid params."""
    assert refused(*messages) == place


@pytest.mark.requirement("sampling.results-alone")
@pytest.mark.parametrize("other", [TextContent(text="and"), ImageContent(data="", mime_type="image/png")])
def test_a_message_with_results_holds_nothing_else(other: object):
    """2025-11-25: messages with tool results must contain only tool results."""
    mixed = SamplingMessage(role="user", content=[*results("1").blocks, other])
    assert refused(uses("1"), mixed) == "messages[1].content[1]"


def test_a_single_block_is_named_without_a_number():
    """The place is a path into what was sent."""
    assert refused(SamplingMessage(role="user", content=uses("1").blocks[0])) == "messages[0].content"


@given(st.lists(st.lists(st.text(min_size=1), min_size=1, max_size=5, unique=True), max_size=5), st.randoms())
def test_whatever_is_answered_once_in_the_next_message_is_valid(turns: list[list[str]], chance):
    """Any number of turns with any ids, answered in any order."""
    messages = [says("q")]
    for ids in turns:
        messages += [uses(*ids), results(*chance.sample(ids, len(ids)))]
    check_conversation(messages)
