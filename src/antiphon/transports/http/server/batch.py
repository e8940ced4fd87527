"""Several requests in one POST (2025-03-26 only): served concurrently, answered in one response.

2025-03-26 basic/transports, "Sending Messages to the Server". As JSON the replies are one array; on a stream each one
is an event.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence

from antiphon.channel import Frame
from antiphon.transports.http.server.asgi import Http, send_empty
from antiphon.transports.http.server.session import LegacyExchange, Session, cancelled_by
from antiphon.transports.http.server.settings import Settings
from antiphon.wire.envelope import Envelope

__all__ = ["MAX_BATCH", "serve_batch"]

MAX_BATCH = 256
"""Most messages in one batch."""


class _BatchExchange(LegacyExchange, eq=False, kw_only=True):
    _replies: list[bytes]
    _left: int = 0

    def expect(self) -> None:
        self._left += 1

    def take(self, frame: Frame) -> Awaitable[None] | None:
        if not frame.final:
            return super().take(frame)
        self._left -= 1
        if frame.data:
            self._replies.append(frame.data)
        return self.collected()

    def withdrawn(self) -> None:
        self._left -= 1
        self.collected()

    def collected(self) -> Awaitable[None] | None:
        """Send the replies, if they can be sent now."""
        if self.stream is not None:
            for data in self._replies:
                self.stream.put(data)
            self._replies.clear()
            if self._left == 0:
                self.end()
        elif self._left == 0:
            return super().take(Frame(b"[%b]" % b",".join(self._replies), None, True))
        return None


async def serve_batch(
    http: Http, settings: Settings, session: Session, messages: Sequence[Envelope], refused: Sequence[bytes]
) -> None:
    """Serve the requests among some messages; ``refused`` are replies to messages that could not be read."""
    exchange = _BatchExchange(http, settings, _session=session, _replies=list(refused))
    requests = [each for each in messages if isinstance(each.id, int | str) and isinstance(each.method, str)]
    for each in messages:
        if (cancelled := cancelled_by(each)) is not None and all(cancelled != request.id for request in requests):
            session.note_cancelled(cancelled)
    for each in requests:
        assert isinstance(each.id, int | str)
        exchange.expect()
        session.enter(each.id, exchange)
    try:
        exchange.waits()
        if not requests and refused:
            exchange.collected()
        serving = asyncio.gather(*(session.peer.handle(each, caller=http.caller) for each in messages))
        if requests or refused:
            await serving
            await exchange.until_answered()
            await exchange.respond()
        else:
            await serving
            await send_empty(http, 202)
    finally:
        if (forgetting := session.finish(exchange)) is not None:
            await forgetting
