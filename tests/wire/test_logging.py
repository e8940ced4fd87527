"""Levels of log messages."""

from __future__ import annotations

import pytest

from antiphon.wire.common import LOGGING_LEVELS as LEVELS
from antiphon.wire.envelope import encode_value
from antiphon.wire.logging import LoggingMessageNotificationParams, is_loud_enough


def test_levels_go_up():
    """From debug to emergency (RFC 5424)."""
    assert LEVELS[0] == "debug"
    assert LEVELS[-1] == "emergency"
    assert LEVELS.index("warning") < LEVELS.index("error")


@pytest.mark.parametrize(
    ("level", "threshold", "passes"), [("info", "info", True), ("debug", "info", False), ("alert", "error", True)]
)
def test_thresholds(level, threshold, passes):
    """A message as severe as the threshold passes."""
    assert is_loud_enough(level, threshold) is passes


@pytest.mark.parametrize("data", ["text", {"a": 1}, None, 0, []])
def test_data_is_any_json(data):
    """Even null is written, since the member is required."""
    assert b'"data":' in encode_value(LoggingMessageNotificationParams(level="info", data=data))
