"""Prompts."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.wire.content import ImageContent, TextContent
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, Prompt, PromptArgument, PromptMessage


def test_a_prompt_comes_back():
    """With its arguments."""
    prompt = Prompt(name="p", arguments=[PromptArgument(name="a", required=True), PromptArgument(name="b")])
    assert decode_wire(encode_value(prompt), Prompt) == prompt


def test_messages_have_one_block_each():
    """Content is no list here, in any revision."""
    result = GetPromptResult(messages=[PromptMessage(role="user", content=TextContent.of("hi"))])
    assert decode_wire(encode_value(result), GetPromptResult) == result
    with pytest.raises(msgspec.ValidationError, match="content"):
        decode_wire(b'{"messages":[{"role":"user","content":[]}]}', GetPromptResult)


def test_the_text_of_a_message():
    """As of the messages of a sampling request; other content has none."""
    assert PromptMessage(role="user", content=TextContent.of("hi")).text == "hi"
    assert PromptMessage(role="user", content=ImageContent(data="", mime_type="image/png")).text == ""


def test_arguments_are_text():
    """A number is an error that names the argument's place."""
    assert decode_wire(b'{"name":"p","arguments":{"a":"1"}}', GetPromptRequestParams).arguments == {"a": "1"}
    with pytest.raises(msgspec.ValidationError, match="arguments"):
        decode_wire(b'{"name":"p","arguments":{"a":1}}', GetPromptRequestParams)
