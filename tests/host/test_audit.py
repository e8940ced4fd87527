"""The record of what happened."""

from __future__ import annotations

from antiphon.host.audit import Audit
from tests.host.asks import origin


def test_steps_are_kept_in_order_and_by_ask():
    """Oldest first; the steps of one ask can be picked out."""
    audit = Audit()
    audit.note(origin("1"), "sampling/createMessage", "received")
    audit.note(origin("2"), "sampling/createMessage", "received")
    audit.note(origin("1"), "sampling/createMessage", "refused", "policy", "abc")
    assert [record.step for record in audit.records("1")] == ["received", "refused"]
    last = audit.records()[-1]
    assert (last.identity, last.outcome, last.digest) == (origin().identity, "policy", "abc")
    assert last.at > 1e9


def test_the_record_is_bounded():
    """A server that asks for ever cannot fill the memory."""
    audit = Audit()
    for _ in range(10_005):
        audit.note(origin(), "sampling/createMessage", "received")
    assert len(audit.records()) == 10_000
