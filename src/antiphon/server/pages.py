"""Lists, page by page, encoded once per revision and kept until the registry changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.registry import Registry
from antiphon.wire.common import PaginatedParams, PaginatedResult
from antiphon.wire.envelope import encode
from antiphon.wire.prompts import ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult
from antiphon.wire.tools import ListToolsResult

if TYPE_CHECKING:
    from antiphon.server.app import Server

__all__ = ["Pages"]

_MAX_KEPT = 256
"""Most encoded pages kept of one list: a client that walks made-up cursors must not fill the memory."""

Build = Callable[[list[Any], str | None], PaginatedResult]


class _List:
    """One list: its registry, how a page of it is built, and the pages encoded so far."""

    __slots__ = ("_build", "_pages", "_registry", "_size", "_version")

    def __init__(self, registry: Registry[Any], build: Build, size: int) -> None:
        self._registry = registry
        self._build = build
        self._size = size
        self._version = -1
        self._pages: dict[tuple[str, str | None], Raw] = {}

    def serve(self, request: Request, _peer: Connection[ServerSession]) -> Raw:
        """Return the page the request wants."""
        params: PaginatedParams = request.params
        if self._version != self._registry.version or len(self._pages) >= _MAX_KEPT:
            self._pages.clear()
            self._version = self._registry.version
        key = (request.revision.name, params.cursor)
        page = self._pages.get(key)
        if page is None:
            found = self._registry.page(params.cursor, self._size)
            result = self._build([item.definition for item in found.items], found.next_cursor)
            page = self._pages[key] = Raw(encode(request.revision.lower(result)))
        return page


class Pages:
    """The four lists of a server, as handlers."""

    def __init__(self, server: Server, size: int) -> None:
        self.tools = _List(
            server.tools, lambda items, after: ListToolsResult(tools=items, next_cursor=after), size
        ).serve
        self.prompts = _List(
            server.prompts, lambda items, after: ListPromptsResult(prompts=items, next_cursor=after), size
        ).serve
        self.resources = _List(
            server.resources, lambda items, after: ListResourcesResult(resources=items, next_cursor=after), size
        ).serve
        self.templates = _List(
            server.templates,
            lambda items, after: ListResourceTemplatesResult(resource_templates=items, next_cursor=after),
            size,
        ).serve
