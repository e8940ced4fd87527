"""Messages find the open request they belong to, and only that."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.protocol.events import Cancelled, Ignored
from antiphon.wire.common import EmptyResult
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


@pytest.mark.parametrize(
    "members",
    [
        {"id": 77, "result": {}},
        {"id": "1", "result": {}},
        {"id": None, "error": {"code": -32600, "message": "?"}},
        {"error": {"code": -32600, "message": "?"}},
        {"id": 77, "result": 1, "error": 2},
    ],
)
def test_a_reply_to_nothing_is_ignored(members):
    """No id, an id never used, an id of another type: nobody waits, and nobody answers a reply."""
    pair = Pair.opened(LATEST_LEGACY)
    _outgoing, request = pair.call()
    assert isinstance(pair.client.receive(frame(**members)), Ignored)
    assert pair.reply(request, DONE).result is not None


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
