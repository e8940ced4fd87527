"""The stream for messages that belong to no request of ours (legacy): a GET that stays open.

2025-11-25 basic/transports, "Listening for Messages from the Server". A server need not offer it, so failures here are
never reported as errors. Owns when the stream is reopened.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import aclosing

from aiohttp import ClientResponse

from antiphon.transports.http.client.failures import HttpFailure
from antiphon.transports.http.client.line import Line
from antiphon.transports.http.client.stream import Cursor, events

__all__ = ["Listener"]

log = logging.getLogger("antiphon.transports")

_PAUSE = 1.0
"""Least number of seconds before a stream that the server has ended is reopened, unless the server names the time."""


class Listener:
    """Keeps the stream open. Run ``run`` as a task; cancelling it closes the stream."""

    def __init__(self, line: Line) -> None:
        self.settled = asyncio.Event()
        """Set when the stream is open, or known not to be offered."""
        self._line = line
        self._cursor = Cursor()
        self._was_open = False

    async def run(self) -> None:
        """Deliver what comes on the stream; return if the server does not offer it."""
        try:
            while await self._once():
                await asyncio.sleep(self._delay())
                self._cursor.failures += 1
        except Exception:
            log.exception("the stream for unrelated messages failed")
        finally:
            self.settled.set()

    def _delay(self) -> float:
        return max(self._cursor.delay, 0.0 if self._cursor.names_delay else _PAUSE)

    async def _once(self) -> bool:
        """Open the stream and read it to its end; tell whether to try again."""
        try:
            response = await self._line.web.request("GET", self._line.stream_headers(self._cursor.last_id))
        except HttpFailure as failure:
            log.debug("no stream for unrelated messages: %s", failure.message)
            self.settled.set()
            return True
        try:
            if response.status != 200 or response.content_type != "text/event-stream":
                return self._declined(response)
            self._was_open = True
            self.settled.set()
            await self._read(response)
        except HttpFailure as failure:
            log.warning("the stream for unrelated messages: %s", failure.message)
        finally:
            response.release()
        return True

    def _declined(self, response: ClientResponse) -> bool:
        if self._was_open and response.status == 404 and self._line.has_session(response):
            # The stream was offered before, so 404 means that the session has ended.
            self._line.lose_session()
            return False
        return self._was_open and response.status >= 500

    async def _read(self, response: ClientResponse) -> None:
        async with aclosing(events(response, self._cursor, self._line.max_frame)) as arriving:
            async for event in arriving:
                if event.event == "message":
                    await self._line.put(event.data)
