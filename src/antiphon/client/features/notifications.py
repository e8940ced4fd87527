"""What the server tells without being asked: log messages and changes, handed to whoever wants them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Literal

from msgspec import Struct

from antiphon.client.features.cache import Cache
from antiphon.protocol.events import Notified
from antiphon.wire.common import SUBSCRIPTION_ID, NotificationParams
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.resources import ResourceUpdatedNotificationParams
from antiphon.wire.subscriptions import SubscriptionsAcknowledgedNotificationParams

if TYPE_CHECKING:
    from antiphon.client.features.subscriptions import Listening

__all__ = ["Change", "Notices", "OnLog"]

log = logging.getLogger("antiphon.client")

OnLog = Callable[[LoggingMessageNotificationParams], object]
"""Called with each log message; may be a coroutine function."""

_LISTS: dict[str, tuple[Literal["tools", "prompts", "resources"], tuple[str, ...]]] = {
    "notifications/tools/list_changed": ("tools", ("tools/list",)),
    "notifications/prompts/list_changed": ("prompts", ("prompts/list",)),
    "notifications/resources/list_changed": ("resources", ("resources/list", "resources/templates/list")),
}


class Change(Struct, frozen=True, kw_only=True):
    """Something of the server's has changed: a list, or the resource ``uri``."""

    kind: Literal["tools", "prompts", "resources", "resource"]
    uri: str | None = None


class Notices:
    """The notifications of one client's server."""

    def __init__(self, on_log: OnLog | None) -> None:
        self.cache: Cache | None = None
        self.on_tools_changed: Callable[[], object] | None = None
        self._on_log = on_log
        self._listening: list[Listening] = []

    def add(self, listening: Listening) -> None:
        """Tell a listener of changes from now on."""
        self._listening.append(listening)

    def remove(self, listening: Listening) -> None:
        """Tell a listener nothing more."""
        if listening in self._listening:
            self._listening.remove(listening)

    @property
    def uris(self) -> set[str]:
        """The resources that listeners want to hear of."""
        return {uri for listening in self._listening for uri in listening.uris}

    def take(self, event: Notified) -> object:
        """Take one notification; returns what a callback returned, to be awaited if it is a coroutine."""
        params = event.params
        if isinstance(params, LoggingMessageNotificationParams):
            return self._log(params)
        if isinstance(params, SubscriptionsAcknowledgedNotificationParams):
            self._acknowledged(params)
        elif isinstance(params, ResourceUpdatedNotificationParams):
            self._forget("resources/read", subject=params.uri)
            self._tell(Change(kind="resource", uri=params.uri), params)
        elif event.method.name in _LISTS:
            kind, methods = _LISTS[event.method.name]
            self._forget(*methods)
            if kind == "tools" and self.on_tools_changed is not None:
                self.on_tools_changed()
            self._tell(Change(kind=kind), params)
        return None

    def _log(self, params: LoggingMessageNotificationParams) -> object:
        if self._on_log is not None:
            return self._on_log(params)
        log.debug("server log [%s] %s", params.level, params.logger or "")
        return None

    def _forget(self, *methods: str, subject: str | None = None) -> None:
        if self.cache is not None:
            self.cache.drop(*methods, subject=subject)

    def _acknowledged(self, params: SubscriptionsAcknowledgedNotificationParams) -> None:
        for listening in self._listening:
            if listening.subscription is not None and listening.subscription == _tag(params):
                listening.acknowledged(params.notifications)

    def _tell(self, change: Change, params: NotificationParams) -> None:
        tag = _tag(params)
        for listening in self._listening:
            if tag is None or tag == listening.subscription:
                listening.tell(change)

    def ended(self) -> None:
        """Tell every listener that nothing more will come."""
        for listening in list(self._listening):
            listening.end()


def _tag(params: NotificationParams) -> object:
    return (params.meta or {}).get(SUBSCRIPTION_ID)
