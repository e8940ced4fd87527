"""Content of unknown types costs no message and survives it; everything else is as strict as before."""

from __future__ import annotations

import json

import msgspec
import pytest

from antiphon.wire.common import PaginatedParams
from antiphon.wire.completion import CompleteRequestParams
from antiphon.wire.content import TextContent, UnknownContent
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.prompts import GetPromptResult
from antiphon.wire.resources import Resource
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult
from antiphon.wire.unknown import decode

ODD = {"type": "hologram", "depth": 3, "parts": [{"type": "text"}]}
HI = {"type": "text", "text": "hi"}

PLACES = [
    (CallToolResult, {"content": [HI, ODD, HI]}),
    (CallToolResult, {"content": [ODD, {**ODD, "type": "tool_use"}]}),
    (GetPromptResult, {"messages": [{"role": "user", "content": HI}, {"role": "user", "content": ODD}]}),
    (CreateMessageResult, {"role": "assistant", "model": "m", "content": ODD}),
    (CreateMessageResult, {"role": "assistant", "model": "m", "content": [HI, ODD]}),
    (CreateMessageRequestParams, {"maxTokens": 1, "messages": [{"role": "user", "content": [ODD]}]}),
    (
        CreateMessageRequestParams,
        {
            "maxTokens": 1,
            "messages": [
                {"role": "user", "content": [{"type": "tool_result", "toolUseId": "1", "content": [HI, ODD]}, ODD]},
                {"role": "user", "content": {"type": "tool_result", "toolUseId": "2", "content": [ODD]}},
            ],
        },
    ),
]


@pytest.mark.parametrize(("kind", "document"), PLACES)
def test_unknown_content_survives(kind, document):
    """It decodes wherever content may stand, and is written as it came."""
    value = decode(json.dumps(document).encode(), kind)
    assert "UnknownContent(type='hologram'" in repr(value)
    assert json.loads(encode(value)) == document


def test_unknown_content_stands_among_the_known():
    """The other blocks are what they are."""
    result = decode(json.dumps({"content": [HI, ODD]}).encode(), CallToolResult)
    assert result.content == [
        TextContent(text="hi"),
        UnknownContent("hologram", {name: value for name, value in ODD.items() if name != "type"}),
    ]
    assert result.text == "hi"


ERRORS = [
    (CallToolResult, {"content": [ODD, {"type": "text"}]}, r"`text` - at `\$\.content\[1\]`"),
    (CallToolResult, {"content": [{"type": 3}]}, "type"),
    (CallToolResult, {"content": [{}]}, "type"),
    (CallToolResult, {"content": ["hologram"]}, "content"),
    (CallToolResult, {"content": HI}, "content"),
    (CallToolResult, {"content": [ODD], "isError": "yes"}, r"\$\.isError"),
    (CompleteRequestParams, {"ref": {"type": "ref/hologram"}, "argument": {"name": "a", "value": "b"}}, "ref"),
    (ElicitResult, {"action": "maybe", "content": {"type": "hologram"}}, "action"),
    (CallToolResult, [], "object"),
]


@pytest.mark.parametrize(("kind", "document", "place"), ERRORS)
def test_what_does_not_fit_is_an_error(kind, document, place):
    """The error names the place, and never content that is merely unknown."""
    with pytest.raises(msgspec.ValidationError, match=place):
        decode(json.dumps(document).encode(), kind)


def test_a_form_value_named_type_is_no_content():
    """Only where content may stand is anything taken for it."""
    document = {"action": "accept", "content": {"type": "hologram"}}
    assert decode(json.dumps(document).encode(), ElicitResult).content == {"type": "hologram"}


def test_whole_numbers_may_be_written_with_a_point():
    """JSON Schema counts 1.0 as an integer, as some languages write it."""
    assert decode(b'{"uri":"a:b","name":"b","size":3.0}', Resource).size == 3
    params = decode(
        b'{"maxTokens":5.0,"messages":[{"role":"user","content":{"type":"x","n":1.0}}]}', CreateMessageRequestParams
    )
    assert params.max_tokens == 5
    assert params.messages[0].content == UnknownContent("x", {"n": 1.0})
    with pytest.raises(msgspec.ValidationError, match="size"):
        decode(b'{"uri":"a:b","name":"b","size":3.5}', Resource)


@pytest.mark.parametrize(
    "data", [b'{"cursor":"\xff"}', b'{"cursor":1,"x":"\xff"}', b'{"cursor":"\\ud800"}', b"{", b"nope"]
)
def test_what_is_not_json_is_one_error(data):
    """An envelope leaves params undecoded, so faults inside of them are found here."""
    with pytest.raises(msgspec.DecodeError):
        decode(data, PaginatedParams)


def test_arguments_are_left_alone():
    """Nothing in the arguments of a call is taken for content, or for a number to mend."""
    data = b'{"name":"t","arguments":{"content":[{"type":"hologram"}],"n":1.0}}'
    assert encode(decode(data, CallToolRequestParams)) == data
