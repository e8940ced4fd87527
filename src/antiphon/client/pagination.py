"""Async iteration over paged lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from antiphon.errors import MethodNotFound, RemoteProtocolError
from antiphon.wire.common import PaginatedResult

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
    templates. Raises ``RemoteProtocolError`` if the server repeats a cursor, or has more than ``MAX_PAGES`` pages
    or ``MAX_BYTES``.
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
            raise RemoteProtocolError(f"The server repeats the cursor {cursor!r}: its list has no end")
        seen.add(cursor)
    raise RemoteProtocolError(f"The server's list has more than {MAX_PAGES} pages")
