"""What a modern call came to: how a request is answered with it, and what becomes of one that cannot be sent.

Whoever waits for a call must hear of it, also where its handler gave what JSON has no form for: half a surrogate pair
in a text, an object in an error's data. When a call ends, and for whom, is ``parked_call``'s business.
"""

from __future__ import annotations

import msgspec
from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import InternalError
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.wire.common import Wire
from antiphon.wire.envelope import encode
from antiphon.wire.failure import to_wire

__all__ = ["UNSENDABLE", "deliver", "unsendable"]

UNSENDABLE = (TypeError, ValueError, RecursionError, msgspec.EncodeError)
"""What encoding raises for a value without a JSON form."""


def unsendable(outcome: Wire | Raw | BaseException, error: Exception) -> tuple[BaseException, Raw]:
    """Return what to deliver of an outcome that could not be encoded, and the bytes to keep for a retry.

    An error is delivered as it is, for the session to log and to refuse; of a result, what was wrong with it.
    """
    kept = Raw(encode(to_wire(InternalError("Internal error"))))
    return outcome if isinstance(outcome, BaseException) else error, kept


def deliver(connection: Connection[ServerSession], request: Request, outcome: Wire | Raw | BaseException) -> None:
    """Answer a request with a result, or with an error."""
    if isinstance(outcome, BaseException):
        connection.reply_error(request, outcome)
    else:
        connection.reply(request, outcome)
