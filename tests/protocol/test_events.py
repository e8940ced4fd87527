"""The records that live as long as a request, and the collector of a batch's replies."""

from __future__ import annotations

import json

import pytest

from antiphon.protocol.events import BatchReplies, Outgoing, Replied
from antiphon.wire.methods import METHODS


@pytest.mark.requirement("base.batch")
def test_a_batch_is_answered_in_one_frame_when_nothing_is_missing():
    """The replies go out in the order they were given."""
    replies = BatchReplies(3)
    assert replies.add(b'{"id":2}') is None
    assert replies.add(b'{"id":1}') is None
    assert json.loads(replies.add(b'{"id":3}') or b"") == [{"id": 2}, {"id": 1}, {"id": 3}]


def test_a_cancelled_member_is_left_out():
    """The others do not wait for it."""
    replies = BatchReplies(2)
    assert replies.add(None) is None
    assert json.loads(replies.add(b'{"id":1}') or b"") == [{"id": 1}]


@pytest.mark.requirement("base.no-reply-to-notification")
def test_a_batch_with_nothing_to_answer_is_not_answered():
    """Not even with an empty array."""
    assert BatchReplies(1).add(None) is None


def test_a_reply_has_one_of_three():
    """A result, an error, or a reason why it has neither."""
    outgoing = Outgoing(1, METHODS["ping"], None, False, b"")
    replied = Replied(outgoing, None, None, "cannot be read")
    assert (replied.result, replied.error, replied.problem) == (None, None, "cannot be read")
