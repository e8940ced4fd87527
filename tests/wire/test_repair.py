"""Plans find unknown content and whole numbers where they may stand, and nowhere else."""

from __future__ import annotations

import sys

import msgspec
import pytest

from antiphon.wire.common import UNREADABLE, EmptyResult, Implementation, PaginatedParams
from antiphon.wire.completion import CompleteResult, CompletionContext
from antiphon.wire.content import ContentBlock, UnknownContent
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import decode_wire
from antiphon.wire.lifecycle import InitializeResult
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult
from antiphon.wire.repair import MAX_UNKNOWN, mend_document
from antiphon.wire.resources import ReadResourceResult
from antiphon.wire.roots import ListRootsResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolResult, ListToolsResult, ToolAnnotations

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
        [{}],
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


@pytest.mark.parametrize(
    ("kind", "member", "other"),
    [
        (ElicitResult, "content", {"action": "accept"}),
        (GetPromptRequestParams, "arguments", {"name": "p"}),
        (CompletionContext, "arguments", {}),
    ],
)
def test_a_value_that_is_null_was_left_out(kind, member, other):
    """Clients write one for each field that a user left empty; no value of a form or a prompt is null."""
    read = decode_wire(msgspec.json.encode({**other, member: {"a": None, "b": "x"}}), kind)
    assert getattr(read, member) == {"b": "x"}
    with pytest.raises(msgspec.ValidationError, match=member):
        decode_wire(msgspec.json.encode({**other, member: {"a": None, "b": {}}}), kind)


@pytest.mark.parametrize(
    ("kind", "null", "empty"),
    [
        (ReadResourceResult, {"contents": None}, {"contents": []}),
        (GetPromptResult, {"messages": None, "description": "d"}, {"messages": [], "description": "d"}),
        (CompleteResult, {"completion": {"values": None}}, {"completion": {"values": []}}),
        (ListRootsResult, {"roots": None}, {"roots": []}),
    ],
)
def test_a_list_that_is_null_is_empty(kind, null, empty):
    """Go writes nil so: a server has no suggestion, or a resource no contents."""
    assert decode_wire(msgspec.json.encode(null), kind) == decode_wire(msgspec.json.encode(empty), kind)


def test_a_text_is_a_list_of_one_where_only_a_list_may_stand():
    """A draft had the sizes of an icon as one text, and servers still send it."""
    icons = [{"src": "x", "sizes": "48x48"}]
    tools = {"tools": [{"name": "t", "inputSchema": {}, "icons": icons}]}
    assert decode_wire(msgspec.json.encode(tools), ListToolsResult).tools[0].icons[0].sizes == ["48x48"]
    opened = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}
    opened["serverInfo"]["icons"] = icons
    assert decode_wire(msgspec.json.encode(opened), InitializeResult).server_info.icons[0].sizes == ["48x48"]
    answer = {"action": "accept", "content": {"one": "text", "empty": None}}
    assert decode_wire(msgspec.json.encode(answer), ElicitResult).content == {"one": "text"}


def test_an_empty_list_in_the_place_of_an_object_is_one():
    """PHP cannot tell them apart; what is a list, or may be anything, stays."""
    opened = {"protocolVersion": "2025-11-25", "capabilities": [], "serverInfo": {"name": "s", "version": "1"}}
    assert decode_wire(msgspec.json.encode(opened), InitializeResult).capabilities.tools is None
    opened["capabilities"] = {"tools": [], "logging": []}
    assert decode_wire(msgspec.json.encode(opened), InitializeResult).capabilities.tools is not None
    tools = {"tools": [{"name": "t", "inputSchema": [], "annotations": [], "icons": [], "_meta": []}], "_meta": []}
    (tool,) = decode_wire(msgspec.json.encode(tools), ListToolsResult).tools
    assert (tool.input_schema, tool.annotations, tool.icons, tool.meta) == ({}, ToolAnnotations(), [], {})
    assert decode_wire(b"[]", EmptyResult) == EmptyResult()
    called = decode_wire(b'{"content":[],"structuredContent":[],"_meta":[]}', CallToolResult)
    assert (called.content, called.structured_content, called.meta) == ([], [], {})
    assert decode_wire(b'{"name":"p","arguments":[]}', GetPromptRequestParams).arguments == {}
    for wrong in (b'{"name":"p","arguments":["x"]}', b'{"name":[]}'):
        with pytest.raises(msgspec.ValidationError):
            decode_wire(wrong, GetPromptRequestParams)


@pytest.mark.parametrize("given", [{}, {"version": None}])
def test_a_server_may_have_no_version(given):
    """It is for display only, and servers exist that write none."""
    opened = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": {"name": "s", **given}}
    read = decode_wire(msgspec.json.encode(opened), InitializeResult)
    assert read.server_info == Implementation(name="s", version="")
    for wrong in ({"version": {}}, {"name": None}):
        opened["serverInfo"] = {"name": "s", **given, **wrong}
        with pytest.raises(msgspec.ValidationError, match="serverInfo"):
            decode_wire(msgspec.json.encode(opened), InitializeResult)


def test_an_audience_that_we_do_not_know_costs_no_result():
    """Servers name others than the two of the specification, or one alone."""
    block = {"type": "text", "text": "done", "annotations": {"audience": ["developer"]}}
    assert decode_wire(msgspec.json.encode({"content": [block]}), CallToolResult).text == "done"
    block["annotations"]["audience"] = "user"
    assert decode_wire(msgspec.json.encode({"content": [block]}), CallToolResult).content[0].annotations.audience == [
        "user"
    ]


@pytest.mark.parametrize(
    ("block", "problem"),
    [
        ({"type": "image", "data": "aGk="}, "`mimeType`"),
        ({"type": "resource_link", "uri": "a:b"}, "`name`"),
        ({"type": "resource", "resource": {"uri": "a:b", "text": "x", "blob": "eA=="}}, "either text or blob"),
        ({"type": "audio", "data": 5, "mimeType": "audio/wav"}, "got `int`"),
    ],
)
def test_a_block_that_cannot_be_read_costs_a_result_no_other(block, problem):
    """Text stands in its place, which says why, and what it was."""
    result = decode_wire(msgspec.json.encode({"content": [{"type": "text", "text": "done"}, block]}), CallToolResult)
    first, other = result.content
    assert (first.text, result.meta) == ("done", {UNREADABLE: True})
    assert other.text.startswith("[content that cannot be read: ") and problem in other.text
    assert other.text.endswith(f"] {msgspec.json.encode(block).decode()}")


def test_of_a_large_block_that_cannot_be_read_only_the_beginning_is_shown():
    """It may be an image of megabytes, and a model would read all of it; blocks are limited as unknown ones are."""
    block = {"type": "image", "data": "a" * 100_000}
    (text,) = decode_wire(msgspec.json.encode({"content": [block]}), CallToolResult).content
    assert len(text.text) < 2000
    with pytest.raises(msgspec.ValidationError, match="mimeType"):
        decode_wire(msgspec.json.encode({"content": [{"type": "image", "data": ""}] * 1001}), CallToolResult)


def test_an_answer_of_a_model_that_cannot_be_read_is_refused():
    """It would be taken for what the model has said."""
    answer = {"role": "assistant", "model": "m", "content": {"type": "image", "data": "aGk="}}
    with pytest.raises(msgspec.ValidationError, match="mimeType"):
        decode_wire(msgspec.json.encode(answer), CreateMessageResult)


def test_a_word_that_we_do_not_know_costs_no_list():
    """Servers name other themes of icons, and write an empty text for a scope that they leave open."""
    tool = {"name": "t", "inputSchema": {}, "icons": [{"src": "x", "theme": "auto"}], "execution": {"taskSupport": ""}}
    listed = decode_wire(msgspec.json.encode({"tools": [tool], "ttlMs": 0, "cacheScope": ""}), ListToolsResult)
    assert [one.name for one in listed.tools] == ["t"]


def test_there_is_a_limit():
    """A message of nothing but unknown blocks is refused, for what it would cost."""
    most = msgspec.json.encode({"content": [ODD] * MAX_UNKNOWN})
    assert len(decode_wire(most, CallToolResult).content) == MAX_UNKNOWN
    with pytest.raises(msgspec.ValidationError, match="odd"):
        decode_wire(msgspec.json.encode({"content": [ODD] * (MAX_UNKNOWN + 1)}), CallToolResult)


@pytest.mark.parametrize(
    ("blocks", "most"),
    [
        ([{"type": "image", "data": "AA=="}] + [{"type": "text", "text": "x"}] * 20_000, 1),
        ([{"type": "image", "data": "AA=="}] * 20_000, MAX_UNKNOWN),
    ],
)
def test_what_cannot_be_replaced_is_not_looked_at_once_more(blocks: list[dict[str, str]], most: int):
    """Else one message of a server would hold up all others: each look takes as long as the whole reading."""
    looks = 0

    def count(frame: object, event: str, called: object) -> None:
        nonlocal looks
        looks += event == "c_call" and called is msgspec.convert

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        mend_document({"content": blocks}, CallToolResult)
    finally:
        sys.setprofile(before)
    assert looks == most
