"""Content of a type we do not know: it must not cost the message it is in, and must survive being passed on.

Owns ``decode``, by which every payload is decoded: at full speed when all content is known, and else a second time
with the unknown blocks taken out before and put back after. Any other misfit stays an error.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
from msgspec import Raw, structs

from antiphon.wire.content import UnknownContent

__all__ = ["UnknownContent", "decode"]

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


def _put_back(values: Any, path: tuple[str | int, ...], block: UnknownContent) -> None:
    target = values
    for step in path[:-1]:
        target = target[step] if isinstance(step, int) else getattr(target, step)
    last = path[-1]
    if isinstance(last, int):
        target[last] = block
    else:
        structs.force_setattr(target, last, block)
