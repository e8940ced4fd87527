"""What each revision's schema allows, our types take, and give back as it was."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from antiphon.wire.common import RequestMeta
from antiphon.wire.content import ResourceContents
from antiphon.wire.envelope import ErrorObject, decode_envelope, decode_wire, encode_value
from antiphon.wire.lossless import merge_change
from antiphon.wire.methods import METHODS
from antiphon.wire.rounds import InputRequiredResult
from tests.support import mcp_schema

NAMES = mcp_schema.NAMES
# Our types leave out: tasks; a default; and keys of others in the ``_meta`` of requests.
DROPPED = {"task", "tasks", "example.org/extra"}
DEFAULTS = {"isError": False, "mode": "form", "resultType": "input_required"}


def lost(before: Any, after: Any, place: str = "") -> list[str]:
    """List what a document has that another lacks or has otherwise."""
    if isinstance(before, dict) and isinstance(after, dict):
        found = [f"{place}.{name}" for name in after.keys() - before.keys() if name != "resultType"]
        for name, value in before.items():
            if name in after:
                found += lost(value, after[name], f"{place}.{name}")
            elif name not in DROPPED and DEFAULTS.get(name, ...) != value:
                found.append(f"{place}.{name}")
        return found
    if isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        return [
            each for at, pair in enumerate(zip(before, after, strict=True)) for each in lost(*pair, f"{place}[{at}]")
        ]
    return [] if before == after else [f"{place}: {before} != {after}"]


def assert_kept(revision: str, schema: dict[str, Any], kind: type) -> int:
    """Decode instances of a schema and compare with what we would send; count them."""
    count = 0
    for instance in mcp_schema.instances(revision, schema):
        data = msgspec.json.encode(instance)
        value = decode_wire(data, kind)
        assert lost(instance, json.loads(encode_value(value))) == [], instance
        assert merge_change(data, value, value) == data
        count += 1
    return count


PLACES = [
    (name, method)
    for method, row in sorted(METHODS.items())
    for name in NAMES
    if row.exists_in(name) and row.extension is None and "tasks/" not in row.name
]


@pytest.mark.parametrize(("revision", "method"), PLACES)
def test_params_and_results_are_kept(revision, method):
    """Every member that a schema names is a member of our type, required or not."""
    row = METHODS[method]
    assert assert_kept(revision, mcp_schema.params_schema(revision, method), row.params)
    result = row.result.__name__ if row.result else ""
    if result in mcp_schema.definitions(revision):
        assert assert_kept(revision, mcp_schema.definitions(revision)[result], row.result)


@pytest.mark.parametrize("revision", NAMES)
def test_messages_are_envelopes(revision):
    """Requests and notifications decode as messages whose params decode by the table."""
    for method, name in mcp_schema.messages(revision).items():
        for instance in mcp_schema.instances(revision, mcp_schema.definitions(revision)[name]):
            message = {**instance, "jsonrpc": "2.0"}
            envelope = decode_envelope(msgspec.json.encode(message))
            assert envelope.method == method
            assert decode_wire(envelope.params, METHODS[method].params) is not None


@pytest.mark.parametrize("revision", NAMES)
def test_replies_are_envelopes(revision):
    """Whatever the schema counts as a message is one to us, errors of every kind included."""
    count = 0
    for schema in mcp_schema.definitions(revision).values():
        if "jsonrpc" in schema.get("properties", {}):
            for instance in mcp_schema.instances(revision, schema):
                envelope = decode_envelope(msgspec.json.encode(instance))
                assert (envelope.error is not msgspec.UNSET) == ("error" in instance)
                count += 1
    assert count > 100


@pytest.mark.parametrize("name", ["Error", "InternalError", "InvalidParamsError", "InvalidRequestError", "ParseError"])
def test_error_objects_are_kept(name):
    """Code, message and data of an error come back."""
    assert assert_kept(mcp_schema.MODERN, mcp_schema.definitions(mcp_schema.MODERN)[name], ErrorObject)


def test_round_results_are_kept():
    """Asks and state of ``InputRequiredResult`` come back, and the asks decode by the table."""
    schema = mcp_schema.definitions(mcp_schema.MODERN)["InputRequiredResult"]
    schema = {**schema, "properties": {**schema["properties"], "resultType": {"const": "input_required"}}}
    assert assert_kept(mcp_schema.MODERN, schema, InputRequiredResult)
    for instance in mcp_schema.instances(mcp_schema.MODERN, schema):
        result = decode_wire(msgspec.json.encode(instance), InputRequiredResult)
        for ask in (result.input_requests or {}).values():
            assert METHODS[ask.method].ask
            assert decode_wire(ask.params, METHODS[ask.method].params) is not None


def test_the_meta_of_modern_requests_is_kept():
    """Every key that 2026-07-28 defines there is a member of ``RequestMeta``."""
    schema = mcp_schema.definitions(mcp_schema.MODERN)["RequestMetaObject"]
    assert assert_kept(mcp_schema.MODERN, schema, RequestMeta)


@pytest.mark.parametrize("revision", NAMES)
@pytest.mark.parametrize("name", ["TextResourceContents", "BlobResourceContents"])
def test_both_kinds_of_resource_contents_are_kept(revision, name):
    """One type of ours stands for both."""
    assert assert_kept(revision, mcp_schema.definitions(revision)[name], ResourceContents)
