"""Frames are valid JSON-RPC, put together from parts that are encoded once."""

from __future__ import annotations

import json

import pytest

from antiphon.wire.envelope import (
    ErrorObject,
    error_frame,
    notification_frame,
    prepend_members,
    request_frame,
    result_frame,
)

IDS = [0, -7, 10**30, "", 'a"b\\c', "\u2028é"]


@pytest.mark.requirement("base.jsonrpc")
@pytest.mark.parametrize("id", IDS)
def test_a_request_is_framed(id):
    """With any id."""
    framed = json.loads(request_frame(id, "tools/call", b'{"name":"t"}'))
    assert framed == {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "t"}}


@pytest.mark.requirement("base.jsonrpc", "base.reply-same-id")
@pytest.mark.parametrize("id", IDS)
def test_a_result_is_framed(id):
    """With any id."""
    assert json.loads(result_frame(id, b"{}")) == {"jsonrpc": "2.0", "id": id, "result": {}}


@pytest.mark.requirement("base.notification-no-id")
def test_a_notification_has_no_id_and_no_empty_params():
    """Params that say nothing are left out."""
    assert json.loads(notification_frame("a/b", b"{}")) == {"jsonrpc": "2.0", "method": "a/b"}
    assert json.loads(notification_frame("a/b", b'{"x":1}')) == {"jsonrpc": "2.0", "method": "a/b", "params": {"x": 1}}


@pytest.mark.requirement("base.error-code-message")
@pytest.mark.parametrize(
    ("id", "null_id", "members"),
    [(5, True, {"id": 5}), (5, False, {"id": 5}), (None, True, {"id": None}), (None, False, {})],
)
def test_an_error_has_the_id_its_revision_wants(id, null_id, members):
    """Null or none where there is none to repeat."""
    framed = json.loads(error_frame(id, ErrorObject(code=-32600, message="no"), null_id=null_id))
    assert framed == {"jsonrpc": "2.0", **members, "error": {"code": -32600, "message": "no"}}


def test_constant_members_go_in_front():
    """Of an object with members, and of an empty one."""
    assert prepend_members(b'"a":1', b"{}") == b'{"a":1}'
    assert prepend_members(b'"a":1', b'{"b":2}') == b'{"a":1,"b":2}'


@pytest.mark.parametrize("id", [7, "seven"])
def test_what_is_long_is_framed_as_what_is_short(id):
    """It is put together in another way."""
    text = "x" * 100_000
    payload = json.dumps({"text": text}).encode()
    assert json.loads(request_frame(id, "a/b", payload)) == {
        "jsonrpc": "2.0",
        "id": id,
        "method": "a/b",
        "params": {"text": text},
    }
    assert json.loads(result_frame(id, payload)) == {"jsonrpc": "2.0", "id": id, "result": {"text": text}}
    assert json.loads(prepend_members(b'"a":1', payload)) == {"a": 1, "text": text}
