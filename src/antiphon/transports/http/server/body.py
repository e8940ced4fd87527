"""Reading the whole body of a request, limited in size and time."""

from __future__ import annotations

import asyncio
import types
from collections.abc import Generator
from typing import Any

from antiphon.errors import InvalidRequest
from antiphon.protocol.http.rules import Refusal
from antiphon.transports.http.server.asgi import Http, Message

__all__ = ["GONE", "read_body"]

GONE = Refusal(400, InvalidRequest("The request was not finished"))
"""The client disconnected before its body was complete, so nobody reads this."""


async def read_body(http: Http, limit: int, patience: float) -> bytes | Refusal:
    """Read the body. ``limit`` in bytes (beyond it 413), ``patience`` in seconds for all of it (408)."""
    length = http.headers.get(b"content-length")
    if length is not None and (not length.isdigit() or len(length) > 15 or int(length) > limit):
        return _too_large(limit)
    # Usually the whole body has arrived already, and then no timer is needed.
    receiving = http.receive().__await__()
    try:
        pending = receiving.send(None)
    except StopIteration as stop:
        message: Message = stop.value
        if message["type"] == "http.request" and not message.get("more_body"):
            whole: bytes = message.get("body", b"")
            return whole if len(whole) <= limit else _too_large(limit)
    else:
        try:
            async with asyncio.timeout(patience):
                message = await _go_on(receiving, pending)
        except TimeoutError:
            return _too_slow()
    body: bytes = message.get("body", b"")
    if message["type"] == "http.disconnect":
        return GONE
    if message.get("more_body"):
        return await _read_rest(http, body, limit, patience)
    return body if len(body) <= limit else _too_large(limit)


async def _read_rest(http: Http, first: bytes, limit: int, patience: float) -> bytes | Refusal:
    pieces = [first]
    size = len(first)
    try:
        async with asyncio.timeout(patience):
            while True:
                message = await http.receive()
                if message["type"] == "http.disconnect":
                    return GONE
                pieces.append(message.get("body", b""))
                size += len(pieces[-1])
                if size > limit:
                    return _too_large(limit)
                if not message.get("more_body"):
                    return b"".join(pieces)
    except TimeoutError:
        return _too_slow()


@types.coroutine
def _go_on(begun: Generator[Any, Any, Message], pending: Any) -> Generator[Any, Any, Message]:
    """Continue to await something that was started already."""
    try:
        while True:
            try:
                value = yield pending
            except BaseException as error:
                pending = begun.throw(error)
            else:
                pending = begun.send(value)
    except StopIteration as stop:
        return stop.value


def _too_large(limit: int) -> Refusal:
    return Refusal(413, InvalidRequest(f"Invalid request: the limit is {limit} bytes"))


def _too_slow() -> Refusal:
    return Refusal(408, InvalidRequest("The body did not arrive in time"))
