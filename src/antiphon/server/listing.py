"""Lists, page by page, encoded once per revision and cached until the registry changes.

The features of a mounted server without middleware are in the registry. A mounted server whose middleware may answer is
asked for its list each time; its pages come after those of the registry.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, get_args

from msgspec import Raw, Struct, structs

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError, InvalidParams
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.core import Core
from antiphon.server.features.checked_options import ServedFeature
from antiphon.server.features.registry import Registry
from antiphon.server.features.tools import Requirement
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
Hidden = Callable[[Request], frozenset[str]]
"""Returns the requirements whose tools are hidden from a client."""

Scopes = tuple[str, ...]
"""The scopes that one item requires."""

_NOTHING: frozenset[str] = frozenset()
_OPEN: frozenset[Scopes] = frozenset()
_REQUIREMENTS: tuple[Requirement, ...] = get_args(Requirement)


class _List(Struct, eq=False):
    """One list: its registry, the type of its pages, and the pages encoded so far."""

    _core: Core
    _mounts: Mounts
    _size: int
    _registry: Registry[Any]
    _page: type[PaginatedResult]
    _items: str
    """The member of a page that holds its items."""
    _hidden: Hidden | None = None
    _version: int = -1
    _pages: dict[tuple[object, ...], Raw] = {}
    _required: frozenset[Scopes] = _OPEN
    """The sets of scopes that items require, each once."""
    _guarded: Sequence[ServedFeature] = ()
    """The items that only some principals see."""

    def serve(self, request: Request, peer: Peer) -> Raw | CoroutineType[Any, Any, PaginatedResult]:
        """Return the page the request wants."""
        if self._mounts.answering:
            return self._join_pages(request, peer)
        params: PaginatedParams = request.params
        if self._version != self._registry.version or len(self._pages) >= _MAX_KEPT:
            self._pages.clear()
            self._note_limited()
        hidden = self._hidden(request) if self._hidden is not None else _NOTHING
        closed = self._list_closed_scopes(request.caller) if self._required else _OPEN
        unseen = frozenset(item for item in self._guarded if item.is_hidden_from(peer.principal))
        is_private = peer.principal is not None or bool(self._guarded)
        key = (request.revision.name, params.cursor, hidden, closed, unseen, is_private)
        page = self._pages.get(key)
        if page is None:
            shown, after = self._filter_visible(params.cursor, hidden, closed, unseen)
            result = self._build([item.definition for item in shown], after, is_private=is_private)
            page = self._pages[key] = Raw(encode_value(request.revision.lower(result)))
        return page

    def _note_limited(self) -> None:
        """Note which items are not for everybody."""
        self._version = self._registry.version
        self._required = frozenset(item.scopes for item in self._registry if item.scopes)
        self._guarded = [item for item in self._registry if item.visible is not None]

    def _build(self, found: Sequence[Any], after: str | None, *, is_private: bool = True) -> PaginatedResult:
        members: dict[str, Any] = {self._items: found, "next_cursor": after}
        return self._page(**members, **self._core.give_cache_hints(None, is_private=is_private))

    def _filter_visible(
        self, cursor: str | None, hidden: frozenset[str], closed: frozenset[Scopes], unseen: frozenset[ServedFeature]
    ) -> tuple[Sequence[Any], str | None]:
        found = self._registry.page(cursor, self._size)
        shown = [item for item in found.items if item.is_listed and not (hidden and item.requires in hidden)]
        if closed:
            shown = [item for item in shown if item.scopes not in closed]
        if unseen:
            shown = [item for item in shown if item not in unseen]
        return shown, found.next_cursor

    async def _join_pages(self, request: Request, peer: Peer) -> PaginatedResult:
        """Return a page of the registry's items, followed by items of mounted servers that answer themselves."""
        params: PaginatedParams = request.params
        place = _decode_cursor(params.cursor, len(self._mounts.all))
        found: list[Any] = []
        if place is None:
            hidden = self._hidden(request) if self._hidden is not None else _NOTHING
            self._note_limited()
            closed = self._list_closed_scopes(request.caller)
            unseen = frozenset(item for item in self._guarded if item.is_hidden_from(peer.principal))
            shown, after = self._filter_visible(params.cursor, hidden, closed, unseen)
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

    def _list_closed_scopes(self, caller: Caller | None) -> frozenset[Scopes]:
        """Return the scopes that hide items: such a list must stay private (2026-07-28 server/utilities/caching)."""
        if caller is None or not caller.sees_only_allowed:
            return _OPEN
        return frozenset(scopes for scopes in self._required if not caller.has(scopes))


def _decode_cursor(cursor: str | None, mounts: int) -> tuple[int, str | None] | None:
    """Decode a cursor: the mount that the page begins with, and its own cursor; ``None`` if it is the registry's."""
    if cursor is None or not cursor.startswith(_MOUNTED):
        return None
    at, mark, inner = cursor.removeprefix(_MOUNTED).partition(".")
    # No number of ours has more digits; a longer text would cost time to read.
    if not mark or len(at) > 6 or not (at.isascii() and at.isdigit()) or int(at) >= mounts:
        raise InvalidParams("Invalid cursor")
    return int(at), inner or None


class Pages:
    """The five lists of a server, as handlers."""

    def __init__(self, core: Core, size: int, mounts: Mounts) -> None:
        if type(size) is not int or size < 1:
            raise ConfigError(f"page_size= must be a whole number of at least 1, got {size!r}")
        features, make = core.features, partial(_List, core, mounts, size)
        self.tools = make(features.tools, ListToolsResult, "tools", partial(_out_of_reach, core)).serve
        self.prompts = make(features.prompts, ListPromptsResult, "prompts").serve
        self.resources = make(features.resources, ListResourcesResult, "resources").serve
        self.templates = make(features.templates, ListResourceTemplatesResult, "resource_templates").serve
        self.skills = make(features.served_skills, ListSkillsResult, "skills").serve


def _out_of_reach(core: Core, request: Request) -> frozenset[str]:
    """Return the requirements that this client does not meet; tools with these are not listed."""
    # 2026-07-28 server/tools: lists do not vary by connection; calling such a tool is refused with -32021.
    if request.revision.modern:
        return _NOTHING
    return frozenset(needed for needed in _REQUIREMENTS if not core.can_serve(needed, request))
