"""OpenAI's embeddings: its requests as texts for the host, and vectors as its response.

The response is written in pieces, since it may hold millions of numbers.
"""

from __future__ import annotations

import base64
import sys
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from antiphon.host.providers.embeddings import MAX_TEXTS, Embedded
from antiphon.model_api.dialects.members import EMBEDDINGS, items, noted_in, optional_text, text, unusable, whole

__all__ = ["Wanted", "read", "written"]

_PIECE = 64 * 1024
"""Bytes of a response that are written at once, which takes less than a millisecond."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    texts: list[str]
    model: str
    dimensions: int | None = None
    packs: bool = False
    """Whether a vector is written as base64 of its numbers, instead of as a list."""
    noted: tuple[str, ...] = ()
    """Members without effect."""


def read(body: Mapping[str, Any]) -> Wanted:
    """Read a request.

    Raises:
        Failure: it cannot be used.
    """
    noted = noted_in(body, EMBEDDINGS)
    wanted = body.get("dimensions")
    form = optional_text(body.get("encoding_format"), "encoding_format") or "float"
    if form not in ("float", "base64"):
        raise unusable("encoding_format", "must be float or base64")
    dimensions = None if wanted is None else whole(wanted, "dimensions")
    return Wanted(
        texts=_texts(body.get("input")),
        model=text(body.get("model"), "model"),
        dimensions=dimensions,
        packs=form == "base64",
        noted=noted,
    )


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    given = items(value, "input")
    if len(given) > MAX_TEXTS and not isinstance(given[0], int):
        raise unusable("input", f"at most {MAX_TEXTS} texts")
    if any(isinstance(each, int | list) for each in given[:1]):
        raise unusable("input", "must be text: token ids belong to one model, and the host chooses the model")
    return [text(each, f"input[{at}]") for at, each in enumerate(given)]


def written(made: Embedded, wanted: Wanted) -> Iterator[bytes]:
    """Write the response, piece by piece."""
    piece = bytearray(b'{"object":"list","data":[')
    for at, vector in enumerate(made.vectors):
        piece += b'%b{"object":"embedding","index":%d,"embedding":' % (b"," if at else b"", at)
        piece += b'"%b"' % base64.b64encode(vector) if wanted.packs else msgspec.json.encode(_numbers(vector))
        piece += b"}"
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    used = 0 if made.usage is None else made.usage.input_tokens
    usage = {"prompt_tokens": used, "total_tokens": used}
    yield bytes(piece + b'],"model":%b,"usage":%b}' % (msgspec.json.encode(made.model), msgspec.json.encode(usage)))


def _numbers(vector: bytes) -> list[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
