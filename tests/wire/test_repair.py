"""Plans find unknown content and whole numbers where they may stand, and nowhere else."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.wire.common import PaginatedParams
from antiphon.wire.content import ContentBlock, UnknownContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import decode_wire
from antiphon.wire.repair import MAX_UNKNOWN, mend_document
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolResult

ODD = {"type": "odd", "n": 1.0}
STAND_IN = {"type": "text", "text": ""}


def test_unknown_content_is_taken_out_and_its_place_told():
    """By attributes and indices of the decoded value."""
    message = {"role": "user", "content": {"type": "tool_result", "toolUseId": "1", "content": [STAND_IN, ODD]}}
    document, found = mend_document({"maxTokens": 1, "messages": [message]}, CreateMessageRequestParams)
    assert document["messages"][0]["content"]["content"] == [STAND_IN, STAND_IN]
    assert found == [(("messages", 0, "content", "content", 1), UnknownContent("odd", {"n": 1.0}))]


def test_a_block_alone_is_replaced():
    """The place is then the value itself."""
    assert mend_document(dict(ODD), ContentBlock) == (STAND_IN, [((), UnknownContent("odd", {"n": 1.0}))])


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"x": 1},
        [],
        "x",
        None,
        {"content": None, "x": 1},
        {"content": {"type": ["x"]}},
        {"content": [[ODD]]},
        {"cursor": ODD},
    ],
)
@pytest.mark.parametrize("kind", [CallToolResult, PaginatedParams])
def test_the_rest_is_left_alone(document, kind):
    """Whatever shape it has."""
    before = msgspec.json.encode(document)
    after, found = mend_document(document, kind)
    assert found == []
    assert msgspec.json.encode(after) == before


def test_open_data_is_left_alone():
    """Nothing in ``structuredContent`` or ``_meta`` is content or a number of ours."""
    document = {"content": [], "structuredContent": {"content": [ODD], "n": 1.0}, "_meta": {"content": [ODD]}}
    assert mend_document(document, CallToolResult)[1] == []
    assert document["structuredContent"] == {"content": [ODD], "n": 1.0}


@pytest.mark.parametrize("given", [{}, {"content": None}])
def test_a_result_may_have_structured_content_alone(given):
    """The specification recommends the same as text; where a server leaves that out, it is added."""
    data = msgspec.json.encode({**given, "structuredContent": {"a": None}})
    result = decode_wire(data, CallToolResult)
    assert (result.text, result.structured_content) == ('{"a":null}', {"a": None})


@pytest.mark.parametrize("given", [{"content": None}, {"content": None, "isError": True, "_meta": {}}])
def test_a_result_of_a_tool_may_be_empty(given):
    """Servers in Go write null for an empty list, and the call was carried out."""
    result = decode_wire(msgspec.json.encode(given), CallToolResult)
    assert (result.content, result.structured_content, result.is_error) == ([], None, "isError" in given)


@pytest.mark.parametrize(
    "given", [{"task": {"taskId": "1"}}, {"toolResult": 1}, {"content": None, "inputRequests": {}}]
)
def test_a_result_of_another_kind_is_no_empty_result_of_a_tool(given):
    """What it says would be lost, and a model would take it for done."""
    with pytest.raises(msgspec.ValidationError):
        decode_wire(msgspec.json.encode(given), CallToolResult)


@pytest.mark.parametrize(("number", "mended"), [(3.0, int), (3.5, float), (True, bool), (1e300, int)])
def test_whole_numbers(number, mended):
    """Only where an integer is meant, and only if it is one."""
    document, _ = mend_document({"maxTokens": number, "temperature": 1.0, "messages": []}, CreateMessageRequestParams)
    assert type(document["maxTokens"]) is mended
    assert type(document["temperature"]) is float


def test_a_flag_that_is_null_was_left_out():
    """Some servers write all members; where null is no value of a member that may be left out, it means that."""
    block = {"type": "tool_result", "toolUseId": "1", "content": [], "isError": None}
    result = decode_wire(msgspec.json.encode({"content": [STAND_IN], "isError": None}), CallToolResult)
    assert result.is_error is False
    message = {"maxTokens": 1, "messages": [{"role": "user", "content": [block]}]}
    read = decode_wire(msgspec.json.encode(message), CreateMessageRequestParams)
    assert read.messages[0].content[0].is_error is False
    form = {"message": "?", "mode": None, "requestedSchema": {"type": "object", "properties": {}}}
    assert decode_wire(msgspec.json.encode(form), ElicitRequestParams).mode == "form"
    with pytest.raises(msgspec.ValidationError, match="isError"):
        decode_wire(msgspec.json.encode({"content": [], "isError": "no"}), CallToolResult)
    with pytest.raises(msgspec.ValidationError, match="content"):
        decode_wire(msgspec.json.encode({"content": None, "isError": None, "task": {}}), CallToolResult)


def test_there_is_a_limit():
    """A message of nothing but unknown blocks is refused, for what it would cost."""
    most = msgspec.json.encode({"content": [ODD] * MAX_UNKNOWN})
    assert len(decode_wire(most, CallToolResult).content) == MAX_UNKNOWN
    with pytest.raises(msgspec.ValidationError, match="odd"):
        decode_wire(msgspec.json.encode({"content": [ODD] * (MAX_UNKNOWN + 1)}), CallToolResult)
