"""Messages find the open request they belong to, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.protocol.events import Answered, Batch, Cancelled, Ignored, Notified, Replied
from antiphon.wire.common import EmptyResult, RequestParams
from antiphon.wire.revisions import LATEST_LEGACY, REVISIONS
from antiphon.wire.tools import CallToolResult
from tests.support.pair import Pair, frame

DONE = CallToolResult(content=[])


@pytest.mark.requirement("base.id-unique")
def test_our_ids_never_repeat():
    """Requests and asks are numbered for the life of a session, whatever became of them."""
    pair = Pair.opened(LATEST_LEGACY)
    seen: list[Any] = []
    for _ in range(5):
        outgoing, request = pair.call()
        seen.append(outgoing.id)
        pair.reply(request, DONE)
    ids = [
        message["id"] for side, message in pair.frames if side == "client" and "method" in message and "id" in message
    ]
    assert len(ids) == len(set(ids)) == 6
    assert seen == ids[1:]


@pytest.mark.requirement("base.reply-same-id", "base.reply-result-or-error")
@pytest.mark.parametrize("revision", REVISIONS)
def test_replies_find_their_requests_in_any_order(revision):
    """Ten requests answered backwards: each reply is reported with the request it belongs to."""
    pair = Pair.opened(revision)
    calls = [pair.call() for _ in range(10)]
    for outgoing, request in reversed(calls):
        replied = pair.reply(request, DONE)
        assert replied.outgoing is outgoing
        assert (replied.error, replied.problem) == (None, None)
    pair.check_empty()


MISFITS = [
    {"id": 77, "result": {}},
    {"id": "x", "result": {}},
    {"id": None, "result": {"content": []}},
    {"id": True, "result": {}},
    {"id": [2], "result": {}},
    {"error": {"code": -32600, "message": "?"}},
    {"id": 77, "result": 1, "error": 2},
]


@pytest.mark.parametrize("members", MISFITS)
def test_a_reply_that_may_be_meant_for_several_requests_is_ignored(members):
    """No id, an id never used, an id of another type: it is not known whose reply it is."""
    pair = Pair.opened(LATEST_LEGACY)
    calls = [pair.call() for _ in range(2)]
    assert isinstance(pair.client.receive(frame(**members)), Ignored)
    for _outgoing, request in calls:
        assert pair.reply(request, DONE).result is not None


@pytest.mark.parametrize("members", MISFITS)
def test_a_reply_that_can_be_meant_for_one_request_only_fails_it(members):
    """It would wait for its deadline otherwise."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _request = pair.call()
    replied = pair.client.receive(frame(**members))
    assert isinstance(replied, Replied)
    assert replied.outgoing is outgoing
    assert replied.error is not None or replied.problem is not None


def test_an_id_that_became_text_is_still_the_id():
    """Servers that keep ids as text answer with it, and every official SDK takes that; so is the token of progress."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, _, _ = [pair.call(wants_progress=True)[0] for _ in range(3)]
    told = {"progressToken": str(outgoing.id), "progress": 1}
    assert isinstance(pair.client.receive(frame(method="notifications/progress", params=told)), Notified)
    replied = pair.client.receive(frame(id=str(outgoing.id), result={"content": []}))
    assert isinstance(replied, Replied)
    assert replied.outgoing is outgoing
    assert (bytes(replied.result or b""), replied.error, replied.problem) == (b'{"content": []}', None, None)


SPOILT = [
    b'{"jsonrpc":"2.0","id":%d}',
    b'[{"jsonrpc":"2.0","id":%d,"result":{}}]',
    b'{"jsonrpc":"2.0","id":%d,"method":"sampling/createMessage","result":{}}',
    b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","error":{"code":-1,"message":"no"}}',
    b'{"jsonrpc":"2.0","id":%d,"result":' + b"[" * 9_000 + b"]" * 9_000 + b"}",
]


@pytest.mark.parametrize("revision", [LATEST_LEGACY, REVISIONS[-1]])
@pytest.mark.parametrize("text", SPOILT)
def test_a_spoilt_reply_fails_its_request_on_either_side(text, revision):
    """Of several open requests only that of its id, and the peer's own requests go on."""
    pair = Pair.opened(revision)
    calls = [pair.call() for _ in range(2)]
    asks = [pair.ask(calls[0][1], "roots/list", RequestParams())[0]] if not revision.modern else []
    for session, outgoing in [(pair.client, calls[1][0]), *((pair.server, ask) for ask in asks)]:
        event = session.receive(text % outgoing.id)
        [replied] = event.events if isinstance(event, Batch) else [event]
        assert isinstance(replied, Replied)
        assert replied.outgoing is outgoing
        assert replied.problem
    assert pair.reply(calls[0][1], DONE).result is not None


def test_a_batch_with_replies_to_nobody_is_refused():
    """As any batch where there are none."""
    pair = Pair.opened(LATEST_LEGACY)
    pair.call()
    assert isinstance(pair.client.receive(b'[{"jsonrpc":"2.0","id":77,"result":{}}, 1, {"id":2}]'), Answered)
    assert len(pair.client.outgoing) == 1


def test_a_late_reply_fails_no_other_request():
    """Its id was used, so it belongs to a request that has ended."""
    pair = Pair.opened(LATEST_LEGACY)
    late, _ = pair.call()
    pair.client.cancel(late.id)
    outgoing, _request = pair.call()
    for id in (late.id, str(late.id)):
        assert isinstance(pair.client.receive(frame(id=id, result={"content": []})), Ignored)
    assert list(pair.client.outgoing) == [outgoing.id]


def test_a_client_that_could_not_read_something_fails_no_ask():
    """Other code of a server may have printed it between the messages."""
    pair = Pair.opened(LATEST_LEGACY)
    _, request = pair.call()
    pair.ask(request, "roots/list", RequestParams())
    assert isinstance(pair.server.receive(frame(id=None, error={"code": -32700, "message": "?"})), Ignored)
    assert isinstance(pair.server.receive(frame(id=77, error={"code": -32700, "message": "?"})), Replied)


def test_a_second_reply_is_ignored():
    """The first one settles the request."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call()
    pair.reply(request, DONE)
    assert isinstance(pair.client.receive(frame(id=outgoing.id, result={})), Ignored)


def test_a_cancelled_request_reports_its_reason():
    """The reason is for the log of whoever stops."""
    pair = Pair.opened(LATEST_LEGACY)
    outgoing, request = pair.call("tools/list")
    event = pair.cancel(pair.client, outgoing, "the user left")
    assert isinstance(event, Cancelled)
    assert (event.request, event.reason, request.cancelled) == (request, "the user left", True)
    assert pair.server.reply(request, EmptyResult()) is None
