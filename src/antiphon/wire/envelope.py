"""JSON-RPC messages: decoding the envelope, and framing parts that are already encoded.

Owns the envelope with its limits, and ``decode_wire``, which decodes every payload. If a payload contains blocks of
unknown types, it is decoded again with these taken out (``repair``) and put back afterwards, so that they do not
invalidate the message. Text that is no Unicode is replaced in both directions (``as_unicode``, ``encode_value``).
``methods`` and the modules of the features define ``params`` and ``result``.

Owns also the conversion between exceptions and error objects: ``to_wire`` never sends the text of an unexpected
exception, and ``from_wire`` never raises.
"""

from __future__ import annotations

import codecs
import re
from array import array
from collections.abc import Callable, Mapping
from itertools import accumulate
from typing import Any, Literal, TypeVar, cast

import msgspec
from msgspec import UNSET, Raw, Struct, UnsetType, structs

from antiphon import errors
from antiphon.errors import InvalidRequest, ParseError

RequestId = int | str

T = TypeVar("T")

MAX_DEPTH = 128
"""Deepest nesting of JSON accepted. Real messages nest below 20, and no recursive consumer comes near its limit."""


MAX_AROUND = 64 * 1024
"""Most bytes of a request or notification outside its params. Only three short members are defined there, and whoever
keeps the params keeps the whole frame in memory."""


class ErrorObject(Struct, omit_defaults=True, frozen=True):
    """The ``error`` member of a reply (JSON-RPC 2.0, section 5.1)."""

    code: int
    message: str
    data: Any = None


class Envelope(Struct, frozen=True):
    """Any JSON-RPC 2.0 message. ``params`` and ``result`` stay undecoded until the method is known."""

    jsonrpc: Literal["2.0"]
    id: RequestId | UnsetType | None = UNSET
    method: str | UnsetType = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: ErrorObject | UnsetType = UNSET


class _LooseEnvelope(Struct, frozen=True):
    jsonrpc: Literal["2.0"]
    id: Any = UNSET
    method: str | UnsetType | None = UNSET
    params: Raw = Raw(b"")
    result: Raw = Raw(b"")
    error: ErrorObject | UnsetType | None = UNSET


_decode_envelope = msgspec.json.Decoder(Envelope).decode
_decode_loose_envelope = msgspec.json.Decoder(_LooseEnvelope).decode
_decode_batch = msgspec.json.Decoder(list[Raw]).decode
# The closing quote is optional, so that an unterminated string is not searched again from every quote inside it.
_STRING = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?'
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_LARGE = 16 * 1024
"""Size in bytes from which a frame is examined without copying it."""


_BASES: dict[type, Callable[[Any], object]] = {
    str: str.__str__, int: int.__int__, float: float.__float__, bytes: bytes,
}  # fmt: skip


def to_plain(value: Any) -> Any:
    """Return a value of a subclass, a date of another library or what numpy makes as Python's own; else ``None``."""
    for base, convert in _BASES.items():
        if isinstance(value, base):
            return convert(value)
    # The class is asked, since a mock has every attribute.
    method = next((name for name in ("isoformat", "tolist") if hasattr(value.__class__, name)), None)
    return getattr(value, method)() if method else None


def _encode_foreign(value: object) -> object:
    """Encode values that are no wire types: content of an unknown type as received, and models of pydantic."""
    original = getattr(value, "__wire__", None)
    if original is None and hasattr(value, "model_dump"):
        return cast("Any", value).model_dump(mode="json", by_alias=True)
    if original is None and (original := to_plain(value)) is None:
        raise TypeError(f"{type(value).__name__} cannot be sent: it is not JSON and not a wire type")
    return original


_encode = msgspec.json.Encoder(enc_hook=_encode_foreign).encode
_encode_canonical = msgspec.json.Encoder(enc_hook=_encode_foreign, order="deterministic").encode


def encode_value(value: object, encode: Callable[[object], bytes] = _encode) -> bytes:
    """Encode any wire type to JSON; half a surrogate pair becomes U+FFFD, because UTF-8 cannot carry it."""
    try:
        return encode(value)
    except UnicodeEncodeError:
        return encode(without_halves(value))


def encode_canonical(value: object) -> bytes:
    """Encode like ``encode_value``, with the same bytes in every process: mappings and sets have a fixed order."""
    return encode_value(value, _encode_canonical)


def without_halves(value: object, foreign: Callable[[Any], object] = _encode_foreign) -> object:
    """Return plain data with U+FFFD for halves of surrogate pairs; ``foreign`` converts what is no wire type."""
    return _replace_halves(msgspec.to_builtins(value, builtin_types=(Raw,), enc_hook=foreign))


def _replace_halves(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        members = cast("dict[Any, Any]", value)
        return {_replace_halves(name): _replace_halves(member) for name, member in members.items()}
    return [_replace_halves(item) for item in cast("list[Any]", value)] if isinstance(value, list | tuple) else value


_LONE_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
"""The JSON escape of half a surrogate pair, in a document without escaped backslashes."""

MAX_LONE = 1000
"""Most escapes of half a pair that are replaced in one document; with more, it is refused as no JSON."""


def as_unicode(data: bytes) -> bytes:
    """Return a document as JSON in UTF-8 without a mark; bytes and escapes that are no Unicode become U+FFFD."""
    data = data.removeprefix(codecs.BOM_UTF8)
    if not data.isascii():
        try:
            data.decode()
        except UnicodeDecodeError:
            data = data.decode(errors="replace").encode()
    if b"\\u" not in data:
        return data
    # Without escaped backslashes each remaining backslash begins an escape. A NUL is no JSON, so it can stand for one.
    plain = data.replace(b"\\\\", b"\0\0")
    mended = _LONE_ESCAPE.sub(rb"\\ufffd", plain, MAX_LONE)
    return data if mended == plain or b"\0" in data else mended.replace(b"\0\0", b"\\\\")


def read_mended(read: Callable[[bytes], T], data: bytes) -> T:
    """Decode a document; if it is no JSON, decode it once more as ``as_unicode`` mends it."""
    try:
        return read(data)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError:
        mended = as_unicode(data)
        if mended == data:
            raise
        return read(mended)


def decode_envelope(data: bytes) -> Envelope:
    """Decode one frame that is no batch: ``ParseError`` for what is no JSON, else ``InvalidRequest``."""
    if not data.isascii():
        # The decoder leaves text inside of the params and the result unchecked.
        data = as_unicode(data)
    if too_deep(data):
        raise InvalidRequest(f"Invalid request: JSON nested deeper than {MAX_DEPTH}")
    try:
        envelope = read_mended(_decode_envelope, data)
    except msgspec.ValidationError as error:
        envelope = _decode_loosely(data)
        if envelope is None:
            raise InvalidRequest(f"Invalid request: {error}") from None
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None
    if len(data) - len(envelope.params) > MAX_AROUND and envelope.method is not UNSET:
        raise InvalidRequest(f"Invalid request: more than {MAX_AROUND} bytes beside the params")
    return envelope


def _decode_loosely(data: bytes) -> Envelope | None:
    """Decode a message whose id is a whole number written as 3.0, or whose ``method`` or ``error`` is null.

    Serializers of Java and C# write each member that a message does not have as null. ``None`` if more is wrong.
    """
    try:
        read = read_mended(_decode_loose_envelope, data)
    except (msgspec.DecodeError, RecursionError):
        return None
    id = read.id if read.id is UNSET else as_id(read.id)
    method = UNSET if read.method is None else read.method
    error = UNSET if read.error is None else read.error
    if (id is None and read.id is not None) or (method is UNSET and error is UNSET and not read.result):
        return None
    return Envelope(read.jsonrpc, id, method, read.params, read.result, error)


def as_id(id: object) -> RequestId | None:
    """Return a decoded id as ours are compared: 3.0 is 3, since JSON has one kind of number; ``None`` if it is none."""
    if type(id) is float and id.is_integer() and abs(id) <= _LARGEST_WHOLE:
        return int(id)
    return id if isinstance(id, int | str) and not isinstance(id, bool) else None


_LARGEST_WHOLE = 2.0**53
"""Largest number up to which every integer has a float of its own."""


def split_batch(data: bytes) -> list[Raw] | None:
    """Return the messages of a batch, or ``None`` if the frame is not one (JSON-RPC 2.0, section 6)."""
    if data[:1] != b"[" and data.removeprefix(codecs.BOM_UTF8).lstrip()[:1] != b"[":
        return None
    if too_deep(data):
        raise InvalidRequest(f"Invalid request: JSON nested deeper than {MAX_DEPTH}")
    try:
        return read_mended(_decode_batch, data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise ParseError(f"Parse error: {error}") from None


def too_deep(data: bytes, limit: int = MAX_DEPTH) -> bool:
    """Return whether JSON nests deeper than ``limit``, without decoding it.

    Nesting cannot exceed the number of opening brackets, so counting these decides nearly every frame. Otherwise
    strings and everything but brackets are removed, and the running sum of the brackets is the depth.
    """
    if len(data) < _LARGE:
        # Counts brackets by the length without them, in a tenth of the time that ``bytes.count`` takes.
        most = limit + 1
        if 2 * len(data) - len(data.replace(b"{", b"", most)) - len(data.replace(b"[", b"", most)) <= limit:
            return False
    elif _has_few_brackets(data, limit):
        return False
    steps = array("b", without_strings(data).translate(_STEPS, _NOT_BRACKETS))
    return max(accumulate(steps), default=0) > limit


def without_strings(data: bytes) -> bytes:
    """Return JSON without its strings, in linear time."""
    return re.sub(_STRING, b"", data, flags=re.DOTALL)


def _has_few_brackets(data: bytes, limit: int) -> bool:
    # The search copies nothing: allocating copies of a large frame takes longer than the search itself (20 us).
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
"""Payload size in bytes from which ``join`` is used: ``%`` allocates half as much again (1 MiB: 800 us, not 30)."""


def _encode_id(id: RequestId) -> bytes:
    return b"%d" % id if type(id) is int else encode_value(id)


def request_frame(id: RequestId, method: str, params: bytes) -> bytes:
    """Frame a request from its encoded params."""
    if len(params) >= _JOINED:
        return b"".join(
            (b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":' % (_encode_id(id), method.encode()), params, b"}")
        )
    return b'{"jsonrpc":"2.0","id":%b,"method":"%b","params":%b}' % (_encode_id(id), method.encode(), params)


def notification_frame(method: str, params: bytes) -> bytes:
    """Frame a notification from its encoded params; empty params are left out."""
    if params == b"{}":
        return b'{"jsonrpc":"2.0","method":"%b"}' % method.encode()
    return b'{"jsonrpc":"2.0","method":"%b","params":%b}' % (method.encode(), params)


def result_frame(id: RequestId, result: bytes) -> bytes:
    """Frame an encoded result."""
    if len(result) >= _JOINED:
        return b"".join((b'{"jsonrpc":"2.0","id":%b,"result":' % _encode_id(id), result, b"}"))
    if type(id) is int:
        return b'{"jsonrpc":"2.0","id":%d,"result":%b}' % (id, result)
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (_encode_id(id), result)


def error_frame(id: RequestId | None, error: ErrorObject, *, null_id: bool) -> bytes:
    """Frame an error reply; without an id the member is ``null`` or left out, by the revision (``null_id``)."""
    if id is None and not null_id:
        return b'{"jsonrpc":"2.0","error":%b}' % encode_value(error)
    return b'{"jsonrpc":"2.0","id":%b,"error":%b}' % (b"null" if id is None else _encode_id(id), encode_value(error))


def prepend_members(members: bytes, encoded: bytes) -> bytes:
    """Put constant members (``_meta`` with our name), encoded once, before those of an encoded object."""
    if encoded == b"{}":
        return b"{%b}" % members
    if len(encoded) >= _JOINED:
        return b"".join((b"{", members, b",", memoryview(encoded)[1:]))
    return b"{%b,%b" % (members, encoded[1:])


_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


def decode_wire(raw: bytes | Raw, kind: type[T]) -> T:
    """Decode params or a result of an ``Envelope``; without data, as if it were an empty object."""
    decoder = _decoders.get(kind)
    if decoder is None:
        decoder = _decoders[kind] = msgspec.json.Decoder(kind)
    try:
        return decoder.decode(raw or b"{}")
    except msgspec.ValidationError as error:
        return _decode_around_unknown(raw or b"{}", kind, error)


def _decode_around_unknown(raw: bytes | Raw, kind: type[T], first: msgspec.ValidationError) -> T:
    """Decode again with stand-ins for unknown content; raise the first error if there is no unknown content."""
    from antiphon.wire.repair import mend_document

    if bytes(raw) in (b"null", b"[]") and not hasattr(kind, "result_type"):
        # Clients written in Lisp or PHP send one of these where there are no params.
        return _decoders[kind].decode(b"{}")
    document, unknown = mend_document(msgspec.json.decode(raw), kind)
    try:
        # Not converted: members that stay undecoded can only be read from bytes.
        values = [_decoders[kind].decode(encode_value(document))]
    except msgspec.ValidationError as error:
        raise (error if unknown else first) from None
    finally:
        # The error's traceback holds this frame, which would hold the error: a cycle that keeps the whole
        # message alive.
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
    """Return the text of a decoding error, and free its traceback, which holds the message in a cycle."""
    error.__traceback__ = error.__context__ = None
    return str(error)


# Those with a code of their own are directly below ``PeerError``.
_OURS: list[type[errors.PeerError]] = [
    kind for kind in vars(errors).values() if errors.PeerError in getattr(kind, "__bases__", ())
]
_BY_CODE = {kind.CODE: kind for kind in _OURS}


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


def read_data(error: errors.PeerError, member: str) -> object:
    """Return a member of an error's data; ``None`` if it has none, as the data may be anything."""
    return cast("Mapping[str, object]", error.data).get(member) if isinstance(error.data, Mapping) else None
