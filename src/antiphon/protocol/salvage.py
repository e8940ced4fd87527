"""What can be read of a message that does not fit its type: its id, and whether it is a reply.

A reply is never answered, even if it cannot be read: the request that waits for it fails instead.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from antiphon.errors import InvalidRequest
from antiphon.wire.envelope import Envelope, ErrorObject, RequestId

__all__ = ["Remains", "read_remains", "salvage_reply"]


class Remains(msgspec.Struct):
    """The members that identify a message, with values of any type."""

    id: Any = None
    method: Any = None
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")

    @property
    def is_reply(self) -> bool:
        """Whether it is a reply, not a request."""
        return self.method is None and bool(self.result or self.error)

    @property
    def request(self) -> RequestId | None:
        """The id of the request that it is, or replies to; ``None`` if it cannot be read."""
        return self.id if type(self.id) in (int, str) else None


_decode_remains = msgspec.json.Decoder(Remains).decode


def read_remains(data: bytes) -> Remains:
    """Read as much as possible; nothing if the message is no object.

    Raises:
        msgspec.DecodeError: it is not JSON.
        UnicodeDecodeError: it is not UTF-8.
    """
    try:
        return _decode_remains(data)
    except (msgspec.ValidationError, RecursionError):
        return Remains()


def salvage_reply(body: bytes) -> Envelope | None:
    """Make an error reply from an unreadable reply, so that its request fails; ``None`` if it is no reply."""
    try:
        remains = read_remains(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if remains.request is None or not remains.is_reply:
        return None
    error = ErrorObject(code=InvalidRequest.CODE, message="The reply cannot be read")
    return Envelope(jsonrpc="2.0", id=remains.request, error=error)
