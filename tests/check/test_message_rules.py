"""What is a message, and what may be sent."""

from __future__ import annotations

import pytest

from antiphon.check.message_rules import find_envelope_faults, is_id, needs_declaration


@pytest.mark.parametrize(
    "message",
    [
        {"jsonrpc": "2.0", "id": "a", "result": {}},
        {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "no JSON"}},
        {"jsonrpc": "2.0", "method": "notifications/x"},
        {"jsonrpc": "2.0", "id": 0, "method": "ping", "params": {}},
    ],
)
def test_a_right_message_has_no_fault(message: object):
    """Responses, errors without an id, notifications and requests."""
    assert list(find_envelope_faults(message)) == []


def test_a_truth_value_is_no_id():
    """True is not 1."""
    assert [is_id(one) for one in (1, "", True, 1.5, None)] == [True, True, False, False, False]


def test_a_notification_needs_what_declares_it():
    """Its capability, and the member of it; others need nothing."""
    assert needs_declaration("notifications/message", {}) == "logging"
    assert needs_declaration("notifications/message", {"logging": {}}) == ""
    assert needs_declaration("notifications/tools/list_changed", {"tools": {}}) == "tools"
    assert needs_declaration("notifications/progress", {}) == ""
