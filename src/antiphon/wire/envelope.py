"""One JSON-RPC message as it travels: taken apart once, put together from parts that are encoded already.

Owns the envelope and its limits, and ``decode``, by which every payload is decoded: at full speed when all content is
known, and else a second time with the blocks of unknown types taken out before (``mending``) and put back after, so
that they do not cost the message they are in. What ``params`` and ``result`` mean is the business of ``methods`` and
the feature files.
"""

from __future__ import annotations

import re
from array import array
from itertools import accumulate
from typing import Any, Literal, TypeVar

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from antiphon.errors import InvalidRequest, ParseError

__all__ = [
    "MAX_AROUND",
    "MAX_DEPTH",
    "Envelope",
    "ErrorObject",
    "RequestId",
    "decode",
    "decode_envelope",
    "encode",
    "encode_canonical",
    "error_frame",
    "notification_frame",
    "prepend",
    "problem_of",
    "recover_id",
    "request_frame",
    "result_frame",
    "split_batch",
    "too_deep",
]

RequestId = int | str

MAX_DEPTH = 128
"""Deepest nesting of JSON taken. Real messages nest below 20; recursion in any consumer stays far from its limit."""


MAX_AROUND = 64 * 1024
"""Most bytes of a request or notification beside its params: nothing is defined there but three short members, and
whoever keeps the params keeps the whole frame."""


class ErrorObject(Struct, omit_defaults=True, frozen=True):
    """The ``error`` member of a reply (JSON-RPC 2.0, section 5.1)."""

    code: int
    message: str
    data: Any = None


class Envelope(Struct, frozen=True):
    """Any JSON-RPC 2.0 message. ``params`` and ``result`` stay undecoded bytes until the method is known."""

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: ErrorObject | UnsetType = UNSET


class _Id(Struct):
    id: RequestId | None = None


_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_id = msgspec.json.Decoder(_Id).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode
# The closing quote is optional: a string that never ends must not be looked for again at every quote within it.
_STRING = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LARGE = 16 * 1024
"""Bytes from which on a frame is not copied to look at it."""


def _encode_foreign(value: object) -> object:
    """Encode what is not ours: content of an unknown type as it came."""
    original = getattr(value, "__wire__", None)
    if original is None:
        raise TypeError(f"{type(value).__name__} cannot be sent: it is not JSON and not a wire type")
    return original


encode = msgspec.json.Encoder(enc_hook=_encode_foreign).encode
"""Encode any wire type to JSON bytes."""

encode_canonical = msgspec.json.Encoder(enc_hook=_encode_foreign, order="deterministic").encode
"""Encode any wire type to JSON bytes that are the same in every process: mappings and sets in a fixed order."""


def decode_envelope(data: bytes) -> Envelope:
    """Decode one frame that is not a batch.

    Raises:
        ParseError: it is not JSON.
        InvalidRequest: it is JSON, but no JSON-RPC 2.0 message, or nested deeper than ``MAX_DEPTH``.
    """
    if too_deep(data):
        raise InvalidRequest(f"Invalid request: JSON nested deeper than {MAX_DEPTH}")
    try:
        envelope = _decode_envelope(data)
    except msgspec.ValidationError as error:
        raise InvalidRequest(f"Invalid request: {error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None
    if len(data) - len(envelope.params) > MAX_AROUND and envelope.method is not UNSET:
        raise InvalidRequest(f"Invalid request: more than {MAX_AROUND} bytes beside the params")
    return envelope


def recover_id(data: bytes) -> RequestId | None:
    """Find the id of a message that could not be decoded as a whole, or ``None``."""
    try:
        return _decode_id(data).id
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None


def split_batch(data: bytes) -> list[Raw] | None:
    """Return the messages of a batch, or ``None`` if the frame is not one (JSON-RPC 2.0, section 6)."""
    if data[:1] != b"[" and data.lstrip()[:1] != b"[":
        return None
    if too_deep(data):
        raise InvalidRequest(f"Invalid request: JSON nested deeper than {MAX_DEPTH}")
    try:
        return _decode_batch(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None


def too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Tell whether JSON nests deeper than ``limit``, without decoding it.

    Nesting cannot exceed the number of opening brackets, so nearly every frame is decided by counting those. The rest
    lose their strings and everything but brackets, whose running sum is the depth.
    """
    if len(data) < _LARGE:
        # By how much shorter it is without them: takes a tenth of the time of ``bytes.count``.
        most = limit + 1
        if 2 * len(data) - len(data.replace(b"{", b"", most)) - len(data.replace(b"[", b"", most)) <= limit:
            return False
    elif _has_few_brackets(data, limit):
        return False
    steps = array("b", _STRING.sub(b"", data).translate(_STEPS, _NOT_BRACKETS))
    return max(accumulate(steps), default=0) > limit


def _has_few_brackets(data: bytes, limit: int) -> bool:
    # The search copies nothing: memory for copies of a large frame takes longer to find than the brackets (20 us).
    left = limit
    for bracket in (b"{", b"["):
        at = data.find(bracket)
        while at >= 0:
            left -= 1
            if left < 0:
                return False
            at = data.find(bracket, at + 1)
    return True


_JOINED = 64 * 1024
"""Bytes of a payload from which on it is joined: ``%`` makes room for half as much again (1 MiB: 800 us, not 30)."""


def _id(id: RequestId) -> bytes:
    return b"%d" % id if type(id) is int else encode(id)


def request_frame(id: RequestId, method: str, params: bytes) -> bytes:
    """Frame a request whose params are encoded already."""
    if len(params) >= _JOINED:
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
    if len(result) >= _JOINED:
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
    if len(encoded) >= _JOINED:
        return b"".join((b"{", members, b",", memoryview(encoded)[1:]))
    return b"{%b,%b" % (members, encoded[1:])


T = TypeVar("T")

_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode(raw: bytes | Raw, kind: type[T]) -> T:
    """Decode params or a result. Nothing at all (params left out) counts as an empty object.

    Raises:
        msgspec.ValidationError: the JSON does not fit; the message names the place.
        msgspec.DecodeError: it is not JSON (inside of what ``envelope`` left undecoded).
    """
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        try:
            return decoder.decode(raw or b"{}")
        except msgspec.ValidationError as error:
            return _decode_around_unknown(raw or b"{}", kind, error)
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError(f"JSON is malformed: {error}") from None


def _decode_around_unknown(raw: bytes | Raw, kind: type[T], first: msgspec.ValidationError) -> T:
    """Decode once more with stand-ins for what is unknown, or raise the error that is not about unknown content."""
    from antiphon.wire.mending import mend

    document, unknown = mend(msgspec.json.decode(raw), kind)
    try:
        values = [msgspec.convert(document, kind)]
    except msgspec.ValidationError as error:
        raise (error if unknown else first) from None
    finally:
        # The frame is in the traceback of the error it holds: a cycle, with a peer's whole message in it.
        del first
    for path, block in unknown:
        _put_back(values, (0, *path), block)
    return values[0]


def _put_back(values: Any, path: tuple[str | int, ...], block: object) -> None:
    target = values
    for step in path[:-1]:
        target = target[step] if isinstance(step, int) else getattr(target, step)
    last = path[-1]
    if isinstance(last, int):
        target[last] = block
    else:
        structs.force_setattr(target, last, block)


def problem_of(error: Exception) -> str:
    """Return what an error of decoding says, and let go of the message.

    The frames of its traceback hold the whole of it and lead back to the error: without this, megabytes would wait for
    the garbage collector.
    """
    error.__traceback__ = error.__context__ = None
    return str(error)
