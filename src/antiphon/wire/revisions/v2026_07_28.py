"""Revision 2026-07-28: members that only legacy revisions have are left out, and cache hints are always given."""

from __future__ import annotations

from msgspec.structs import replace

from antiphon.wire.common import CacheableResult, RootsCapability
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.lifecycle import CancelledNotificationParams, ServerCapabilities
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions.lowering import Difference, not_in
from antiphon.wire.roots import ListRootsResult
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams, Tool

NAME = "2026-07-28"


def _with_cache_hints(result: CacheableResult, _revision: str) -> CacheableResult:
    """Forbid caching unless the author allowed it (server/utilities/caching: both members are required)."""
    if result.ttl_ms is not None and result.cache_scope is not None:
        return result
    return replace(result, ttl_ms=result.ttl_ms or 0, cache_scope=result.cache_scope or "private")


def with_request_id(cancelled: CancelledNotificationParams, revision: str) -> CancelledNotificationParams:
    """Refuse a cancellation without a request id, which only tasks, and so 2025-11-25 alone, can use."""
    if cancelled.request_id is None:
        raise not_in("A cancellation without a requestId", revision)
    return cancelled


DIFFERENCE = Difference(
    lacks={
        CallToolRequestParams: ("task",),
        CreateMessageRequestParams: ("meta",),
        ElicitRequestParams: ("meta", "elicitation_id"),
        ElicitResult: ("meta",),
        ListRootsResult: ("meta",),
        RootsCapability: ("list_changed",),
        ServerCapabilities: ("tasks",),
        Tool: ("execution",),
    },
    changes={
        CancelledNotificationParams: with_request_id,
        **{row.result: _with_cache_hints for row in METHODS.values() if row.cacheable and row.result},
    },
)
