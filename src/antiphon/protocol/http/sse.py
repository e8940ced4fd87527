"""Server-sent events: encode one event, and parse a stream of them from pieces of any size.

Follows the WHATWG HTML standard, section 9.2 ("Parsing an event stream"), as far as MCP relies on it. The transports
interpret the events (a frame, a priming event, an ``endpoint``) and decide when to reconnect.
"""

from __future__ import annotations

import codecs
import re

from msgspec import Struct

from antiphon.errors import RemoteProtocolError

COMMENT = b":\n\n"
"""A comment: no event, only a sign of life (2026-07-28 basic/transports/streamable-http, "Receiving Messages")."""

MAX_EVENT = 16 * 1024 * 1024 + 64 * 1024
"""Largest event accepted, in bytes: the largest frame, and room for the other fields."""

_LINE_END = re.compile(rb"\r\n|\r|\n")
_UNFIT = re.compile(r"[\r\n\0]")
_LF, _CR = b"\n\r"
"""Numbers, since looking for a byte by its number takes a quarter of the time."""
# Milliseconds. A number with more digits would mean a longer wait than makes sense, and is costly to convert.
_RETRY_DIGITS = 9


class Event(Struct, frozen=True, gc=False):
    """One event, as received. ``data`` is empty in an event that only sets the cursor or the retry time."""

    data: bytes
    id: str | None = None
    """The id in this event; with ``None`` the last one stays in force."""
    event: str = "message"
    retry: int | None = None
    """Milliseconds to wait before reconnecting, if this event sets them."""


def encode_event(data: bytes, *, id: str | None = None, event: str | None = None, retry: int | None = None) -> bytes:
    """Encode one event (``retry`` in milliseconds); ``ValueError`` for a line end or NUL in ``id`` or ``event``."""
    head = b"" if event is None else b"event: %b\n" % _encode_field(event)
    if id is not None:
        head = b"%bid: %b\n" % (head, _encode_field(id))
    if retry is not None:
        head = b"%bretry: %d\n" % (head, retry)
    if _LF in data or _CR in data:
        data = b"\ndata: ".join(_LINE_END.split(data))
    return b"%bdata: %b\n\n" % (head, data)


def _encode_field(value: str) -> bytes:
    if _UNFIT.search(value):
        raise ValueError("an event's id and name are one line")
    return value.encode()


class EventParser:
    """Parses a stream of events: ``feed`` takes what arrived and returns the events it completed, in order."""

    def __init__(self, max_event: int = MAX_EVENT) -> None:
        self._limit = max_event
        self._held = 0
        """Bytes held for the incomplete event, limited by ``max_event``."""
        self._partial: list[bytes] = []
        self._after_cr = False
        self._at_start = True
        self._begin()

    def feed(self, chunk: bytes) -> list[Event]:
        """Parse the next piece of the stream, of any length; nothing can be read after an event over ``max_event``."""
        if not chunk:
            return []
        if self._after_cr:
            chunk = chunk.removeprefix(b"\n")
        events: list[Event] = []
        for line in chunk.splitlines(keepends=True):
            self._hold(len(line))
            content = line.rstrip(b"\r\n")
            if len(content) == len(line):
                self._partial.append(line)
            else:
                self._end_line(content, events)
        self._after_cr = chunk.endswith(b"\r")
        return events

    def _hold(self, size: int) -> None:
        self._held += size
        if self._held > self._limit:
            raise RemoteProtocolError(f"A server-sent event is larger than {self._limit} bytes")

    def _end_line(self, end: bytes, events: list[Event]) -> None:
        if self._partial:
            self._partial.append(end)
            line = b"".join(self._partial)
            self._partial.clear()
        else:
            line = end
        if self._at_start:
            self._at_start = False
            line = line.removeprefix(codecs.BOM_UTF8)
        if line:
            self._take_field(line)
        else:
            # The standard drops events without data. They are returned here, for the id and the retry time they
            # may carry.
            if self._data or self._id is not None or self._retry is not None:
                events.append(Event(b"\n".join(self._data), self._id, self._event or "message", self._retry))
            self._begin()

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if line[:1] == b"{":
            # Some servers send JSON as it is, and call it an event stream.
            name, value = b"data", line
        if name == b"data":
            self._data.append(value)
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"retry":
            if value.isdigit() and len(value) <= _RETRY_DIGITS:
                self._retry = int(value)
        else:
            # A comment or an unknown field is not kept, so it does not count.
            self._held -= len(line) + 1

    def _begin(self) -> None:
        self._held = 0
        self._data: list[bytes] = []
        self._id: str | None = None
        self._event = ""
        self._retry: int | None = None
