"""Log messages from server to client, and their levels (deprecated at 2026-07-28)."""

from __future__ import annotations

from typing import Any

from antiphon.wire.common import LOGGING_LEVELS, LoggingLevel, NotificationParams, RequestParams

__all__ = ["LoggingLevel", "LoggingMessageNotificationParams", "SetLevelRequestParams", "is_loud_enough"]

_SEVERITY = {level: place for place, level in enumerate(LOGGING_LEVELS)}


class SetLevelRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``logging/setLevel``: the least severe level to send."""

    level: LoggingLevel


class LoggingMessageNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/message``. ``data`` is any JSON, such as a string or an object."""

    level: LoggingLevel
    data: Any
    logger: str | None = None


def is_loud_enough(level: LoggingLevel, threshold: LoggingLevel) -> bool:
    """Return whether a message of ``level`` is severe enough for a client that set ``threshold``."""
    return _SEVERITY[level] >= _SEVERITY[threshold]
