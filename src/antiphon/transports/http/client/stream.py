"""A stream of server-sent events as it is received: its events, the place to resume it, the time to wait before.

Owns the cursor of one stream (2025-11-25 basic/transports, "Resumability and Redelivery"). How bytes become events is
``protocol.sse``'s; what is done with them is the business of its users.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator

from aiohttp import ClientError, ClientResponse

from antiphon.errors import RemoteProtocolError
from antiphon.protocol.http.sse import Event, EventParser
from antiphon.transports.http.client.failures import UNUSABLE, HttpFailure
from antiphon.transports.http.client.web import shown

__all__ = ["Cursor", "events"]

_FIRST_DELAY = 0.1
"""Seconds before the first reconnect when the server names no time: a cut cable should not cost a person a second."""

_LONGEST_DELAY = 30.0
"""Seconds between reconnects at most while they fail, unless the server names a longer time."""

_SHORTEST_DELAY = 0.02
"""Seconds between reconnects at least: a server that says ``retry: 0`` must not make us spin."""

_MAX_ID = 1024
"""Longest event id kept, in characters: it travels back in a header."""

_OVERHEAD = 64 * 1024
"""Bytes an event may have besides its frame: id, name, field names."""


class Cursor:
    """Where a stream can be resumed, and when."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last event that had one, if it fits into a header."""
        self.failures = 0
        """How many reconnects in a row brought nothing."""
        self._retry: float | None = None

    def answered(self) -> None:
        """Take note that a reconnect was accepted. A server that sets the pace may say nothing for long."""
        if self._retry is not None:
            self.failures = 0

    def note(self, event: Event) -> None:
        """Take the id and the retry time of an event."""
        self.failures = 0
        if event.retry is not None:
            self._retry = event.retry / 1000
        if event.id is not None:
            fits = len(event.id) <= _MAX_ID and event.id.isascii() and event.id.isprintable()
            # An empty id takes the place back: there is nothing to resume from (WHATWG HTML, section 9.2).
            self.last_id = event.id if fits and event.id else None

    @property
    def names_delay(self) -> bool:
        """Whether the server has said how long to wait."""
        return self._retry is not None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next reconnect.

        2025-11-25 basic/transports: "The client MUST respect the retry field"; failures in a row may only lengthen it.
        """
        backoff = min(_FIRST_DELAY * 2 ** min(self.failures, 16), _LONGEST_DELAY)
        if self._retry is None:
            return backoff
        return max(self._retry, backoff if self.failures else 0.0, _SHORTEST_DELAY)


async def events(response: ClientResponse, cursor: Cursor, max_frame: int) -> AsyncGenerator[Event]:
    """Yield the events of a response that carry a message, until it ends, however it ends.

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
        # Cut off: what was complete has been yielded, the rest can only be resumed.
        return
    except RemoteProtocolError as error:
        raise HttpFailure(UNUSABLE, f"{shown(response.url)} cannot be read: {error}") from None
