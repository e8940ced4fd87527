"""Resources and their templates: what a server lets a client read."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import field

from antiphon.wire import common
from antiphon.wire.content import ResourceContents, ResourceDescription


class Resource(ResourceDescription, frozen=True, kw_only=True):
    """Definition of a resource that can be read."""


class ResourceTemplate(common.Wire, frozen=True, kw_only=True):
    """Definition of a family of resources: a URI with gaps to fill (RFC 6570)."""

    uri_template: str
    name: str
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    annotations: common.Annotations | None = None
    icons: Sequence[common.Icon] | None = None
    meta: common.Meta | None = field(name="_meta", default=None)


class ListResourcesResult(common.PaginatedResult, frozen=True, kw_only=True):
    """Result of ``resources/list``."""

    resources: Sequence[Resource]


class ListResourceTemplatesResult(common.PaginatedResult, frozen=True, kw_only=True):
    """Result of ``resources/templates/list``."""

    resource_templates: Sequence[ResourceTemplate]


class ReadResourceRequestParams(common.RoundParams, frozen=True, kw_only=True):
    """Params of ``resources/read``."""

    uri: str


class ReadResourceResult(common.CacheableResult, frozen=True, kw_only=True):
    """Result of ``resources/read``: several contents when the URI stands for several (a folder)."""

    contents: Sequence[ResourceContents]


class SubscribeRequestParams(common.RequestParams, frozen=True, kw_only=True):
    """Params of ``resources/subscribe`` (up to 2025-11-25)."""

    uri: str


class UnsubscribeRequestParams(common.RequestParams, frozen=True, kw_only=True):
    """Params of ``resources/unsubscribe`` (up to 2025-11-25)."""

    uri: str


class ResourceUpdatedNotificationParams(common.NotificationParams, frozen=True, kw_only=True):
    """Params of ``notifications/resources/updated``: read it again."""

    uri: str
