"""The bodies of requests and of responses: one read and decoded, the other sent while the answer arrives.

A request is examined, hashed and decoded without holding up other requests. Decoding takes time for each value rather
than for each byte: small values take a hundred times as long as long texts or images of the same size. So the number of
values is limited, and a large body that may exceed it is examined in a side process before it is decoded.

A response of server-sent events has signs of life while a person decides.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, cast

import msgspec

from antiphon.errors import TooCostly
from antiphon.machine.side_process.pool import run_aside
from antiphon.model_api.dialects.asked import DialectAnswer
from antiphon.model_api.dialects.members import Failure
from antiphon.model_api.model_calls import ModelCall
from antiphon.protocol.http.rules import HeaderPair
from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.body import read_body
from antiphon.wire.envelope import too_deep, without_strings

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of one request, as of one message of a server."""
BODY_SECONDS = 30.0
"""Seconds in which the whole body must arrive."""
MAX_VALUES = 50_000
"""Most values in one request: ten times those of a conversation of 500 messages, and 10 ms of decoding at worst."""
_MAX_DEPTH = 80
"""Deepest nesting of a request: that of the deepest schema a host accepts, plus that of the place where it stands."""
_SMALL = 64 * 1024
"""Most bytes of a body that needs no examination: it cannot hold more than ``MAX_VALUES`` values."""
_SLICE = 1024 * 1024
"""Bytes that are counted at once, in about a millisecond."""
_SEPARATORS = (b",", b"[", b"{")
_DEEP, _MANY = b"deep", b"many"

_HEAD: tuple[HeaderPair, ...] = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
)


class Body(NamedTuple):
    """The body of a request, decoded."""

    members: Mapping[str, Any]
    digest: bytes
    """Hash of the path and of all bytes; a retry has the same."""


async def read_json(http: Http) -> Body:
    """Return the body of a request; raise ``Failure`` if it is no JSON object, or exceeds a limit."""
    kind = http.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" or b"content-encoding" in http.headers:
        raise Failure(415, "invalid_request", "The body must be JSON: application/json, not encoded.")
    raw = await read_body(http, MAX_BODY, BODY_SECONDS)
    if not isinstance(raw, bytes):
        raise Failure(raw.status, "invalid_request", raw.error.message)
    try:
        problem = await _find_problem(raw)
    except TooCostly:
        problem = _MANY
    if problem:
        raise Failure(400, "invalid_request", f"The body {'nests too deep' if problem == _DEEP else 'holds too much'}.")
    try:
        body: object = msgspec.json.decode(raw)
    except (ValueError, RecursionError):
        raise Failure(400, "invalid_request", "The body is not JSON.") from None
    if not isinstance(body, dict):
        raise Failure(400, "invalid_request", "The body must be an object.")
    path = http.path.encode("utf-8", "surrogateescape")
    return Body(cast("dict[str, Any]", body), await _digest_body(path, raw))


async def _find_problem(raw: bytes) -> bytes:
    """Return what is wrong with JSON before it is decoded; empty if it may be decoded."""
    if len(raw) <= _SMALL:
        return _DEEP if too_deep(raw, _MAX_DEPTH) else b""
    found = 0
    for at in range(0, len(raw), _SLICE):
        found += sum(raw.count(separator, at, at + _SLICE) for separator in _SEPARATORS)
        if found > _MAX_DEPTH:
            # The brackets and commas that were counted may all be inside texts. Finding that out takes longer.
            return await run_aside(examine_json, raw)
        await asyncio.sleep(0)
    return b""


def examine_json(raw: bytes) -> bytes:
    """Return what is wrong with JSON, in a side process."""
    bare = without_strings(raw)
    # Every value except the first follows a comma or an opening bracket, so these are counted.
    if sum(map(bare.count, _SEPARATORS)) > MAX_VALUES:
        return _MANY
    return _DEEP if too_deep(bare, _MAX_DEPTH) else b""


async def _digest_body(path: bytes, raw: bytes) -> bytes:
    # A thread helps here, unlike with decoding: hashing lets others run meanwhile.
    hashed = hashlib.sha256(path)
    if len(raw) <= _SMALL:
        hashed.update(raw)
    else:
        await asyncio.to_thread(hashed.update, raw)
    return hashed.digest()


class Writer(Protocol):
    """Writes the events of one response as a vendor does."""

    def begin(self) -> bytes:
        """Write what comes before all text."""
        ...

    def text(self, piece: str) -> bytes:
        """Write a piece of text."""
        ...

    def end(self, answers: Sequence[DialectAnswer], rests: Sequence[str]) -> bytes:
        """Write the rest of each answer, and the end."""
        ...

    def failed(self, failure: Failure) -> bytes:
        """Write a failure, after which nothing comes."""
        ...


class EventStream(msgspec.Struct, eq=False):
    """One response. After ``every`` seconds without data it sends ``sign``, an event without content."""

    http: Http
    writer: Writer
    call: ModelCall
    sign: bytes
    every: float
    _has_head: bool = False
    _has_begun: bool = False

    async def run(self, gone: asyncio.Future[None], extra: tuple[HeaderPair, ...]) -> bool:
        """Send the response; return whether all was sent. Raises ``Failure`` as long as nothing was sent."""
        seen = 0
        while True:
            await self._news(seen, gone)
            if gone.done():
                return False
            outcome, pieces = self.call.outcome, self.call.pieces[seen:]
            seen += len(pieces)
            if not self._has_head:
                if isinstance(outcome, Failure) and not pieces:
                    raise outcome
                await self.http.send({"type": "http.response.start", "status": 200, "headers": [*_HEAD, *extra]})
                self._has_head = True
            part = self._begin() + self.writer.text("".join(pieces)) if pieces else b""
            if outcome is not None:
                await self._send(part + self._write_end(outcome), more=False)
                return True
            await self._send(part or self.sign, more=True)

    async def _news(self, seen: int, gone: asyncio.Future[None]) -> None:
        news = asyncio.ensure_future(self.call.news(seen))
        try:
            await asyncio.wait([news, gone], timeout=self.every, return_when=asyncio.FIRST_COMPLETED)
        finally:
            news.cancel()

    def _begin(self) -> bytes:
        has_begun, self._has_begun = self._has_begun, True
        return b"" if has_begun else self.writer.begin()

    def _write_end(self, outcome: list[DialectAnswer] | Failure) -> bytes:
        if isinstance(outcome, Failure):
            return self.writer.failed(outcome)
        flowed = "".join(self.call.pieces)
        rests = [answer.text for answer in outcome]
        if flowed:
            # The text that was sent cannot be taken back, so an answer that does not begin with it is an error.
            if not rests[0].startswith(flowed) and not flowed.startswith(rests[0]):
                return self.writer.failed(
                    Failure(502, "answer_changed", "The answer does not begin with the text that was sent.")
                )
            rests[0] = rests[0][len(flowed) :]
        return self._begin() + self.writer.end(outcome, rests)

    async def _send(self, part: bytes, *, more: bool) -> None:
        await self.http.send({"type": "http.response.body", "body": part, "more_body": more})
