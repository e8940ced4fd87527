"""What is stored and kept of a call, so that another process can go on with it."""

from __future__ import annotations

import json
import sys
from typing import Any

from msgspec import Raw

from antiphon.protocol import call_record
from antiphon.protocol.call_record import CallHead, CallRecord, EarlierAsk, EarlyReplies, Sent, first_id, read_head
from antiphon.wire.envelope import Envelope, decode_envelope


def frame(**members: Any) -> bytes:
    """Make a message."""
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


def reply(id: int, result: bytes = b"{}") -> Envelope:
    """Make a reply."""
    return decode_envelope(b'{"jsonrpc": "2.0", "id": %d, "result": %b}' % (id, result))


def test_a_head_tells_what_was_called():
    """Whoever reads it can begin the call again."""
    head = CallRecord(b"name").head(7, "tools/call", Raw(b'{"name": "x"}'))
    assert read_head(head.pack()) == head == CallHead([7], b"name", "tools/call", b'{"name": "x"}')


def test_a_call_that_is_too_large_is_not_recorded():
    """Only that it has to end."""
    head = CallRecord(b"name").head(7, "tools/call", Raw(b" " * (call_record.MAX_RECORDED + 1)))
    assert head == CallHead([7])


def test_what_is_no_head_is_none():
    """It may be of another release."""
    assert read_head(b"[7]") is None


def test_what_was_sent_is_read_from_the_events():
    """Questions, replies and progress; what cannot be read is left out."""
    sent = Sent(
        [
            frame(id=1, method="sampling/createMessage", params={"a": 1}),
            frame(method="notifications/progress", params={"progressToken": "p", "progress": 3}),
            frame(id=7, result={}),
            b"[]",
        ]
    )
    assert (sent.answered, sent.progress) == ({7}, 3)
    assert sent.asks == [EarlierAsk(1, "sampling/createMessage", b'{"a": 1}')]


def test_the_same_question_is_found_once():
    """A handler that asks it twice asks anew the second time."""
    record = CallRecord(b"name", asks=[EarlierAsk(1, "m", b"{}"), EarlierAsk(2, "m", b"{}")])
    found = [record.asked("m", b"{}") for _ in range(3)]
    assert [each and each.id for each in found] == [1, 2, None]


def test_early_replies_are_those_to_earlier_processes():
    """What replies to an ask of this one is none, nor is a request."""
    early = EarlyReplies(first_id(1))
    early.note(reply(first_id(1)))
    early.note(decode_envelope(frame(id=1, method="ping")))
    early.note(reply(2))
    assert early.take(first_id(1)) is early.take(1) is None
    assert early.take(2) == reply(2)
    assert early.take(2) is None


def test_early_replies_are_bounded():
    """In number and in size; the oldest make room."""
    early = EarlyReplies(first_id(1))
    for id in range(call_record.MAX_EARLY + 1):
        early.note(reply(id))
    assert early.take(0) is None
    assert early.take(1) is not None
    text = b'"%b"' % (b" " * (call_record.MAX_EARLY_BYTES // 2))
    early.note(reply(100, text))
    early.note(reply(101, text))
    assert early.take(100) is early.take(2) is None
    assert early.take(101) is not None


def test_errors_count_like_results():
    """A client decides what it answers with."""
    early = EarlyReplies(first_id(1))
    for id in (1, 2):
        data = "x" * (call_record.MAX_EARLY_BYTES // 2)
        early.note(decode_envelope(frame(id=id, error={"code": 1, "message": "no", "data": data})))
    assert early.take(1) is None
    assert early.take(2) is not None


def test_an_early_reply_keeps_no_more_than_its_result():
    """Members that nobody reads are not held with it."""
    early = EarlyReplies(first_id(1))
    data = frame(id=1, result={}, pad="x" * 1000)
    before = sys.getrefcount(data)
    early.note(decode_envelope(data))
    assert sys.getrefcount(data) == before
    kept = early.take(1)
    assert kept is not None
    assert bytes(kept.result) == b"{}"
