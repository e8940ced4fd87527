"""The body of a request: read, examined, hashed and decoded, without holding up other requests.

Decoding takes time for each value rather than for each byte: small values take a hundred times as long as long texts
or images of the same size. So the number of values is limited, and a large body that may exceed it is examined in a
side process before it is decoded.
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


class Body(NamedTuple):
    """The body of a request, decoded."""

    members: Mapping[str, Any]
    digest: bytes
    """Hash of the path and of all bytes; a retry has the same."""


async def read_json(http: Http) -> Body:
    """Return the body of a request, which must be a JSON object.

    Raises:
        Failure: it is not, or it exceeds a limit.
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
    """Return what is wrong with JSON before it is decoded; empty if it may be decoded."""
    if len(raw) <= _SMALL:
        return _DEEP if too_deep(raw, _MAX_DEPTH) else b""
    found = 0
    for at in range(0, len(raw), _SLICE):
        found += sum(raw.count(separator, at, at + _SLICE) for separator in _SEPARATORS)
        if found > _MAX_DEPTH:
            # The brackets and commas that were counted may all be inside texts. Finding that out takes longer.
            return await run_aside(examine, raw)
        await asyncio.sleep(0)
    return b""


def examine(raw: bytes) -> bytes:
    """Return what is wrong with JSON, in a side process."""
    bare = without_strings(raw)
    # Every value except the first follows a comma or an opening bracket, so these are counted.
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
