"""Exceptions to error objects and back: the one place where the two meet.

``to_wire`` never lets the text of an unexpected exception out; ``from_wire`` never raises.
"""

from __future__ import annotations

from typing import cast

from antiphon.errors import (
    HeaderMismatch,
    InternalError,
    InvalidParams,
    InvalidRequest,
    MethodNotFound,
    MissingCapability,
    ParseError,
    PeerError,
    Rejected,
    ResourceNotFound,
    UnsupportedVersion,
    UrlElicitationRequired,
)
from antiphon.wire.envelope import ErrorObject

__all__ = ["cause_of", "drop_frames", "from_wire", "to_wire"]

_BY_CODE: dict[int, type[PeerError]] = {
    kind.CODE: kind
    for kind in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        ResourceNotFound,
        HeaderMismatch,
        MissingCapability,
        UnsupportedVersion,
        UrlElicitationRequired,
        Rejected,
    )
}


def cause_of(error: Exception) -> Exception:
    """Return the one error that a group consists of, as the ``TaskGroup`` of a handler makes it; else the error."""
    cause = error
    while isinstance(cause, ExceptionGroup):
        members = cast("tuple[Exception, ...]", cause.exceptions)
        if len(members) != 1:
            return error
        cause = members[0]
    return cause


def drop_frames(error: BaseException) -> None:
    """Let go of what an exception keeps alive, now that it was told and logged: the frames it was raised through.

    They hold the request, its arguments and often the exception itself: garbage that only a collection finds, which
    can be long in coming. The exceptions behind it and in it let go as well.
    """
    waiting, seen = [error], set[int]()
    while waiting:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        one.__traceback__ = None
        waiting += [behind for behind in (one.__cause__, one.__context__) if behind is not None]
        if isinstance(one, BaseExceptionGroup):
            waiting += cast("BaseExceptionGroup[BaseException]", one).exceptions


def to_wire(error: BaseException) -> ErrorObject:
    """Turn an exception into what the peer is told.

    Anything but a ``PeerError``, and one that another peer has sent to us, is "Internal error" and no more.
    """
    if isinstance(error, ExceptionGroup):
        error = cause_of(cast("ExceptionGroup[Exception]", error))
    if isinstance(error, PeerError) and not error.remote:
        return ErrorObject(code=error.code, message=error.told or error.message, data=error.data)
    return ErrorObject(code=InternalError.CODE, message="Internal error")


def from_wire(error: ErrorObject) -> PeerError:
    """Turn an error reply into the exception of its code, or a plain ``PeerError`` for a code we do not know."""
    received = _BY_CODE.get(error.code, PeerError)(error.message, code=error.code, data=error.data)
    received.remote = True
    return received
