"""Async iteration over paged lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeVar

from antiphon.errors import RemoteProtocolError
from antiphon.wire.common import PaginatedResult

__all__ = ["iterate"]

T = TypeVar("T")
P = TypeVar("P", bound=PaginatedResult)

MAX_PAGES = 10_000
"""Most pages followed of one list; a server that never ends its list must not keep us for ever."""

MAX_BYTES = 256 * 1024 * 1024
"""Most bytes of all of them together: a list of 100,000 tools has a tenth of it."""


async def iterate(
    fetch: Callable[[str | None], Awaitable[tuple[P, int]]], items: Callable[[P], Sequence[T]]
) -> AsyncIterator[T]:
    """Yield every item of every page. ``fetch`` returns a page, when it is reached, and the bytes that came for it.

    Raises:
        RemoteProtocolError: the server repeats a cursor, or has more than ``MAX_PAGES`` pages or ``MAX_BYTES``.
    """
    cursor: str | None = None
    seen: set[str] = set()
    bytes_left = MAX_BYTES
    for _ in range(MAX_PAGES):
        page, size = await fetch(cursor)
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
