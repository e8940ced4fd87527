"""The method table: one row for each request and notification of the five revisions.

Owns who may send what, when, and with which types. Tasks are those of the extension; where the experiment of
2025-11-25 has a message of the same name, it is the same row.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, Literal

from msgspec import Struct

from antiphon.wire import lifecycle, resources, skills
from antiphon.wire.common import EmptyResult, NotificationParams, PaginatedParams, RequestParams, Result, Wire
from antiphon.wire.completion import CompleteRequestParams, CompleteResult
from antiphon.wire.elicitation import ElicitationCompleteNotificationParams, ElicitRequestParams, ElicitResult
from antiphon.wire.logging import LoggingMessageNotificationParams, SetLevelRequestParams
from antiphon.wire.prompts import GetPromptRequestParams, GetPromptResult, ListPromptsResult
from antiphon.wire.roots import ListRootsResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.subscriptions import (
    SubscriptionsAcknowledgedNotificationParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from antiphon.wire.task import TASKS, ExperimentalTask, GetTaskResult, TaskParams, UpdateTaskParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult

Kind = Literal["request", "notification"]
Side = Literal["client", "server"]
Direction = Literal["client", "server", "both"]

_FIRST = "2024-11-05"
_COMPLETIONS = "2025-03-26"
_ELICITATION = "2025-06-18"
_URL_ELICITATION = "2025-11-25"
_EXPERIMENT = "2025-11-25"
_LAST_LEGACY = "2025-11-25"
_MODERN = "2026-07-28"


class MethodSpec(Struct, frozen=True, kw_only=True):
    """What the protocol says about one method."""

    name: str
    kind: Kind
    direction: Direction
    """Who sends it, in revisions in which it is a message of its own."""
    params: type[Wire]
    result: type[Wire] | None = None
    """Type of the result; ``None`` for a notification."""
    since: str = _FIRST
    """First revision that has it."""
    until: str | None = None
    """Last revision that has it; ``None`` if the newest one does."""
    needs: str | None = None
    """Capability that the receiver must have declared, as a dotted path; see ``needed``."""
    needs_since: str = _FIRST
    """First revision that has this capability, and so requires it."""
    client_until: str | None = None
    """Last revision in which the client sends it too, if ``direction`` is "both" and only the server goes on sending
    it."""
    ask: bool = False
    """A question of the server: a request in legacy revisions, an entry of ``inputRequests`` in modern ones."""
    rounds: bool = False
    """May be answered by an ``InputRequiredResult`` (modern)."""
    cacheable: bool = False
    """Its result may carry ``ttlMs`` and ``cacheScope`` (modern)."""
    deprecated_since: str | None = None
    """First revision that deprecates it, although it is still served; ``None`` if none does."""
    extension: str | None = None
    """The extension that it belongs to, which the server, for tasks also the client, must have declared in modern
    revisions; ``None`` for the protocol itself."""
    setting: str | None = None
    """The setting of the extension that must be true in the declaration; ``None`` if no setting matters."""

    def exists_in(self, revision: str) -> bool:
        """Return whether a revision has this method, if only inside ``inputRequests``."""
        return self.since <= revision and (self.until is None or revision <= self.until)

    def note_sender(self, side: Side, revision: str) -> bool:
        """Return whether one side may send this as a message of its own in a revision."""
        if not self.exists_in(revision) or self.direction not in (side, "both"):
            return False
        if self.ask and revision >= _MODERN:
            return False
        return side == "server" or self.client_until is None or revision <= self.client_until

    def needed(self, revision: str) -> str | None:
        """Return the capability that the receiver must have declared in this revision, as a dotted path, if any."""
        return self.needs if revision >= self.needs_since else None


def _define_request(
    name: str, params: type[Wire], result: type[Wire], *, by: Direction = "client", **more: Any
) -> MethodSpec:
    """Make the row of a request; ``more``: members of the row."""
    return MethodSpec(name=name, kind="request", direction=by, params=params, result=result, ask=by == "server", **more)


def _define_notice(
    name: str, params: type[Wire] = NotificationParams, *, by: Direction = "server", **more: Any
) -> MethodSpec:
    """Make the row of a notification, likewise."""
    return MethodSpec(name=name, kind="notification", direction=by, params=params, **more)


_LIFECYCLE = (
    _define_request("initialize", lifecycle.InitializeRequestParams, lifecycle.InitializeResult, until=_LAST_LEGACY),
    _define_notice("notifications/initialized", by="client", until=_LAST_LEGACY),
    _define_request("server/discover", RequestParams, lifecycle.DiscoverResult, since=_MODERN, cacheable=True),
    _define_request("ping", RequestParams, EmptyResult, by="both", until=_LAST_LEGACY),
    _define_notice("notifications/cancelled", lifecycle.CancelledNotificationParams, by="both"),
    _define_notice(
        "notifications/progress", lifecycle.ProgressNotificationParams, by="both", client_until=_LAST_LEGACY
    ),
    _define_request("logging/setLevel", SetLevelRequestParams, EmptyResult, until=_LAST_LEGACY, needs="logging"),
    _define_notice("notifications/message", LoggingMessageNotificationParams),
)

_TOOLS = (
    _define_request("tools/list", PaginatedParams, ListToolsResult, needs="tools", cacheable=True),
    _define_request("tools/call", CallToolRequestParams, CallToolResult, needs="tools", rounds=True),
    _define_notice("notifications/tools/list_changed"),
)

_PROMPTS = (
    _define_request("prompts/list", PaginatedParams, ListPromptsResult, needs="prompts", cacheable=True),
    _define_request("prompts/get", GetPromptRequestParams, GetPromptResult, needs="prompts", rounds=True),
    _define_notice("notifications/prompts/list_changed"),
    # Completion is older than its capability: in the first revision a server cannot declare it.
    _define_request(
        "completion/complete", CompleteRequestParams, CompleteResult, needs="completions", needs_since=_COMPLETIONS
    ),
)

_resource_request = partial(_define_request, needs="resources")
_watch_request = partial(_define_request, result=EmptyResult, until=_LAST_LEGACY, needs="resources.subscribe")
_RESOURCES = (
    _resource_request("resources/list", PaginatedParams, resources.ListResourcesResult, cacheable=True),
    _resource_request(
        "resources/templates/list", PaginatedParams, resources.ListResourceTemplatesResult, cacheable=True
    ),
    _resource_request(
        "resources/read", resources.ReadResourceRequestParams, resources.ReadResourceResult, rounds=True, cacheable=True
    ),
    _watch_request("resources/subscribe", resources.SubscribeRequestParams),
    _watch_request("resources/unsubscribe", resources.UnsubscribeRequestParams),
    _define_notice("notifications/resources/list_changed"),
    _define_notice("notifications/resources/updated", resources.ResourceUpdatedNotificationParams),
    _define_request("subscriptions/listen", SubscriptionsListenRequestParams, SubscriptionsListenResult, since=_MODERN),
    _define_notice(
        "notifications/subscriptions/acknowledged", SubscriptionsAcknowledgedNotificationParams, since=_MODERN
    ),
)

_ASKS = (
    _define_request(
        "sampling/createMessage",
        CreateMessageRequestParams,
        CreateMessageResult,
        by="server",
        needs="sampling",
        deprecated_since=_MODERN,
    ),
    _define_request(
        "elicitation/create", ElicitRequestParams, ElicitResult, by="server", since=_ELICITATION, needs="elicitation"
    ),
    _define_notice(
        "notifications/elicitation/complete",
        ElicitationCompleteNotificationParams,
        since=_URL_ELICITATION,
        until=_URL_ELICITATION,
    ),
    _define_request("roots/list", RequestParams, ListRootsResult, by="server", needs="roots", deprecated_since=_MODERN),
    _define_notice("notifications/roots/list_changed", by="client", until=_LAST_LEGACY),
)

_TASKS = (
    _define_request("tasks/get", TaskParams, GetTaskResult, since=_EXPERIMENT, needs="tasks", extension=TASKS),
    _define_request("tasks/update", UpdateTaskParams, EmptyResult, since=_MODERN, extension=TASKS),
    _define_request("tasks/cancel", TaskParams, EmptyResult, since=_EXPERIMENT, needs="tasks.cancel", extension=TASKS),
    _define_request("tasks/result", TaskParams, CallToolResult, since=_EXPERIMENT, until=_EXPERIMENT, needs="tasks"),
    _define_notice("notifications/tasks", GetTaskResult, since=_MODERN, extension=TASKS),
    _define_notice("notifications/tasks/status", ExperimentalTask, since=_EXPERIMENT, until=_EXPERIMENT),
)

_skill_request = partial(_define_request, since=_MODERN, extension=skills.SKILLS)
_SKILLS = (
    _skill_request("skills/list", PaginatedParams, skills.ListSkillsResult, cacheable=True),
    _skill_request("skills/get", skills.GetSkillRequestParams, skills.GetSkillResult, cacheable=True),
    _skill_request(
        "resources/directory/read",
        skills.ReadDirectoryRequestParams,
        skills.ReadDirectoryResult,
        setting=skills.DIRECTORY_READ,
    ),
)

METHODS: Mapping[str, MethodSpec] = MappingProxyType(
    {row.name: row for row in (*_LIFECYCLE, *_TOOLS, *_PROMPTS, *_RESOURCES, *_ASKS, *_TASKS, *_SKILLS)}
)
"""Every method and notification, by name."""


def unknown_request(name: str) -> MethodSpec:
    """Return a row for a request of an extension, which this library passes on without knowing it."""
    return MethodSpec(name=name, kind="request", direction="both", params=RequestParams, result=Result)


def unknown_notification(name: str) -> MethodSpec:
    """Return a row for a notification of an extension, likewise."""
    return MethodSpec(name=name, kind="notification", direction="both", params=NotificationParams)


MAX_NAME = 256
"""Most characters of the name of a method that is passed on; those of the protocol have fewer than 50."""


spec = METHODS.get
"""Return the row of a method, or ``None`` if no revision has it."""
