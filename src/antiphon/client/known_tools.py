"""What one client knows of its server's tools: learnt from every list it has seen, forgotten when they change.

Keeps everything needed from a definition under one bound: the definition itself if somebody confirms calls, the output
schema for validating results, the annotations that allow repeating a call, and the arguments that are mirrored in HTTP
headers.

Sources: 2025-11-25 server/tools, Output Schema and Tool Annotations; 2026-07-28 basic/transports/streamable-http,
"Custom Headers from Tool Parameters" (whose rules are in ``protocol.http.param_headers``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar, cast

import msgspec

from antiphon.errors import ConfigError, MethodNotFound, RemoteProtocolError, ResultInvalid, TooCostly
from antiphon.json_schema.validator import MismatchError, SchemaValidator
from antiphon.protocol.http.param_headers import HeaderParam, header_params, param_headers
from antiphon.wire.common import PaginatedResult
from antiphon.wire.tools import Tool

log = logging.getLogger("antiphon.client")

T = TypeVar("T")
P = TypeVar("P", bound=PaginatedResult)

MAX_PAGES = 10_000
"""Most pages of one list that are fetched, so that a server with an endless list cannot keep us for ever."""

MAX_BYTES = 256 * 1024 * 1024
"""Most bytes of all pages together: a list of 100,000 tools has a tenth of it."""


async def iterate_pages(
    fetch: Callable[[str | None], Awaitable[tuple[P, int]]], items: Callable[[P], Sequence[T]]
) -> AsyncIterator[T]:
    """Yield the items of all pages. ``fetch`` returns a page, and the number of bytes received for it.

    A server that answers the first page with -32601 has an empty list: some declare ``resources`` without
    templates. The list of one that repeats a cursor ends there, with a warning. Raises ``RemoteProtocolError`` if it
    has more than ``MAX_PAGES`` pages or ``MAX_BYTES``.
    """
    cursor: str | None = None
    seen: set[str] = set()
    bytes_left = MAX_BYTES
    for _ in range(MAX_PAGES):
        try:
            page, size = await fetch(cursor)
        except MethodNotFound as error:
            if error.remote and cursor is None:
                return
            raise
        bytes_left -= size
        if bytes_left < 0:
            raise RemoteProtocolError(f"The server's list has more than {MAX_BYTES} bytes")
        for item in items(page):
            yield item
        cursor = page.next_cursor
        if cursor is None:
            return
        if cursor in seen:
            log.warning("the server repeats the cursor %.100r: its list is taken to end there", cursor)
            return
        seen.add(cursor)
    raise RemoteProtocolError(f"The server's list has more than {MAX_PAGES} pages")


MAX_TOOLS = 10_000
"""Most tools that are remembered."""


class _KnownTool(msgspec.Struct, eq=False):
    definition: Tool | None
    output_schema: dict[str, Any] | None
    is_repeatable: bool
    validator: SchemaValidator | None = None
    """Made when the first result is validated."""


class KnownTools:
    """The tools of one server. ``keeps_definitions``: whether complete definitions are needed."""

    def __init__(self, *, keeps_definitions: bool = False) -> None:
        self._keeps_definitions = keeps_definitions
        self._tools: dict[str, _KnownTool] = {}
        self._headers: dict[str, Sequence[HeaderParam]] = {}
        """Kept when the tools change: a call with the wrong headers is refused, and the tools are then listed again."""
        self._is_complete = False
        """Whether all tools were listed since they last changed."""

    def learn(self, tools: Sequence[Tool], *, have_headers: bool = False) -> Sequence[Tool]:
        """Learn from a page of the list; return the tools that can be used here.

        ``have_headers``: whether arguments may be mirrored in headers, so that tools with invalid annotations are left
        out.
        """
        for tool in tools:
            before = self._tools.get(tool.name)
            if before is None and len(self._tools) >= MAX_TOOLS:
                continue
            hints = tool.annotations
            known = _KnownTool(
                tool if self._keeps_definitions else None,
                tool.output_schema,
                hints is not None and bool(hints.read_only_hint or hints.idempotent_hint),
            )
            if before is not None and before.output_schema == tool.output_schema:
                known.validator = before.validator
            self._tools[tool.name] = known
        return self._with_headers(tools) if have_headers else tools

    def keep_definitions(self) -> None:
        """Keep complete definitions from now on, because somebody confirms calls; they are listed again if need be."""
        if not self._keeps_definitions:
            self._keeps_definitions = True
            self.forget()

    def forget(self) -> None:
        """Forget all of it, because the server's tools have changed."""
        self._tools.clear()
        self._is_complete = False

    def knows(self, name: str) -> bool:
        """Return whether ``look_up`` has nothing to do."""
        return name in self._tools or self._is_complete

    async def look_up(self, name: str, tools: Callable[[], AsyncIterator[Tool]]) -> None:
        """List all tools once, if this one is not known yet. ``tools`` lists them, and calls ``learn``."""
        if self.knows(name):
            return
        async for _ in tools():
            pass
        self._is_complete = True

    # --- look-ups -----------------------------------------------------------------------------------------------

    def definition(self, name: str) -> Tool | None:
        """Return the definition of a tool."""
        known = self._tools.get(name)
        return known.definition if known is not None else None

    def is_repeatable(self, name: str) -> bool:
        """Return whether a tool declares that it is read-only or idempotent."""
        known = self._tools.get(name)
        return known is not None and known.is_repeatable

    async def check_output(self, name: str, content: Any) -> None:
        """Validate what a tool returned. An output schema that cannot be used is ignored.

        Raises ``ResultInvalid``, which names the place, if it does not fit, and ``TooCostly`` beyond the limits
        of time or memory.
        """
        known = self._tools.get(name)
        if known is None or not known.output_schema:
            return
        try:
            if known.validator is None:
                place = f"output schema of {name!r}"
                known.validator = SchemaValidator(known.output_schema, place=place, lazy=True)
            await known.validator.check(content)
        except ConfigError as error:
            log.warning("%s; its results are not checked", error)
            known.output_schema = None
        except MismatchError as error:
            raise ResultInvalid(f"The structured content of {name!r} does not fit its output schema: {error}") from None
        except TooCostly as error:
            raise TooCostly(
                f"The structured content of {name!r} cannot be checked by its output schema: {error}"
            ) from None

    # --- headers ------------------------------------------------------------------------------------------------

    def headers(self, name: str, arguments: bytes) -> Mapping[str, str]:
        """Return the headers of a call."""
        params = self._headers.get(name)
        if not params:
            return {}
        values: object = msgspec.json.decode(arguments or b"{}")
        return param_headers(params, cast("dict[str, Any]", values)) if isinstance(values, dict) else {}

    def _with_headers(self, tools: Sequence[Tool]) -> list[Tool]:
        """Learn the header parameters of some tools; return the tools that can be used.

        "Clients MUST exclude a tool whose annotations are invalid from the result of tools/list."
        """
        usable: list[Tool] = []
        for tool in tools:
            try:
                params = header_params(tool.input_schema)
            except RemoteProtocolError as error:
                log.warning("the tool %r cannot be used over HTTP: %s", tool.name, error)
                continue
            usable.append(tool)
            if tool.name in self._headers or len(self._headers) < MAX_TOOLS:
                self._headers[tool.name] = params
        return usable
