"""Conversion between exceptions and error objects, in both directions.

``to_wire`` never sends the text of an unexpected exception; ``from_wire`` never raises.
"""

from __future__ import annotations

from typing import cast

from antiphon import errors
from antiphon.wire.envelope import ErrorObject

_BY_CODE: dict[int, type[errors.PeerError]] = {
    kind.CODE: kind
    for kind in (
        errors.ParseError,
        errors.InvalidRequest,
        errors.MethodNotFound,
        errors.InvalidParams,
        errors.InternalError,
        errors.ResourceNotFound,
        errors.HeaderMismatch,
        errors.MissingCapability,
        errors.UnsupportedVersion,
        errors.UrlElicitationRequired,
        errors.Unauthorized,
        errors.Rejected,
        errors.InsufficientScope,
        errors.TemporarilyUnavailable,
        errors.OutcomeUnknown,
    )
}


def cause_of(error: Exception) -> Exception:
    """Return the only error in a group, as the ``TaskGroup`` of a handler raises it; without a group, the error."""
    cause = error
    while isinstance(cause, ExceptionGroup):
        members = cast("tuple[Exception, ...]", cause.exceptions)
        if len(members) != 1:
            return error
        cause = members[0]
    return cause


def drop_frames(error: BaseException) -> None:
    """Release the frames of a reported exception, its causes and members, because they hold the request in cycles."""
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
    """Convert an exception for the peer: anything but our own ``PeerError`` is "Internal error", without text."""
    if isinstance(error, ExceptionGroup):
        error = cause_of(cast("ExceptionGroup[Exception]", error))
    if isinstance(error, errors.PeerError) and not error.remote:
        return ErrorObject(code=error.code, message=error.told or error.message, data=error.data)
    return ErrorObject(code=errors.InternalError.CODE, message="Internal error")


def from_wire(error: ErrorObject) -> errors.PeerError:
    """Convert an error reply to the exception of its code, or to a plain ``PeerError`` if the code is unknown."""
    received = _BY_CODE.get(error.code, errors.PeerError)(error.message, code=error.code, data=error.data)
    received.remote = True
    return received
