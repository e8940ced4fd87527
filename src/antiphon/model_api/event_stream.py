"""A response as server-sent events: the answer while it arrives, and signs of life while a person decides."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from antiphon.model_api.calls import Call
from antiphon.model_api.dialects.asked import Said
from antiphon.model_api.dialects.failures import Failure
from antiphon.transports.http.server.asgi import HeaderPair, Http

__all__ = ["Stream", "Writer"]

_HEAD: tuple[HeaderPair, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
)


class Writer(Protocol):
    """Writes the events of one response as a vendor does."""

    def begin(self) -> bytes:
        """Write what comes before all text."""
        ...

    def text(self, piece: str) -> bytes:
        """Write a piece of text."""
        ...

    def end(self, answers: Sequence[Said], rests: Sequence[str]) -> bytes:
        """Write the rest of each answer, and the end."""
        ...

    def failed(self, failure: Failure) -> bytes:
        """Write a failure, after which nothing comes."""
        ...


class Stream:
    """One response.

    Args:
        http: the request.
        writer: writes the events.
        call: the call whose answer is sent.
        sign: an event without content, as a sign of life.
        every: seconds without data after which ``sign`` is sent.
    """

    def __init__(self, http: Http, writer: Writer, call: Call[list[Said]], sign: bytes, *, every: float) -> None:
        self._http = http
        self._writer = writer
        self._call = call
        self._sign = sign
        self._every = every
        self._has_head = self._has_begun = False

    async def run(self, gone: asyncio.Future[None], extra: tuple[HeaderPair, ...]) -> bool:
        """Send the response; return whether all of it was sent.

        Raises:
            Failure: there is no answer, and nothing was sent yet.
        """
        seen = 0
        while True:
            await self._news(seen, gone)
            if gone.done():
                return False
            outcome, pieces = self._call.outcome, self._call.pieces[seen:]
            seen += len(pieces)
            if not self._has_head:
                if isinstance(outcome, Failure) and not pieces:
                    raise outcome
                await self._http.send({"type": "http.response.start", "status": 200, "headers": [*_HEAD, *extra]})
                self._has_head = True
            part = self._begun() + self._writer.text("".join(pieces)) if pieces else b""
            if outcome is not None:
                await self._send(part + self._ended(outcome), more=False)
                return True
            await self._send(part or self._sign, more=True)

    async def _news(self, seen: int, gone: asyncio.Future[None]) -> None:
        news = asyncio.ensure_future(self._call.news(seen))
        try:
            await asyncio.wait([news, gone], timeout=self._every, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _begun(self) -> bytes:
        has_begun, self._has_begun = self._has_begun, True
        return b"" if has_begun else self._writer.begin()

    def _ended(self, outcome: list[Said] | Failure) -> bytes:
        if isinstance(outcome, Failure):
            return self._writer.failed(outcome)
        flowed = "".join(self._call.pieces)
        rests = [answer.text for answer in outcome]
        if flowed:
            # The text that was sent cannot be taken back, so an answer that does not begin with it is an error.
            if not rests[0].startswith(flowed) and not flowed.startswith(rests[0]):
                return self._writer.failed(
                    Failure(502, "answer_changed", "The answer does not begin with the text that was sent.")
                )
            rests[0] = rests[0][len(flowed) :]
        return self._begun() + self._writer.end(outcome, rests)

    async def _send(self, part: bytes, *, more: bool) -> None:
        await self._http.send({"type": "http.response.body", "body": part, "more_body": more})
