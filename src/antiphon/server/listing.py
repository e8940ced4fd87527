"""Lists, page by page, encoded once per revision and cached until the registry changes.

The features of a mounted server without middleware are in the registry. A mounted server whose middleware may answer is
asked for its list each time; its pages come after those of the registry.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from types import CoroutineType
from typing import Any

from msgspec import Raw, Struct, structs

from antiphon.engine.connection import Connection, Handler
from antiphon.errors import ConfigError, InvalidParams
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.core import Core
from antiphon.server.features.registry import Registry
from antiphon.server.mounts import Mounts
from antiphon.wire.common import PaginatedParams, PaginatedResult
from antiphon.wire.envelope import encode_value
from antiphon.wire.prompts import ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult
from antiphon.wire.skills import ListSkillsResult
from antiphon.wire.tools import ListToolsResult

_MAX_KEPT = 256
"""Most encoded pages cached for one list, so that a client with made-up cursors cannot fill the memory."""

_MOUNTED = "mount."
"""Begins the cursors of pages from mounted servers; no cursor of a registry begins like this."""

Peer = Connection[ServerSession]
Limits = tuple[object, ...]
"""What an item demands of a client: a capability, the scopes of its token, and a principal that ``visible`` takes."""


class _List(Struct, eq=False):
    """One list: its registry, the type of its pages, and the pages encoded so far."""

    _core: Core
    _mounts: Mounts
    _size: int
    _registry: Registry[Any]
    _page: type[PaginatedResult]
    _items: str
    """The member of a page that holds its items."""
    _version: int = -1
    _pages: dict[tuple[object, ...], Raw] = {}
    _limited: dict[Limits, Any] = {}
    """The limits of items, each once, with one of the items that have them."""
    _is_guarded: bool = False
    """Whether there are items that only some principals see."""

    def serve(self, request: Request, peer: Peer) -> Raw | CoroutineType[Any, Any, PaginatedResult]:
        """Return the page the request wants."""
        if self._mounts.answering:
            return self._join_pages(request, peer)
        params: PaginatedParams = request.params
        if self._version != self._registry.version or len(self._pages) >= _MAX_KEPT:
            self._pages.clear()
            self._note_limited()
        closed = self._find_closed(request, peer)
        is_private = peer.principal is not None or self._is_guarded
        key = (request.revision.name, params.cursor, closed, is_private)
        page = self._pages.get(key)
        if page is None:
            shown, after = self._list_offered(params.cursor, closed)
            result = self._build([item.definition for item in shown], after, is_private=is_private)
            page = self._pages[key] = Raw(encode_value(request.revision.lower(result)))
        return page

    def _note_limited(self) -> None:
        """Note which items are not for everybody."""
        self._version = self._registry.version
        self._limited = {limits: item for item in self._registry if any(limits := _read_limits(item))}
        self._is_guarded = any(item.visible is not None for item in self._limited.values())

    def _build(self, found: Sequence[Any], after: str | None, *, is_private: bool = True) -> PaginatedResult:
        members: dict[str, Any] = {self._items: found, "next_cursor": after}
        return self._page(**members, **self._core.give_cache_hints(None, is_private=is_private))

    def _find_closed(self, request: Request, peer: Peer) -> frozenset[Limits]:
        """Return the limits that a client does not meet; items that have these are not listed."""
        return frozenset(limits for limits, item in self._limited.items() if self._is_closed(item, request, peer))

    def _is_closed(self, item: Any, request: Request, peer: Peer) -> bool:
        caller, needed = request.caller, getattr(item, "requires", None)
        # 2026-07-28 server/tools: lists do not vary by connection; calling such a tool is refused with -32021.
        if needed is not None and not request.revision.modern and not self._core.can_serve(needed, request):
            return True
        # A list that depends on scopes must stay private (2026-07-28 server/utilities/caching).
        if caller is not None and caller.sees_only_allowed and not caller.has(item.scopes):
            return True
        return item.visible is not None and item.is_hidden_from(peer.principal)

    def _list_offered(self, cursor: str | None, closed: frozenset[Limits]) -> tuple[Sequence[Any], str | None]:
        found = self._registry.page(cursor, self._size)
        shown = [item for item in found.items if item.is_listed and not (closed and _read_limits(item) in closed)]
        return shown, found.next_cursor

    async def _join_pages(self, request: Request, peer: Peer) -> PaginatedResult:
        """Return a page of the registry's items, followed by items of mounted servers that answer themselves."""
        params: PaginatedParams = request.params
        place = _decode_cursor(params.cursor, len(self._mounts.all))
        found: list[Any] = []
        if place is None:
            self._note_limited()
            shown, after = self._list_offered(params.cursor, self._find_closed(request, peer))
            asked = self._mounts.answering
            found = [item.definition for item in shown if item.via is None or item.via.mount not in asked]
            if after is not None:
                return self._build(found, after)
            place = 0, None
        first, inner = place
        for at, mount in list(enumerate(self._mounts.all))[first:]:
            if mount not in self._mounts.answering:
                continue
            if len(found) >= self._size:
                return self._build(found, f"{_MOUNTED}{at}.")
            page = await mount.behind.answer(structs.replace(params, cursor=inner), request, peer)
            for item in map(mount.listed, getattr(page, self._items)):
                # Leave out names that another server has.
                here = self._registry.get(
                    getattr(item, "uri_template", None) or getattr(item, "uri", None) or item.name
                )
                if here is None or (here.via is not None and here.via.mount is mount):
                    found.append(item)
            if page.next_cursor is not None:
                return self._build(found, f"{_MOUNTED}{at}.{page.next_cursor}")
            inner = None
        return self._build(found, None)


def _read_limits(item: Any) -> Limits:
    return getattr(item, "requires", None), item.scopes, id(item.visible) if item.visible is not None else 0


def _decode_cursor(cursor: str | None, mounts: int) -> tuple[int, str | None] | None:
    """Decode a cursor: the mount that the page begins with, and its own cursor; ``None`` if it is the registry's."""
    if cursor is None or not cursor.startswith(_MOUNTED):
        return None
    at, mark, inner = cursor.removeprefix(_MOUNTED).partition(".")
    # No number of ours has more digits; a longer text would cost time to read.
    if not mark or len(at) > 6 or not (at.isascii() and at.isdigit()) or int(at) >= mounts:
        raise InvalidParams("Invalid cursor")
    return int(at), inner or None


def make_lists(core: Core, size: int, mounts: Mounts) -> Mapping[str, Handler]:
    """Return the handlers of a server's lists, by method; ``size``: most items of a page."""
    if type(size) is not int or size < 1:
        raise ConfigError(f"page_size= must be a whole number of at least 1, got {size!r}")
    features, make = core.features, partial(_List, core, mounts, size)
    return {
        "tools/list": make(features.tools, ListToolsResult, "tools").serve,
        "prompts/list": make(features.prompts, ListPromptsResult, "prompts").serve,
        "resources/list": make(features.resources, ListResourcesResult, "resources").serve,
        "resources/templates/list": make(features.templates, ListResourceTemplatesResult, "resource_templates").serve,
        "skills/list": make(features.served_skills, ListSkillsResult, "skills").serve,
    }
