"""Subscriptions: one long request during which a server sends notifications of changes (from 2026-07-28)."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.wire.common import NotificationParams, RequestParams, Result, Wire


class SubscriptionFilter(Wire, frozen=True, kw_only=True):
    """What the client subscribes to, or the part of it that the server accepts."""

    tools_list_changed: bool | None = None
    prompts_list_changed: bool | None = None
    resources_list_changed: bool | None = None
    resource_subscriptions: Sequence[str] | None = None
    """URIs."""
    task_ids: Sequence[str] | None = None
    """Tasks, if both sides have the extension."""


class SubscriptionsListenRequestParams(RequestParams, frozen=True, kw_only=True):
    """Params of ``subscriptions/listen``."""

    notifications: SubscriptionFilter


class SubscriptionsAcknowledgedNotificationParams(NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/subscriptions/acknowledged``: the first message under a subscription."""

    notifications: SubscriptionFilter


class SubscriptionsListenResult(Result, frozen=True, kw_only=True):
    """Result of ``subscriptions/listen``, at its end. ``meta`` has the subscription's id, like all its messages."""
