"""Messages to bytes: each payload is encoded once and framed by constant bytes.

Owns how an outgoing JSON-RPC message is put together; knows nothing of states or revisions.
"""

from __future__ import annotations

from antiphon.wire.envelope import ErrorObject, RequestId, encode

__all__ = ["error_frame", "notification_frame", "prepend", "request_frame", "result_frame"]

_LARGE = 64 * 1024
"""Bytes of a payload from which on it is joined: ``%`` makes room for half as much again (1 MiB: 800 us, not 30)."""


def _id(id: RequestId) -> bytes:
    return b"%d" % id if type(id) is int else encode(id)


def request_frame(id: RequestId, method: str, params: bytes) -> bytes:
    """Frame a request whose params are encoded already."""
    if len(params) >= _LARGE:
        return b"".join(
            (b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":' % (_id(id), method.encode()), params, b"}")
        )
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (_id(id), method.encode(), params)


def notification_frame(method: str, params: bytes) -> bytes:
    """Frame a notification; empty params are left out."""
    if params == b"{}":
        return b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def result_frame(id: RequestId, result: bytes) -> bytes:
    """Frame a result that is encoded already."""
    if len(result) >= _LARGE:
        return b"".join((b'{"jsonrpc":"2.0","id":%b,"result":' % _id(id), result, b"}"))
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_id(id), result)


def error_frame(id: RequestId | None, error: ErrorObject, *, null_id: bool) -> bytes:
    """Frame an error reply. Without an id, the member is ``null`` or left out, as the revision wants (``null_id``)."""
    if id is None and not null_id:
        return b'{"jsonrpc":"2.0","error":%b}' % encode(error)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (b"null" if id is None else _id(id), encode(error))


def prepend(members: bytes, encoded: bytes) -> bytes:
    """Put constant members in front of those of an encoded object.

    What every message of a connection repeats (``_meta`` with who we are) is so encoded once per connection.
    ``members`` has no braces and no trailing comma.
    """
    if encoded == b"{}":
        return b"{%b}" % members
    if len(encoded) >= _LARGE:
        return b"".join((b"{", members, b",", memoryview(encoded)[1:]))
    return b"{%b,%b" % (members, encoded[1:])
