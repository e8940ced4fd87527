"""Lists, page by page, encoded once per revision and cached until the registry changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import ConfigError
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.core import Core
from antiphon.server.features.registry import Registry
from antiphon.server.features.tools import Requirement
from antiphon.wire.common import PaginatedParams, PaginatedResult
from antiphon.wire.envelope import encode
from antiphon.wire.prompts import ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult
from antiphon.wire.tools import ListToolsResult

__all__ = ["Pages"]

_MAX_KEPT = 256
"""Most encoded pages cached for one list, so that a client with made-up cursors cannot fill the memory."""

Build = Callable[[list[Any], str | None], PaginatedResult]
Hidden = Callable[[Request], frozenset[str]]
"""Returns the requirements whose tools are hidden from a client."""

Scopes = tuple[str, ...]
"""What one item requires of a token."""

_NOTHING: frozenset[str] = frozenset()
_OPEN: frozenset[Scopes] = frozenset()
_REQUIREMENTS: tuple[Requirement, ...] = get_args(Requirement)


class _List:
    """One list: its registry, how a page of it is built, and the pages encoded so far."""

    __slots__ = ("_build", "_hidden", "_pages", "_registry", "_required", "_size", "_version")

    def __init__(self, registry: Registry[Any], build: Build, size: int, hidden: Hidden | None = None) -> None:
        self._registry = registry
        self._hidden = hidden
        self._build = build
        self._size = size
        self._version = -1
        self._pages: dict[tuple[str, str | None, frozenset[str], frozenset[Scopes]], Raw] = {}
        self._required: frozenset[Scopes] = frozenset()
        """What its items require of a token: each set of scopes once."""

    def serve(self, request: Request, _peer: Connection[ServerSession]) -> Raw:
        """Return the page the request wants."""
        params: PaginatedParams = request.params
        if self._version != self._registry.version or len(self._pages) >= _MAX_KEPT:
            self._pages.clear()
            self._version = self._registry.version
            self._required = frozenset(item.scopes for item in self._registry if item.scopes)
        hidden = self._hidden(request) if self._hidden is not None else _NOTHING
        closed = self._closed_to(request.caller) if self._required else _OPEN
        key = (request.revision.name, params.cursor, hidden, closed)
        page = self._pages.get(key)
        if page is None:
            found = self._registry.page(params.cursor, self._size)
            shown = [item for item in found.items if item.requires not in hidden] if hidden else found.items
            if closed:
                shown = [item for item in shown if item.scopes not in closed]
            result = self._build([item.definition for item in shown], found.next_cursor)
            page = self._pages[key] = Raw(encode(request.revision.lower(result)))
        return page

    def _closed_to(self, caller: Caller | None) -> frozenset[Scopes]:
        """Return the sets of scopes whose items a caller is not shown, where it is shown only what it may use.

        2026-07-28 server/tools, server/utilities/caching: such a list is the caller's alone. Every list of ours says
        so (``cacheScope: private``).
        """
        if caller is None or not caller.sees_only_allowed:
            return _OPEN
        return frozenset(scopes for scopes in self._required if not caller.has(scopes))


class Pages:
    """The four lists of a server, as handlers."""

    def __init__(self, core: Core, size: int) -> None:
        if type(size) is not int or size < 1:
            raise ConfigError(f"page_size= must be a whole number of at least 1, got {size!r}")
        features = core.features
        self.tools = _List(
            features.tools,
            lambda items, after: ListToolsResult(tools=items, next_cursor=after),
            size,
            lambda request: _out_of_reach(core, request),
        ).serve
        self.prompts = _List(
            features.prompts, lambda items, after: ListPromptsResult(prompts=items, next_cursor=after), size
        ).serve
        self.resources = _List(
            features.resources, lambda items, after: ListResourcesResult(resources=items, next_cursor=after), size
        ).serve
        self.templates = _List(
            features.templates,
            lambda items, after: ListResourceTemplatesResult(resource_templates=items, next_cursor=after),
            size,
        ).serve


def _out_of_reach(core: Core, request: Request) -> frozenset[str]:
    """Return the requirements that this client does not meet; tools with these are not listed."""
    # 2026-07-28 server/tools: lists do not vary by connection; calling such a tool is refused with -32021.
    if request.revision.modern:
        return _NOTHING
    return frozenset(needed for needed in _REQUIREMENTS if not core.can_serve(needed, request))
