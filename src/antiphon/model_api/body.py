"""The body of a request: read, examined, hashed and decoded, without holding up other requests.

Small values cost the most time, a hundred times more for each byte than long texts or images do. So a body may hold a
limited number of them, and a large one with many is examined in a side process before it is decoded.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Mapping
from typing import Any, NamedTuple, cast

import msgspec

from antiphon.errors import TooCostly
from antiphon.machine.side_process.pool import run_aside
from antiphon.model_api.dialects.failures import Failure
from antiphon.transports.http.server.asgi import Http
from antiphon.transports.http.server.body import read_body
from antiphon.wire.envelope import too_deep, without_strings

__all__ = ["BODY_SECONDS", "MAX_BODY", "MAX_VALUES", "Body", "read_json"]

MAX_BODY = 16 * 1024 * 1024
"""Most bytes of one request, as of one message of a server."""
BODY_SECONDS = 30.0
"""Seconds for all of a body."""
MAX_VALUES = 50_000
"""Most values in one request: ten times those of a conversation of 500 messages, and 10 ms of decoding at worst."""
_MAX_DEPTH = 80
"""Deepest nesting of a request: the deepest schema that the host takes, in its place."""
_SMALL = 64 * 1024
"""Bytes of a body that is examined at once: it cannot hold more than ``MAX_VALUES``."""
_SLICE = 1024 * 1024
"""Bytes that are counted at once, in about a millisecond."""
_SEPARATORS = (b",", b"[", b"{")
_DEEP, _MANY = b"deep", b"many"


class Body(NamedTuple):
    """A body."""

    members: Mapping[str, Any]
    digest: bytes
    """Of the path and of all bytes: the same for a retry."""


async def read_json(http: Http) -> Body:
    """Return the body of a request, which is an object.

    Raises:
        Failure: it is none, or is beyond a limit.
    """
    kind = http.headers.get(b"content-type", b"").partition(b";")[0].strip().lower()
    if kind != b"application/json" or b"content-encoding" in http.headers:
        raise Failure(415, "invalid_request", "The body must be JSON: application/json, not encoded.")
    raw = await read_body(http, MAX_BODY, BODY_SECONDS)
    if not isinstance(raw, bytes):
        raise Failure(raw.status, "invalid_request", raw.error.message)
    try:
        problem = await _problem(raw)
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
    return Body(cast("dict[str, Any]", body), await _digest(path, raw))


async def _problem(raw: bytes) -> bytes:
    """Return what is wrong with JSON that is not decoded yet; nothing if it may be."""
    if len(raw) <= _SMALL:
        return _DEEP if too_deep(raw, _MAX_DEPTH) else b""
    found = 0
    for at in range(0, len(raw), _SLICE):
        found += sum(raw.count(separator, at, at + _SLICE) for separator in _SEPARATORS)
        if found > _MAX_DEPTH:
            # They may all be in texts. Finding that out takes longer.
            return await run_aside(examine, raw)
        await asyncio.sleep(0)
    return b""


def examine(raw: bytes) -> bytes:
    """Return what is wrong with JSON, in a side process."""
    bare = without_strings(raw)
    # Each value but the first follows a comma, or begins what a bracket opens.
    if sum(map(bare.count, _SEPARATORS)) > MAX_VALUES:
        return _MANY
    return _DEEP if too_deep(bare, _MAX_DEPTH) else b""


async def _digest(path: bytes, raw: bytes) -> bytes:
    # A thread helps here, unlike with decoding: hashing lets others run meanwhile.
    hashed = hashlib.sha256(path)
    if len(raw) <= _SMALL:
        hashed.update(raw)
    else:
        await asyncio.to_thread(hashed.update, raw)
    return hashed.digest()
