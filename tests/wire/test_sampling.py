"""Sampling messages and results."""

from __future__ import annotations

import pytest

from antiphon.wire.content import TextContent, UnknownContent
from antiphon.wire.envelope import decode, encode
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, ModelPreferences, SamplingMessage

A, B = TextContent.of("a"), TextContent.of("b")


@pytest.mark.parametrize(
    ("content", "blocks", "text"),
    [
        (A, [A], "a"),
        ([A, B], [A, B], "a\nb"),
        ([], [], ""),
        (UnknownContent("x", {}), [UnknownContent("x", {})], ""),
    ],
)
def test_content_is_a_block_or_a_list(content, blocks, text):
    """Both are read alike, and written as they were."""
    for value in (
        SamplingMessage(role="user", content=content),
        CreateMessageResult(role="assistant", model="m", content=content),
    ):
        assert value.blocks == blocks
        assert value.text == text
        assert decode(encode(value), type(value)) == value


def test_messages_are_required_even_when_empty():
    """Whether none is enough is for the host to say."""
    assert encode(CreateMessageRequestParams(messages=[], max_tokens=1)) == b'{"messages":[],"maxTokens":1}'


def test_a_priority_of_zero_is_a_priority():
    """0 is not absent."""
    assert encode(ModelPreferences(cost_priority=0)) == b'{"costPriority":0}'
