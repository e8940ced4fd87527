"""Reads a message that does not fit its type, or is no JSON: its id, and whether it is a reply.

A reply is never answered, even if it cannot be read: the request that waits for it fails instead.
"""

from __future__ import annotations

import json
import re
from typing import Any, cast

import msgspec
from msgspec import Raw

from antiphon.errors import InvalidRequest, PeerError
from antiphon.wire.envelope import (
    Envelope,
    ErrorObject,
    RequestId,
    as_id,
    as_unicode,
    decode_envelope,
    read_mended,
    too_deep,
)
from antiphon.wire.lists import mend_list

_begins_message = re.compile(rb"\s*+\{?\s*+[\"'](?:jsonrpc|id|method|params|result|error)[\"']\s*+:").match
"""Tells a message that is no JSON, such as a Python dict that was printed, from a line for people."""
_has_method = re.compile(rb"[\"']method[\"']").search
_has_outcome = re.compile(rb"[\"'](?:result|error)[\"']").search

_find_id = re.compile(
    rb'\s*+\{\s*+(?:"jsonrpc"\s*+:\s*+"2\.0"\s*+,\s*+)?"id"\s*+:\s*+(?:(\d{1,15})|"([ -!#-[\]-~]{1,99})")'
).match
"""Finds the id of a message that was cut off, if the id stands at its beginning."""

_SOME = Raw(b"null")
"""Stands for a member that is there, and cannot be read."""


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
        return as_id(self.id)


_decode_remains = msgspec.json.Decoder(Remains).decode


def read_remains(data: bytes) -> Remains:
    """Read what is readable, nothing if it is no object; raise if no message can be recognised in it."""
    try:
        return read_mended(_decode_remains, data)
    except RecursionError:
        # It may be a message of any kind.
        return _read_loosely(data) or Remains(method="")
    except msgspec.ValidationError:
        # A line of a reply in several lines begins with the name of a member, which by itself is JSON.
        return (_read_loosely(data) if data[:1] == b'"' else None) or Remains()
    except msgspec.DecodeError:
        remains = _read_loosely(data)
        if remains is None:
            raise
        return remains


def _read_loosely(data: bytes) -> Remains | None:
    """Read a message that is nearly JSON (NaN, raw tabs), or a reply that is too deep or cut off."""
    if not _begins_message(data):
        return None
    try:
        if too_deep(data):
            raise RecursionError
        members = cast("dict[str, object]", json.loads(as_unicode(data), strict=False))
    except (ValueError, RecursionError):
        listed = read_list(data)
        if listed is not None:
            return Remains(listed.id, result=_SOME)
        if _has_method(data) or not _has_outcome(data):
            return None
        found = _find_id(data)
        return Remains(None if found is None else int(found[1]) if found[1] else found[2].decode(), result=_SOME)
    has_outcome = not members.keys().isdisjoint(("result", "error"))
    return Remains(members.get("id"), members.get("method"), result=_SOME if has_outcome else Raw(b""))


def read_list(data: bytes) -> Envelope | None:
    """Read a reply with a list of which entries are no JSON or too deep; ``None`` if other parts are, too."""
    try:
        envelope = decode_envelope(mend_list(data))
    except PeerError:
        return None
    return envelope if envelope.result and envelope.method is msgspec.UNSET else None


def recover_id(data: bytes) -> RequestId | None:
    """Return the id of a message that cannot be decoded completely, or ``None``."""
    try:
        return read_remains(data).request
    except msgspec.DecodeError:
        return None


def salvage_reply(body: bytes) -> Envelope | None:
    """Make an error reply of what is no message, ``None`` if it is a request; without an id it is of the only one."""
    try:
        remains = read_remains(body)
    except msgspec.DecodeError:
        return None
    if remains.method is not None:
        return None
    id = "" if remains.request is None else remains.request
    error = ErrorObject(code=InvalidRequest.CODE, message="The reply cannot be read")
    return Envelope(jsonrpc="2.0", id=id, error=error)
