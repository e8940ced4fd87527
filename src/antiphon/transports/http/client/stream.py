"""A stream of server-sent events as received: its events, where to resume it, and how long to wait before.

Owns the cursor of one stream (2025-11-25 basic/transports, "Resumability and Redelivery"). ``protocol.http.sse`` parses
the events; the users of this module interpret them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from aiohttp import ClientError, ClientResponse

from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.sse import Event, EventParser
from antiphon.transports.http.client.failures import UNUSABLE, HttpFailure
from antiphon.transports.http.client.http_request import shown

__all__ = ["Cursor", "events"]

_FIRST_DELAY = 0.1
"""Seconds before the first reconnect if the server names no time; short, so that a brief interruption is not
noticed."""

_LONGEST_DELAY = 30.0
"""Most seconds between failing reconnects, unless the server names a longer time."""

_SHORTEST_DELAY = 0.02
"""Least seconds between reconnects, so that ``retry: 0`` of a server does not cause a busy loop."""

_MAX_ID = 1024
"""Longest event id kept, in characters; it is sent back in a header."""

_OVERHEAD = 64 * 1024
"""Bytes an event may have in addition to its frame: id, event name, field names."""


class Cursor:
    """Where and when a stream can be resumed."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last event that had one, if it fits into a header."""
        self.failures = 0
        """Number of reconnects in a row that brought nothing."""
        self._retry: float | None = None

    def answered(self) -> None:
        """Note that a reconnect was accepted. A server that sets the retry time may then send nothing for long."""
        if self._retry is not None:
            self.failures = 0

    def note(self, event: Event) -> None:
        """Note the id and the retry time of an event."""
        self.failures = 0
        if event.retry is not None:
            self._retry = event.retry / 1000
        if event.id is not None:
            fits = len(event.id) <= _MAX_ID and event.id.isascii() and event.id.isprintable()
            # An empty id resets the position: there is nothing to resume from (WHATWG HTML, section 9.2).
            self.last_id = event.id if fits and event.id else None

    @property
    def names_delay(self) -> bool:
        """Whether the server has set the retry time."""
        return self._retry is not None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next reconnect.

        2025-11-25 basic/transports: "The client MUST respect the retry field"; failures in a row can only lengthen it.
        """
        backoff = min(_FIRST_DELAY * 2 ** min(self.failures, 16), _LONGEST_DELAY)
        if self._retry is None:
            return backoff
        return max(self._retry, backoff if self.failures else 0.0, _SHORTEST_DELAY)


async def events(response: ClientResponse, cursor: Cursor, max_frame: int) -> AsyncGenerator[Event]:
    """Yield the events of a response that carry a message, until it ends for whatever reason.

    Raises:
        HttpFailure: an event is too large.
    """
    parser = EventParser(max_frame + _OVERHEAD)
    try:
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                cursor.note(event)
                if event.data:
                    yield event
    except (ClientError, OSError):
        # The connection broke: complete events were yielded, the rest can only be resumed.
        return
    except RemoteProtocolError as error:
        raise HttpFailure(UNUSABLE, f"{shown(response.url)} cannot be read: {error}") from None
