"""The channel of a Streamable HTTP client: sends frames as POSTs, receives frames from responses and streams.

Owns the tasks: one for each request, one for each message without a reply, and one for the listening stream. Each
message is an HTTP request of its own, so two that are sent at the same time may arrive in any order.

The listening stream (legacy, "Listening for Messages from the Server") carries messages that belong to no request of
ours. A server need not offer it, so its failures are never reported as errors.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable
from contextlib import aclosing

from aiohttp import ClientResponse

from antiphon.channel import Frame
from antiphon.errors import ConnectionClosed
from antiphon.machine.asyncio_tasks import end_tasks, wait_at_most
from antiphon.transports.http.client import post
from antiphon.transports.http.client.error_replies import GONE, TOO_MANY, Dial, HttpFailure, SessionGone
from antiphon.transports.http.client.http_request import Web, check_url, new_session
from antiphon.transports.http.client.message import SESSION, OutgoingMessage, look_at
from antiphon.transports.inbox import ClosedOnce, Receiving
from antiphon.wire.envelope import RequestId

log = logging.getLogger("antiphon.transports")

_LISTEN_PATIENCE = 2.0
"""Seconds the first request waits for the listening stream, because some servers ask on it at once."""

_LAST_ANSWERS = 0.5
"""Seconds that open requests have when the session has ended, so that each learns whether it was refused, too."""

_FAREWELL = 2.0
"""Seconds that messages in flight, and the request that ends the session, have when the channel closes."""


class HttpClientChannel(ClosedOnce, Receiving):
    """Frames to and from one MCP endpoint, in either era. Made by ``open``.

    The era is taken from each message: one that names its revision in ``_meta`` is modern. A request that fails in HTTP
    gets an error reply made here (see ``failures``). The channel ends only by ``close``, or when the server no longer
    knows the session: then ``closed_error`` is a ``SessionGone``.
    """

    def __init__(self, web: Web, to: Dial) -> None:
        self._line = post.ClientLine(web, max_frame=to.max_frame, on_gone=self._session_lost)
        self._line.param_headers = to.param_headers
        self._inbox = self._line.inbox
        self._calls: dict[RequestId, tuple[post.PostCall, asyncio.Task[None]]] = {}
        self._deliveries = post.Deliveries()
        self._listening: asyncio.Task[None] | None = None
        self._ending: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, to: Dial) -> HttpClientChannel:
        """Make a channel to an MCP endpoint, http or https. Nothing is sent yet.

        Raises ``ConfigError``: the address or a header cannot be used.
        """
        target, proxy = check_url(to.url), to.proxy
        if to.trust_env:
            target, proxy = await asyncio.to_thread(post.find_surroundings, target, proxy)
        session = new_session(ssl=to.ssl, proxy=proxy, access=to.access)
        try:
            return cls(Web(target, session, to.headers, access=to.access, pause=to.pause), to)
        except BaseException:
            await session.close()
            raise

    @property
    def session_id(self) -> str | None:
        """The id of the session that the server assigned, if it did (legacy)."""
        return self._line.session_id

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Send a frame in a request of its own, see ``Channel.send``.

        For ``notifications/initialized``, the awaitable finishes when the server has received it and the listening
        stream is open (or known not to be offered), so that the session is ready for the requests that follow.
        """
        if self._closing is not None or self._inbox.ended:
            return None
        message = look_at(frame.data)
        if self._line.is_gone:
            if message.id is not None:
                self._inbox.put([HttpFailure.session_gone(self._line.web.where).frame(message.id)])
            return None
        if message.id is not None:
            self._call(message, message.id, frame.data)
            return None
        modern = self._line.notice(message)
        if message.cancels is not None and self._withdraw(message, message.cancels, frame.data, modern=modern):
            return None
        if message.method == "notifications/initialized" and not modern:
            return asyncio.shield(self._deliveries.start(self._begin(message, frame.data)))
        self._deliveries.start(post.deliver_message(self._line, message, frame.data))
        return self._deliveries.full

    def _call(self, message: OutgoingMessage, id: RequestId, data: bytes) -> None:
        call = post.PostCall(self._line, message, id, data, self._calls.__contains__)
        task = asyncio.get_running_loop().create_task(call.run())
        self._calls[id] = (call, task)
        task.add_done_callback(lambda _: self._calls.pop(id, None))

    def _withdraw(self, message: OutgoingMessage, id: RequestId, data: bytes, *, modern: bool) -> bool:
        """Cancel one of our requests; tell whether nothing else needs to be sent."""
        open_call = self._calls.get(id)
        if open_call is None:
            return modern
        call, task = open_call
        if call.is_modern:
            # 2026-07-28 basic/transports/streamable-http, "Cancellation": closing its stream is all that
            # is needed.
            task.cancel()
        else:
            call.is_cancelled = True
            self._deliveries.start(self._cancel(message, data, task))
        return True

    async def _cancel(self, message: OutgoingMessage, data: bytes, call: asyncio.Task[None]) -> None:
        await post.deliver_message(self._line, message, data)
        call.cancel()

    async def _begin(self, message: OutgoingMessage, data: bytes) -> None:
        await post.deliver_message(self._line, message, data)
        if self._line.is_gone or self._closing is not None or self._listening is not None:
            return
        listener = Listener(self._line)
        self._listening = asyncio.get_running_loop().create_task(listener.run())
        await wait_at_most(_LISTEN_PATIENCE, listener.settled.wait())

    def _session_lost(self) -> None:
        current = asyncio.current_task()
        self._deliveries.cancel()
        for call, task in self._calls.values():
            if call.has_begun and task is not current:
                task.cancel()
        if self._listening is not None and self._listening is not current:
            self._listening.cancel()
        self._ending = asyncio.get_running_loop().create_task(self._end_soon())

    async def _end_soon(self) -> None:
        """End when every open request has its answer, because one that was refused as well can be repeated."""
        calls = [task for _, task in self._calls.values()]
        if calls:
            await asyncio.wait(calls, timeout=_LAST_ANSWERS)
        for task in calls:
            task.cancel()
        self._inbox.end()

    def closed_error(self) -> ConnectionClosed:
        """Say why the channel ended."""
        where = self._line.web.where
        if self._line.is_gone:
            return SessionGone(
                f"{where} no longer knows the session; it may have been restarted, "
                "and nobody knows whether a call that was open was carried out"
            )
        return ConnectionClosed(f"The connection to {where} was closed on this side")

    async def _close(self) -> None:
        """End every request and the session."""
        self._inbox.end(drop=True)
        await self._deliveries.end(_FAREWELL)
        await end_tasks(*(task for _, task in self._calls.values()), self._listening, self._ending)
        if self._line.session_id is not None and not self._line.is_gone:
            # The server's answer does not matter.
            with contextlib.suppress(HttpFailure, TimeoutError):
                async with asyncio.timeout(_FAREWELL):
                    response = await self._line.web.request("DELETE", self._line.session_headers())
                    response.release()
        await self._line.web.session.close()


_PAUSE = 1.0
"""Least number of seconds before a stream that the server has ended is reopened, unless the server names the time."""


class Listener:
    """Keeps the stream open. Run ``run`` as a task; cancelling it closes the stream."""

    def __init__(self, line: post.ClientLine) -> None:
        self.settled = asyncio.Event()
        """Set when the stream is open, or known not to be offered."""
        self._line = line
        self._cursor = post.Cursor()
        self._was_open = False

    async def run(self) -> None:
        """Deliver what comes on the stream; return if the server does not offer it."""
        try:
            while await self._once():
                await asyncio.sleep(max(self._cursor.delay, 0.0 if self._cursor.names_delay else _PAUSE))
                self._cursor.failures += 1
        except Exception:
            log.exception("the stream for unrelated messages failed")
        finally:
            self.settled.set()

    async def _once(self) -> bool:
        """Open the stream and read it to its end; tell whether to try again."""
        try:
            response = await self._line.web.request("GET", self._line.stream_headers(self._cursor.last_id))
        except HttpFailure as failure:
            log.debug("no stream for unrelated messages: %s", failure.message)
            self.settled.set()
            return True
        try:
            async with response:
                if response.status != 200 or response.content_type != "text/event-stream":
                    return self._decline_connection(response)
                self._was_open = True
                self.settled.set()
                async with aclosing(post.read_events(response, self._cursor, self._line.max_frame)) as arriving:
                    async for event in arriving:
                        if event.event == "message":
                            await self._line.put(event.data)
        except HttpFailure as failure:
            log.warning("the stream for unrelated messages: %s", failure.message)
        return True

    def _decline_connection(self, response: ClientResponse) -> bool:
        if self._was_open and response.status in GONE and SESSION in response.request_info.headers:
            # The stream was offered before, so this means that the session has ended.
            self._line.lose_session()
            return False
        return self._was_open and (response.status >= 500 or response.status == TOO_MANY)
