"""The handshake as a table."""

from __future__ import annotations

import pytest

from antiphon.protocol.states import ALLOWED_BEFORE_READY, TRANSITIONS, Phase


@pytest.mark.requirement("lifecycle.first")
def test_the_only_way_leads_from_new_over_answered_to_ready():
    """Two steps, each from one phase."""
    assert TRANSITIONS == {
        (Phase.NEW, "initialize"): Phase.ANSWERED,
        (Phase.ANSWERED, "notifications/initialized"): Phase.READY,
    }


def test_what_is_served_before_the_handshake_needs_none():
    """The handshake itself, a sign of life, and the question what the server speaks."""
    assert {"initialize", "ping", "server/discover"} == ALLOWED_BEFORE_READY
