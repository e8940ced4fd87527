"""What can still be read of a message that does not fit: whose it is, and whether it is a reply.

A reply is never answered, not even one that cannot be read: whoever waits for it is told instead.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from antiphon.errors import InvalidRequest
from antiphon.wire.envelope import Envelope, ErrorObject, RequestId

__all__ = ["Remains", "read_remains", "salvage_reply"]


class Remains(msgspec.Struct):
    """The members that every message is told by, whatever they hold."""

    id: Any = None
    method: Any = None
    result: Raw = Raw(b"")
    error: Raw = Raw(b"")

    @property
    def is_reply(self) -> bool:
        """Whether it is a reply, and no request."""
        return self.method is None and bool(self.result or self.error)

    @property
    def request(self) -> RequestId | None:
        """The request it is about, or is; ``None`` if that cannot be said."""
        return self.id if type(self.id) in (int, str) else None


_decode_remains = msgspec.json.Decoder(Remains).decode


def read_remains(data: bytes) -> Remains:
    """Read what can be read; nothing, where the message is no object.

    Raises:
        msgspec.DecodeError: it is no JSON.
        UnicodeDecodeError: it is no text.
    """
    try:
        return _decode_remains(data)
    except (msgspec.ValidationError, RecursionError):
        return Remains()


def salvage_reply(body: bytes) -> Envelope | None:
    """Make an error reply of a reply that cannot be read, so that whoever waits for it is told; else ``None``."""
    try:
        remains = read_remains(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    if remains.request is None or not remains.is_reply:
        return None
    error = ErrorObject(code=InvalidRequest.CODE, message="The reply cannot be read")
    return Envelope(jsonrpc="2.0", id=remains.request, error=error)
