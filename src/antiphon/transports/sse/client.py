"""The client's side of HTTP+SSE: one stream for all incoming messages, and one address for all outgoing ones.

2024-11-05 basic/transports, "HTTP with SSE"; deprecated since 2025-03-26, and still used by old servers. Owns opening
the stream and the address that it names. ``http.client`` posts the messages.
"""

from __future__ import annotations

import asyncio
import ssl as tls
from collections.abc import Awaitable, Callable, Mapping
from contextlib import aclosing, nullcontext
from types import CoroutineType
from typing import Any

from aiohttp import ClientResponse, ClientSession
from yarl import URL

from antiphon.channel import MAX_FRAME, Frame, Take
from antiphon.errors import ConnectionClosed
from antiphon.machine.asyncio_tasks import both_stopped
from antiphon.transports.http.client import http_request
from antiphon.transports.http.client.error_replies import REFUSING, Credentials, HttpFailure, Pause
from antiphon.transports.http.client.message import OutgoingMessage, look_at, read_refusal
from antiphon.transports.http.client.post import (
    ClientLine,
    Cursor,
    Deliveries,
    deliver_message,
    find_surroundings,
    read_events,
)
from antiphon.transports.inbox import ClosedOnce, Frames

_ENDPOINT_TIMEOUT = 10.0
"""Seconds the server has to open the stream and to name its address, which it "MUST" do first."""

_FAREWELL = 2.0
"""Seconds that messages in flight have when the channel closes."""


class SseClientChannel(ClosedOnce):
    """Frames to and from one HTTP+SSE server. Made by ``open``. Receiving ends when the stream does."""

    is_framed = True

    def __init__(self, session: ClientSession, *, where: str) -> None:
        self._session = session
        self._where = where
        self._line: ClientLine | None = None
        self._deliveries = Deliveries()
        self._reading: asyncio.Task[None] | None = None
        self._reason = ""

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        ssl: tls.SSLContext | bool = True,
        proxy: str | None = None,
        trust_env: bool = False,
        max_frame: int = MAX_FRAME,
        access: Credentials | None = None,
        pause: Pause = nullcontext,
    ) -> SseClientChannel:
        """Open the stream and wait for the address to post to. See ``HttpClientChannel.open`` for the arguments.

        Raises:
            ConfigError: the address or a header cannot be used.
            ConnectionClosed: there is no such stream; the message says what the server sent instead.
            PeerError: the server let nobody in (401, 403), as for a request.
        """
        target = http_request.check_url(url)
        if trust_env:
            target, proxy = await find_surroundings(target, proxy)
        session = http_request.new_session(ssl=ssl, proxy=proxy, access=access)
        channel = cls(session, where=http_request.show_address(target))
        try:
            limit = asyncio.timeout(_ENDPOINT_TIMEOUT)

            def reach(url: URL, pause: Pause) -> http_request.Web:
                return http_request.Web(url, session, headers, access=access, pause=pause)

            async with limit:
                opening = reach(target, lambda: both_stopped(pause, limit))
                await channel._open(opening, lambda url: reach(url, pause), max_frame)
        except TimeoutError:
            await channel.close()
            raise ConnectionClosed(
                f"{http_request.show_address(target)} named no endpoint within {_ENDPOINT_TIMEOUT:g} s"
            ) from None
        except HttpFailure as failure:
            await channel.close()
            raise failure.ended() from None
        except BaseException:
            await channel.close()
            raise
        return channel

    async def _open(self, web: http_request.Web, posting: Callable[[URL], http_request.Web], max_frame: int) -> None:
        response = await web.request("GET", {"Accept": "text/event-stream", "Cache-Control": "no-store"}, ask=True)
        if response.status != 200 or response.content_type != "text/event-stream":
            refusal = await read_refusal(web, response)
            response.release()
            failure = refusal.failure()
            if response.status in REFUSING or refusal.said:
                raise failure
            raise HttpFailure(failure.code, f"{failure.message}: no event stream")
        named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # Nothing is posted through it before its address is set.
        self._line = ClientLine(web, max_frame=max_frame, on_gone=lambda: None)
        self._reading = asyncio.get_running_loop().create_task(self._read(response, self._line, named))
        endpoint = _read_endpoint(web.url, await named)
        self._line.web = posting(endpoint)

    async def _read(self, response: ClientResponse, line: ClientLine, named: asyncio.Future[str]) -> None:
        reason = f"{self._where} ended its event stream"
        try:
            async with aclosing(read_events(response, Cursor(), line.max_frame)) as arriving:
                async for event in arriving:
                    if event.event == "endpoint" and not named.done():
                        named.set_result(event.data.decode(errors="replace"))
                    elif event.event == "message" and named.done():
                        await line.put(event.data)
        except HttpFailure as failure:
            reason = failure.message
        finally:
            response.release()
            self._end(reason)
            if not named.done():
                named.set_exception(HttpFailure(0, f"{reason} without naming an endpoint"))

    def receive(self) -> CoroutineType[Any, Any, Frames]:
        """See ``Channel.receive``."""
        return self._open_line().inbox.take()

    def offer_to(self, take: Take) -> None:
        """See ``channel.Offers``."""
        self._open_line().inbox.take_now = take

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Post a frame, see ``Channel.send``. A request whose POST fails gets an error reply made here.

        For ``notifications/initialized``, the awaitable finishes when the server has received it.
        """
        line = self._open_line()
        if self._closing is not None or line.inbox.ended:
            return None
        message = look_at(frame.data)
        if message.id is not None:
            self._deliveries.start(self._request(line, message, frame.data))
            return self._deliveries.full
        task = self._deliveries.start(deliver_message(line, message, frame.data))
        return asyncio.shield(task) if message.method == "notifications/initialized" else self._deliveries.full

    async def _request(self, line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
        assert message.id is not None
        try:
            response = await line.web.request("POST", line.post_headers(message), data, ask=True)
            try:
                if response.status < 300:
                    # The reply comes on the stream; the body of this response ("Accepted") does
                    # not matter.
                    return
                refusal = await read_refusal(line.web, response)
            finally:
                response.release()
            await line.put(refusal.reply(message.id))
        except HttpFailure as failure:
            await line.put(failure.frame(message.id))

    def _open_line(self) -> ClientLine:
        assert self._line is not None, "a channel is used after it was opened"
        return self._line

    def _end(self, reason: str, *, drop: bool = False) -> None:
        self._reason = self._reason or reason
        if self._line is not None:
            self._line.inbox.end(drop=drop)

    def closed_error(self) -> ConnectionClosed:
        """Say why the channel ended."""
        return ConnectionClosed(self._reason or f"The event stream of {self._where} was not closed")

    async def _close(self) -> None:
        """End the stream and everything in flight."""
        self._end(f"The connection to {self._where} was closed on this side", drop=True)
        await self._deliveries.end(_FAREWELL)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
        await self._session.close()


def _read_endpoint(base: URL, named: str) -> URL:
    """Read the address that the stream names.

    It must have the same origin, because it gets our headers and messages.
    """
    try:
        target = base.join(URL(named.strip())).with_fragment(None)
    except ValueError:
        raise HttpFailure(0, f"{http_request.show_address(base)} names an endpoint that is no address") from None
    if not http_request.same_origin(target, base):
        raise HttpFailure(
            0,
            f"{http_request.show_address(base)} names an endpoint of another origin, "
            f"{http_request.show_address(target)}",
        )
    return target.with_user(base.user).with_password(base.password)
