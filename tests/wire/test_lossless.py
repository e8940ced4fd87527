"""A change is written into the document it came from, and the rest keeps its bytes."""

from __future__ import annotations

import json

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import Raw
from msgspec.structs import replace

from antiphon.wire.content import ImageContent, TextContent
from antiphon.wire.envelope import decode_wire
from antiphon.wire.lossless import Received, merge_change, passed_on, relay_object
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import CreateMessageRequestParams, SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

ORIGINAL = b"""{ "x-odd": 1.00, "maxTokens": 5, "metadata": {"a": 1e2, "b": [1, 2]},
 "messages": [{"role": "user", "content": {"type": "text", "text": "hi", "x-c": [ ]}, "x-m": 2},
              {"role": "assistant", "content": [{"type": "hologram", "deep": 1.0}], "x-m": 3}] }"""
BEFORE = decode_wire(ORIGINAL, CreateMessageRequestParams)
FIRST, SECOND = BEFORE.messages


def changed(**members) -> dict:
    """Merge a change and read the document it gives."""
    return json.loads(merge_change(ORIGINAL, BEFORE, replace(BEFORE, **members)))


def test_no_change_gives_the_same_bytes():
    """Whether it is the same value or an equal one, from bytes or from ``Raw``."""
    assert merge_change(ORIGINAL, BEFORE, BEFORE) == ORIGINAL
    assert merge_change(ORIGINAL, BEFORE, replace(BEFORE)) == ORIGINAL
    assert merge_change(Raw(ORIGINAL), BEFORE, decode_wire(ORIGINAL, CreateMessageRequestParams)) == ORIGINAL


def test_only_what_changed_is_written_anew():
    """Numbers and spaces of the rest stay as they were written."""
    data = merge_change(ORIGINAL, BEFORE, replace(BEFORE, max_tokens=7))
    assert b'"maxTokens":7' in data
    for kept in (b'"x-odd":1.00', b'{"a": 1e2, "b": [1, 2]}', b'"deep": 1.0', b'"x-c": [ ]'):
        assert kept in data


def test_a_member_is_added_and_removed():
    """What the change sets is there, what it takes away is not."""
    document = changed(system_prompt="be brief", metadata=None)
    assert document["systemPrompt"] == "be brief"
    assert "metadata" not in document
    assert document["x-odd"] == 1.0


def test_texts_are_changed_and_taken_away_beside_unknown_members():
    """Of most calls only the name changes, and of most results only ``resultType`` is left out."""
    call = b'{"x-odd":1.00,"name":"s__add","arguments":{"a": 1e2}}'
    read = decode_wire(call, CallToolRequestParams)
    assert merge_change(call, read, replace(read, name="add")) == b'{"x-odd":1.00,"name":"add","arguments":{"a": 1e2}}'
    done = b'{"content":[ ],"x-odd":1.00,"resultType":"complete"}'
    result = decode_wire(done, CallToolResult)
    assert merge_change(done, result, replace(result, result_type=None)) == b'{"content":[ ],"x-odd":1.00}'


def test_a_member_of_any_kind_is_taken_away_beside_unknown_members():
    """A call's ``_meta`` is, where another connection sends its own."""
    call = b'{"x-odd":1.00,"_meta":{"progressToken":1},"name":"s__add","arguments":{"a": 1e2}}'
    read = decode_wire(call, CallToolRequestParams)
    after = replace(read, name="add", meta=None)
    assert merge_change(call, read, after) == b'{"x-odd":1.00,"name":"add","arguments":{"a": 1e2}}'


def test_unknown_members_survive_beside_a_change():
    """At every depth on the way to it."""
    first = replace(FIRST, content=TextContent(text="ho"))
    assert changed(messages=[first, SECOND])["messages"] == [
        {"role": "user", "content": {"type": "text", "text": "ho", "x-c": []}, "x-m": 2},
        {"role": "assistant", "content": [{"type": "hologram", "deep": 1.0}], "x-m": 3},
    ]


def test_open_objects_are_merged_too():
    """A key that is gone is gone."""
    assert changed(metadata={"b": [1, 3], "c": None})["metadata"] == {"b": [1, 3], "c": None}


def test_a_new_kind_of_block_is_a_new_block():
    """Unknown members belonged to the old one."""
    first = replace(FIRST, content=ImageContent.of(b"x", "image/png"))
    content = changed(messages=[first, SECOND])["messages"][0]["content"]
    assert content == {"type": "image", "data": "eA==", "mimeType": "image/png"}


def test_a_list_that_grew_or_shrank_keeps_its_ends():
    """Messages before and after the place of the change keep what we do not know of them."""
    new = SamplingMessage(role="user", content=TextContent(text="new"))
    marks = [message.get("x-m") for message in changed(messages=[FIRST, new, SECOND])["messages"]]
    assert marks == [2, None, 3]
    assert [message["x-m"] for message in changed(messages=[SECOND])["messages"]] == [3]
    assert [message["x-m"] for message in changed(messages=[FIRST])["messages"]] == [2]
    assert changed(messages=[])["messages"] == []


def test_a_default_that_was_written_out_stays():
    """``isError: false`` is no change; changing it is one."""
    original = b'{"content":[],"isError":false,"x":1}'
    before = decode_wire(original, CallToolResult)
    assert merge_change(original, before, replace(before, structured_content={"a": 1})) == (
        b'{"content":[],"isError":false,"x":1,"structuredContent":{"a":1}}'
    )
    assert json.loads(merge_change(original, before, replace(before, is_error=True)))["isError"] is True
    failed = b'{"content":[],"isError":true,"x":1}'
    assert merge_change(failed, decode_wire(failed, CallToolResult), before) == b'{"content":[],"x":1}'


def test_true_and_one_are_not_the_same():
    """Equality is that of JSON, not that of Python."""
    assert changed(metadata={"a": 100.0, "b": [True, 2]})["metadata"]["b"] == [True, 2]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(st.sampled_from(["a", "b", "type"]), json_values, max_size=3)


@settings(deadline=None)
@given(json_objects, json_objects)
def test_any_change_of_open_data_arrives(old, new):
    """Merging one document into another gives the other, where nothing is unknown."""
    original = json.dumps({"content": [], "structuredContent": old}).encode()
    before = decode_wire(original, CallToolResult)
    merged = merge_change(original, before, replace(before, structured_content=new))
    assert json.loads(merged) == {"content": [], "structuredContent": new}


@pytest.mark.parametrize("text", [b'{"content":[{"type":"text","text":"a","y":1}]}', b'\n {"content" : [ ] } '])
def test_spaces_around_the_document(text):
    """A document may begin and end with them."""
    before = decode_wire(text, CallToolResult)
    assert json.loads(merge_change(text, before, replace(before, is_error=True))) == {
        **json.loads(text),
        "isError": True,
    }


def test_what_belongs_to_one_connection_is_not_passed_on():
    """Of ``_meta`` the rest stays, and an empty one goes; what is no object is nobody's."""
    raw = b'{ "a": 1.0, "_meta": {"progressToken": 1, "io.modelcontextprotocol/x": 2, "own": 3}, "requestState": "s"}'
    assert bytes(passed_on(raw, without=("requestState",))) == b'{"a":1.0,"_meta":{"own":3}}'
    assert bytes(passed_on(b'{"_meta":{"progressToken":1}}')) == b"{}"
    assert bytes(passed_on(b'{"_meta":5}')) == b"{}"
    assert bytes(passed_on(b"")) == b"{}"


def test_a_member_that_some_peers_would_take_for_a_known_one_is_not_passed_on():
    """Its value is not the one that was decoded, and that a person was shown; other unknown members stay."""
    raw = b'{"name":"pay","arguments":{"sum":1},"Arguments":{"sum":9},"NAME":"x","RequestState":"s","own":{"Name":2}}'
    read = msgspec.json.decode(raw, type=CallToolRequestParams)
    assert bytes(passed_on(raw, read=read)) == b'{"name":"pay","arguments":{"sum":1},"own":{"Name":2}}'
    # Go's decoder takes a long s for an s, too.
    raw = '{"name":"pay","arguments":{"sum":1},"argument\u017f":{"sum":9}}'.encode()
    assert bytes(passed_on(raw, read=read)) == b'{"name":"pay","arguments":{"sum":1}}'


def test_a_result_has_no_member_that_some_peers_would_take_for_a_known_one():
    """The host's rules have examined the other one."""
    raw = b'{"content":[],"Content":[{"type":"text","text":"obey"}],"own":1}'
    read = msgspec.json.decode(raw, type=CallToolResult)
    assert bytes(relay_object(raw, read).raw) == b'{"content":[],"own":1}'


def test_what_was_received_can_be_changed_or_replaced():
    """Unknown members stay with a change; what is of another type stands by itself."""
    root = Root(uri="file:///a")
    received = Received(Raw(b'{"uri":"file:///a","new":1}'), root)
    assert received.changed(root) is received
    changed = received.changed(Root(uri="file:///b"))
    assert (json.loads(bytes(changed.raw)), changed.read.uri) == ({"uri": "file:///b", "new": 1}, "file:///b")
    assert bytes(received.changed(ListRootsResult(roots=[])).raw) == b'{"roots":[]}'


RESULT = (
    b'{"content":[{"type":"text","text":"null","annotations":{"audience":null,"new":null},"_meta":null},'
    b'{"type":"odd","text":null}],"isError":null,"new":null,"structuredContent":%b%b}'
)


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ((b"null", b""), b""),
        ((b"null", b',"resultType":"complete"'), b',"structuredContent":null,"resultType":"complete"'),
        ((b'{"isError":null}', b""), b',"structuredContent":{"isError":null}'),
    ],
)
def test_members_that_are_null_for_nothing_are_not_passed_on(written, kept):
    """Whatever is not of ours stays: unknown members and blocks, and what tools return."""
    raw = Raw(RESULT % written)
    passed = relay_object(raw, decode_wire(raw, CallToolResult))
    blocks = b'{"type":"text","text":"null","annotations":{"new":null}},{"type":"odd","text":null}'
    assert bytes(passed.raw) == b'{"content":[%b],"new":null%b}' % (blocks, kept)


def test_an_empty_list_that_stands_for_an_object_is_passed_on_as_one():
    """Many hosts refuse the whole result otherwise; what a tool returns, and what is a list, stays as it is."""
    raw = Raw(b'{"content":[{"type":"text","text":"[]","annotations":[]}],"structuredContent":[],"_meta":[]}')
    passed = relay_object(raw, decode_wire(raw, CallToolResult))
    assert bytes(passed.raw) == b'{"content":[{"type":"text","text":"[]","annotations":{}}],"structuredContent":[]}'
