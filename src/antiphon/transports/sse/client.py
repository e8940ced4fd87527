"""The client's side of HTTP+SSE: one stream for all incoming messages, and one address for all outgoing ones.

2024-11-05 basic/transports, "HTTP with SSE"; deprecated since 2025-03-26, and still used by old servers. Owns opening
the stream and the address that it names. ``http.client`` posts the messages.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from contextlib import aclosing

from aiohttp import ClientResponse
from yarl import URL

from antiphon.channel import Frame
from antiphon.errors import ConnectionClosed, RemoteProtocolError
from antiphon.machine.asyncio_tasks import both_stopped, end_tasks, settle_future
from antiphon.machine.web_requests import origin_of, show_address
from antiphon.transports.http.client import http_request, post
from antiphon.transports.http.client.error_replies import REFUSING, Dial, HttpFailure
from antiphon.transports.http.client.message import OutgoingMessage, look_at, read_refusal
from antiphon.transports.inbox import ClosedOnce, Receiving
from antiphon.wire.envelope import RequestId

_ENDPOINT_TIMEOUT = 10.0
"""Seconds the server has to open the stream and to name its address, which it "MUST" do first."""

_FAREWELL = 2.0
"""Seconds that messages in flight have when the channel closes."""


class SseClientChannel(ClosedOnce, Receiving):
    """Frames to and from one HTTP+SSE server. Made by ``open``. Receiving ends when the stream does."""

    is_framed = True

    def __init__(self, web: http_request.Web, max_frame: int) -> None:
        self._where = web.where
        # Nothing is posted through it before the stream has named the address.
        self._line = post.ClientLine(web, max_frame=max_frame, on_gone=lambda: None)
        self._inbox = self._line.inbox
        self._deliveries = post.Deliveries()
        self._reading: asyncio.Task[None] | None = None

    @classmethod
    async def open(cls, to: Dial) -> SseClientChannel:
        """Open the stream and wait for the address to post to.

        Raises ``ConfigError``: the address or a header cannot be used. Raises ``ConnectionClosed``: there is no such
        stream; the message says what the server sent instead. Raises ``PeerError``: the server let nobody in (401,
        403), as for a request. Raises ``RemoteProtocolError``: the stream names an address that cannot be used.
        """
        target, proxy, sent = http_request.check_url(to.url), to.proxy, http_request.check_headers(to.headers or {})
        if to.trust_env:
            target, proxy = await asyncio.to_thread(post.find_surroundings, target, proxy)
        session = http_request.new_session(ssl=to.ssl, proxy=proxy, access=to.access)
        limit = asyncio.timeout(_ENDPOINT_TIMEOUT)
        opening = http_request.Web(target, session, sent, access=to.access, pause=lambda: both_stopped(to.pause, limit))
        channel = cls(opening, to.max_frame)
        try:
            async with limit:
                endpoint = await channel._find_endpoint(opening)
        except BaseException as error:
            await channel.close()
            if isinstance(error, TimeoutError):
                late = f"{channel._where} named no endpoint within {_ENDPOINT_TIMEOUT:g} s"
                raise ConnectionClosed(late) from None
            if isinstance(error, HttpFailure):
                raise error.ended() from None
            raise
        channel._line.web = http_request.Web(endpoint, session, sent, access=to.access, pause=to.pause)
        return channel

    async def _find_endpoint(self, web: http_request.Web) -> URL:
        response = await web.request("GET", {"Accept": "text/event-stream", "Cache-Control": "no-store"}, ask=True)
        if response.status != 200 or response.content_type != "text/event-stream":
            refusal = await read_refusal(web, response)
            response.release()
            failure = refusal.failure()
            if response.status in REFUSING or refusal.said:
                raise failure
            raise HttpFailure(failure.code, f"{failure.message}: no event stream")
        named: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._reading = asyncio.get_running_loop().create_task(self._read(response, named))
        return _read_endpoint(web.url, await named)

    async def _read(self, response: ClientResponse, named: asyncio.Future[str]) -> None:
        reason = f"{self._where} ended its event stream"
        try:
            async with aclosing(post.read_events(response, post.Cursor(), self._line.max_frame)) as arriving:
                async for event in arriving:
                    if event.event == "endpoint" and not named.done():
                        named.set_result(event.data.decode(errors="replace"))
                    elif event.event == "message" and named.done():
                        await self._line.put(event.data)
        except HttpFailure as failure:
            reason = failure.message
        finally:
            response.release()
            self.end(reason)
            settle_future(named, HttpFailure(0, f"{reason} without naming an endpoint"))

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Post a frame, see ``Channel.send``. A request whose POST fails gets an error reply made here.

        For ``notifications/initialized``, the awaitable finishes when the server has received it.
        """
        if self._closing is not None or self._inbox.ended:
            return None
        message = look_at(frame.data)
        if message.id is not None:
            self._deliveries.start(self._request(message, message.id, frame.data))
            return self._deliveries.full
        task = self._deliveries.start(post.deliver_message(self._line, message, frame.data))
        return asyncio.shield(task) if message.method == "notifications/initialized" else self._deliveries.full

    async def _request(self, message: OutgoingMessage, id: RequestId, data: bytes) -> None:
        line = self._line
        try:
            async with await line.web.request("POST", line.post_headers(message), data, ask=True) as response:
                if response.status < 300:
                    # The reply comes on the stream; the body of this response ("Accepted") does not matter.
                    return
                refusal = await read_refusal(line.web, response)
            await line.put(refusal.reply(id))
        except HttpFailure as failure:
            await line.put(failure.frame(id))

    async def _close(self) -> None:
        """End the stream and everything in flight."""
        self.end(f"The connection to {self._where} was closed on this side", drop=True)
        await self._deliveries.end(_FAREWELL)
        await end_tasks(self._reading)
        await self._line.web.session.close()


def _read_endpoint(base: URL, named: str) -> URL:
    """Read the address that the stream names.

    It must have the same origin, because it gets our headers and messages.
    """
    try:
        target = base.join(URL(named.strip())).with_fragment(None)
    except ValueError:
        raise RemoteProtocolError(f"{show_address(base)} names an endpoint that is no address") from None
    if origin_of(target) != origin_of(base):
        raise RemoteProtocolError(f"{show_address(base)} names an endpoint of another origin, {show_address(target)}")
    return target.with_user(base.user).with_password(base.password)
