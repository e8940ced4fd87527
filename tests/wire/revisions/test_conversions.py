"""Conversions that do more than leave a member out."""

from __future__ import annotations

import json

import pytest
from msgspec import Raw

from antiphon.wire.common import ClientCapabilities, Implementation, RequestMeta, RootsCapability
from antiphon.wire.content import TextContent, ToolResultContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.lifecycle import DiscoverResult, InitializeRequestParams, InitializeResult, ServerCapabilities
from antiphon.wire.revisions import LEGACY, find_revision
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.task import TASKS
from antiphon.wire.tools import CallToolResult, ListToolsResult, Tool

HI = TextContent(text="hi")


def test_cache_hints_are_given_where_they_are_required():
    """2026-07-28 wants both on every list; a maker that says nothing means that it must not be kept."""
    assert find_revision("2026-07-28").lower(ListToolsResult(tools=[])) == ListToolsResult(
        tools=[], ttl_ms=0, cache_scope="private"
    )


def test_cache_hints_of_the_maker_stay():
    """What the maker says is kept, and only what is missing is added."""
    half = DiscoverResult(supported_versions=[], capabilities=ServerCapabilities(), ttl_ms=5)
    lowered = find_revision("2026-07-28").lower(half)
    assert (lowered.ttl_ms, lowered.cache_scope) == (5, "private")
    assert find_revision("2026-07-28").lower(lowered) is lowered


@pytest.mark.parametrize("each", LEGACY, ids=lambda each: each.name)
def test_cache_hints_and_tasks_are_modern(each):
    """Legacy revisions have neither; extensions that nobody here knows are declared as their owners say."""
    assert each.lower(ListToolsResult(tools=[], ttl_ms=5, cache_scope="public")) == ListToolsResult(tools=[])
    for kind in (ClientCapabilities, ServerCapabilities):
        assert each.lower(kind(extensions={TASKS: {}})) == kind()
        assert each.lower(kind(extensions={TASKS: {}, "a/b": {}})) == kind(extensions={"a/b": {}})


def test_capabilities_are_lowered_where_they_stand():
    """The handshake of 2025-03-26 offers no elicitation, and its server none of what came later."""
    who = Implementation(name="n", version="1", title="N", website_url="https://example.org")
    offered = ClientCapabilities(elicitation=None, extensions={TASKS: {}}, roots=RootsCapability(list_changed=True))
    ask = InitializeRequestParams(protocol_version="2025-03-26", capabilities=offered, client_info=who)
    plain = Implementation(name="n", version="1")
    lowered = find_revision("2025-03-26").lower(ask)
    assert lowered.client_info == plain
    assert lowered.capabilities == ClientCapabilities(roots=RootsCapability(list_changed=True))
    answer = InitializeResult(
        protocol_version="2024-11-05", capabilities=ServerCapabilities(completions={}), server_info=who
    )
    assert find_revision("2024-11-05").lower(answer).capabilities == ServerCapabilities()


def test_modern_clients_do_not_tell_of_changed_roots():
    """The ``_meta`` that a session makes is lowered by itself."""
    meta = RequestMeta(client_capabilities=ClientCapabilities(roots=RootsCapability(list_changed=True)))
    assert find_revision("2026-07-28").lower(meta).client_capabilities == ClientCapabilities(roots=RootsCapability())


def test_structure_stays_an_object():
    """Up to 2025-11-25 structured content is an object or nothing; text says the rest."""
    listed = CallToolResult(content=[HI], structured_content=[1, 2])
    assert find_revision("2025-11-25").lower(listed) == CallToolResult(content=[HI])
    named = CallToolResult(content=[HI], structured_content={"a": 1})
    assert find_revision("2025-11-25").lower(named) is named
    used = ToolResultContent(tool_use_id="1", content=[HI], structured_content=3)
    assert find_revision("2025-11-25").lower(used).structured_content is None


@pytest.mark.parametrize("value", [Raw(b'{"a": 1}'), Raw(b' {"a": 1}'), Implementation(name="n", version="1")])
def test_structure_may_be_encoded_already(value):
    """Or be something that encodes to an object."""
    result = CallToolResult(content=[HI], structured_content=value)
    assert find_revision("2025-11-25").lower(result) is result


@pytest.mark.parametrize("value", [Raw(b"[1]"), Raw(b'"{"'), (1, 2), "{", 0])
def test_structure_that_is_no_object(value):
    """Lists, text and numbers are none, encoded or not."""
    result = CallToolResult(content=[HI], structured_content=value)
    assert find_revision("2025-11-25").lower(result) == CallToolResult(content=[HI])


def test_structure_alone_becomes_text():
    """A result that had nothing but structure still says what it said."""
    result = CallToolResult(content=[], structured_content={"a": [1]})
    lowered = find_revision("2025-03-26").lower(result)
    assert lowered.structured_content is None
    assert json.loads(lowered.text) == {"a": [1]}


def test_schemas_of_true_and_false_are_spelled_out():
    """Up to 2025-11-25 a property's schema is an object."""
    schema = {"type": "object", "properties": {"a": True, "b": False, "c": {"type": "string"}}}
    tool = find_revision("2025-11-25").lower(Tool(name="t", input_schema=schema, output_schema=schema))
    spelled = {"type": "object", "properties": {"a": {}, "b": {"not": {}}, "c": {"type": "string"}}}
    assert tool.input_schema == spelled
    assert tool.output_schema == spelled
    assert schema["properties"]["a"] is True


def test_an_output_schema_describes_an_object():
    """Up to 2025-11-25; another one is left out, as is the content it describes."""
    tool = Tool(name="t", input_schema={"type": "object"}, output_schema={"type": "array"})
    assert find_revision("2025-11-25").lower(tool).output_schema is None
    assert find_revision("2026-07-28").lower(tool) is tool


def test_a_list_of_one_block_becomes_the_block():
    """Before 2025-11-25 content in sampling is one block."""
    params = CreateMessageRequestParams(messages=[SamplingMessage(role="user", content=[HI])], max_tokens=1, tools=[])
    lowered = find_revision("2024-11-05").lower(params)
    assert lowered.messages[0].content is HI
    assert lowered.tools is None
    result = CreateMessageResult(role="assistant", model="m", content=[HI])
    assert find_revision("2025-06-18").lower(result).content is HI
    assert find_revision("2025-11-25").lower(result) is result


def test_a_form_of_2025_06_18_is_plain():
    """Titled choices become ``enum`` with ``enumNames``; defaults other than of booleans, and the dialect, go."""
    choices = [{"const": "a", "title": "A"}, {"const": "b"}]
    properties = {
        "which": {"type": "string", "oneOf": choices, "default": "a"},
        "sure": {"type": "boolean", "default": True},
        "odd": True,
    }
    schema = {"$schema": "x", "type": "object", "properties": properties}
    form = find_revision("2025-06-18").lower(ElicitRequestParams.form("Which?", schema)).requested_schema
    assert form == {
        "type": "object",
        "properties": {
            "which": {"type": "string", "enum": ["a", "b"], "enumNames": ["A", "b"]},
            "sure": {"type": "boolean", "default": True},
            "odd": True,
        },
    }
