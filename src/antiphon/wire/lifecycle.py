"""Life of a session and its requests: handshake, discovery, capabilities, ping, progress, cancellation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from antiphon.wire import common


class ListChangedCapability(common.Wire, frozen=True, kw_only=True, gc=False):
    """The server has tools, or prompts; with ``list_changed`` it notifies clients when their list changes."""

    list_changed: bool | None = None


class ResourcesCapability(common.Wire, frozen=True, kw_only=True, gc=False):
    """The server has resources; it can notify clients when the list, or a resource they subscribed to, changes."""

    list_changed: bool | None = None
    subscribe: bool | None = None


class TasksCapability(common.Wire, frozen=True, kw_only=True):
    """Calls can become tasks, in the way of 2025-11-25; from 2026-07-28 they are an extension."""

    list: Mapping[str, Any] | None = None
    cancel: Mapping[str, Any] | None = None
    requests: Mapping[str, Any] | None = None


class ServerCapabilities(common.Wire, frozen=True, kw_only=True):
    """What a server offers. A capability is declared when it is not ``None``, however empty."""

    experimental: Mapping[str, Any] | None = None
    extensions: Mapping[str, Any] | None = None
    logging: Mapping[str, Any] | None = None
    completions: Mapping[str, Any] | None = None
    prompts: ListChangedCapability | None = None
    resources: ResourcesCapability | None = None
    tools: ListChangedCapability | None = None
    tasks: TasksCapability | None = None


class InitializeRequestParams(common.RequestParams, frozen=True, kw_only=True):
    """Params of ``initialize`` (up to 2025-11-25): the revision the client proposes, and its capabilities."""

    protocol_version: str
    capabilities: common.ClientCapabilities
    client_info: common.Implementation


class InitializeResult(common.Result, frozen=True, kw_only=True):
    """Result of ``initialize``: the revision that is used, and the server's capabilities."""

    protocol_version: str
    capabilities: ServerCapabilities
    server_info: common.Implementation
    instructions: str | None = None


class DiscoverResult(common.CacheableResult, frozen=True, kw_only=True):
    """Result of ``server/discover`` (from 2026-07-28). The server's name is in ``meta``, as in every result."""

    supported_versions: Sequence[str]
    capabilities: ServerCapabilities
    instructions: str | None = None


class CancelledNotificationParams(common.NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/cancelled``. Only for a task of 2025-11-25 is there no request id."""

    request_id: int | str | None = None
    reason: str | None = None


class ProgressNotificationParams(common.NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/progress``: ``progress`` only increases, in any unit the sender chooses."""

    progress_token: common.ProgressToken
    progress: int | float
    total: int | float | None = None
    message: str | None = None
