"""Batches: taken at 2025-03-26, refused in every other revision."""

from __future__ import annotations

import json
from typing import Any

import pytest

from antiphon.protocol.events import Answered, Batch, Cancelled, Ignored, Notified, Replied, Request
from antiphon.protocol.session import MAX_BATCH
from antiphon.wire.revisions import LATEST_LEGACY, LEGACY, REVISIONS, find_revision
from antiphon.wire.tools import CallToolResult
from tests.support.pair import Pair, frame

WITH = find_revision("2025-03-26") or LATEST_LEGACY
WITHOUT = [each for each in REVISIONS if each is not WITH]


def batch(*messages: bytes) -> bytes:
    """Write a batch."""
    return b"[" + b",".join(messages) + b"]"


def call(id: Any, method: str = "tools/list") -> bytes:
    """Write a request."""
    return frame(id=id, method=method)


def error_of(event: object) -> dict[str, Any]:
    """Return the error reply a session gave by itself."""
    assert isinstance(event, Answered), event
    return json.loads(event.reply)


@pytest.mark.requirement("base.batch")
def test_a_batch_is_one_event_per_message_in_order():
    """Requests, a ping, notifications and replies may travel together."""
    pair = Pair.opened(WITH)
    data = batch(
        call("a"),
        call("b", "ping"),
        frame(method="notifications/roots/list_changed"),
        frame(id=77, result={}),
        frame(method="notifications/cancelled", params={"requestId": "a"}),
    )
    event = pair.server.receive(data)
    assert isinstance(event, Batch)
    assert [type(each) for each in event.events] == [Request, Answered, Notified, Ignored, Cancelled]


@pytest.mark.requirement("base.batch")
def test_replies_may_come_in_a_batch():
    """A client's requests are settled one by one."""
    pair = Pair.opened(WITH)
    first, second = pair.call()[0], pair.call()[0]
    event = pair.client.receive(batch(frame(id=second.id, result={}), frame(id=first.id, result={})))
    assert isinstance(event, Batch)
    assert [each.outgoing for each in event.events if isinstance(each, Replied)] == [second, first]
    assert pair.client.outgoing == {}


@pytest.mark.parametrize("revision", WITHOUT)
def test_other_revisions_refuse_a_batch_whole(revision):
    """-32600 once, and none of its requests begins."""
    pair = Pair.opened(revision)
    reply = error_of(pair.server.receive(batch(call(1), call(2))))
    assert reply["error"]["code"] == -32600
    assert pair.server.incoming == {}


@pytest.mark.requirement("base.batch-initialize")
def test_initialize_is_never_in_a_batch():
    """Before the handshake no batch is taken at all; after it, initialize is refused in one like anywhere."""
    pair = Pair(WITH)
    opening = pair.client.initialize(WITH)
    assert error_of(pair.server.receive(batch(opening.data)))["error"]["code"] == -32600
    assert pair.server.revision is None
    opened = Pair.opened(WITH)
    event = opened.server.receive(batch(opening.data.replace(b'"id":1', b'"id":9')))
    assert isinstance(event, Batch)
    assert error_of(event.events[0])["error"]["code"] == -32600


@pytest.mark.parametrize("revision", LEGACY)
def test_an_empty_batch_is_an_invalid_request(revision):
    """JSON-RPC 2.0: one error object, not an array."""
    assert error_of(Pair.opened(revision).server.receive(b" [ ] "))["error"]["code"] == -32600


def test_a_batch_that_is_no_json_is_a_parse_error():
    """One error for all of it."""
    assert error_of(Pair.opened(WITH).server.receive(b'[{"jsonrpc":"2.0","id":1,"method":"ping"},'))["error"][
        "code"
    ] == (-32700)


def test_a_batch_has_a_bounded_number_of_messages():
    """What is beyond is refused whole."""
    pair = Pair.opened(WITH)
    assert isinstance(pair.server.receive(batch(*[call(i) for i in range(MAX_BATCH)])), Batch)
    reply = error_of(Pair.opened(WITH).server.receive(batch(*[call(i) for i in range(MAX_BATCH + 1)])))
    assert str(MAX_BATCH) in reply["error"]["message"]


@pytest.mark.requirement("base.jsonrpc")
def test_what_is_no_message_in_a_batch_is_refused_by_itself():
    """Each with its own error, and its id where that can be read; the good ones are served."""
    event = Pair.opened(WITH).server.receive(batch(b"1", b"[]", b'{"id":5}', b"null", call(6)))
    assert isinstance(event, Batch)
    refused = [error_of(each) for each in event.events[:4]]
    assert [reply["error"]["code"] for reply in refused] == [-32600] * 4
    assert [reply["id"] for reply in refused] == [None, None, 5, None]
    assert isinstance(event.events[4], Request)


@pytest.mark.requirement("base.id-unique")
def test_the_same_id_twice_in_a_batch_is_refused_once():
    """The first one is served."""
    event = Pair.opened(WITH).server.receive(batch(call(1), call(1)))
    assert isinstance(event, Batch)
    assert isinstance(event.events[0], Request)
    assert error_of(event.events[1])["id"] == 1


def test_an_unreadable_reply_in_a_batch_reaches_whoever_waits():
    """As it would outside of one."""
    pair = Pair.opened(WITH)
    outgoing, request = pair.call()
    other, _ = pair.call()
    event = pair.client.receive(
        batch(
            b'{"jsonrpc":"2.0","id":%d,"error":{}}' % outgoing.id,
            pair.server.reply(request, CallToolResult(content=[])) or b"",
        )
    )
    assert isinstance(event, Batch)
    assert isinstance(event.events[0], Replied)
    assert event.events[0].problem
    assert list(pair.client.outgoing) == [other.id]


def test_a_batch_nested_too_deep_is_refused():
    """By its depth, before it is taken apart."""
    reply = error_of(Pair.opened(WITH).server.receive(b"[" * 200 + b"]" * 200))
    assert reply["error"]["code"] == -32600
