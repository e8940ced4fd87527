"""The server's replies to our requests, read: into the type of a result, or as a round that asks for input.

Owns what a ``resultType`` means and which errors mean the same. When a request is made, and what follows from its
result, is the business of ``calls``.
"""

from __future__ import annotations

import re
from typing import TypeVar

from msgspec import DecodeError, Raw

from antiphon.errors import PeerError, RemoteProtocolError
from antiphon.wire.common import Wire
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.failure import from_wire
from antiphon.wire.revisions import LATEST
from antiphon.wire.rounds import INPUT_REQUIRED, InputRequiredResult, result_type_of
from antiphon.wire.unknown import decode

__all__ = ["lifted", "problem_of", "read_legacy", "read_modern"]

R = TypeVar("R", bound=Wire)

_may_be_round = re.compile(INPUT_REQUIRED.encode()).search
"""Nearly always tells a round from a result, at the price of looking for one word."""


def lifted(method: str, error: PeerError) -> PeerError:
    """Return an error reply as the newest revision would have put it."""
    if method != "resources/read":
        return error
    # 2026-07-28 server/resources: not found is -32602 with the URI; before, it had a code of its own. Servers mix the
    # two up, so both are understood in every revision.
    sent = ErrorObject(code=error.code, message=error.message, data=error.data)
    return from_wire(LATEST.lift_error(sent))


def read_legacy(raw: Raw, method: str, result: type[R]) -> R:
    """Read a result of the revisions without rounds.

    Raises:
        RemoteProtocolError: it does not fit its type.
    """
    try:
        return decode(raw, result)
    except (DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(method, error) from None


def read_modern(raw: Raw, method: str, result: type[R]) -> R | InputRequiredResult:
    """Read a result, or the round that comes in its place.

    Raises:
        RemoteProtocolError: it fits neither, or has an unknown ``resultType``.
    """
    if _may_be_round(raw) and _result_type(raw) == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    try:
        done = decode(raw, result)
    except (DecodeError, UnicodeDecodeError) as error:
        if _result_type(raw) == INPUT_REQUIRED:
            return read_legacy(raw, method, InputRequiredResult)
        raise _unreadable(method, error) from None
    kind = getattr(done, "result_type", None)
    if kind in (None, "complete"):
        return done
    if kind == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    # 2026-07-28 basic: an absent resultType is complete, an unknown one is invalid.
    raise RemoteProtocolError(f"The server's answer to {method} has the unknown resultType {kind!r}")


def problem_of(error: Exception) -> str:
    """Return what an error of decoding says, and let go of the message.

    The frames of its traceback hold the whole of it and lead back to the error: without this, megabytes would wait for
    the garbage collector.
    """
    error.__traceback__ = error.__context__ = None
    return str(error)


def _unreadable(method: str, error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"The server's answer to {method} cannot be read: {problem_of(error)}")


def _result_type(raw: Raw) -> str | None:
    try:
        return result_type_of(raw)
    except DecodeError:
        return None
