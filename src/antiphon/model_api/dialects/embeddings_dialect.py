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

from antiphon.host.providers.vectors import MAX_TEXTS, Embedded
from antiphon.model_api.dialects import members

_PIECE = 64 * 1024
"""Bytes of a response that are written at once, which takes less than a millisecond."""


class EmbeddingsRequest(msgspec.Struct, frozen=True, kw_only=True):
    """A request."""

    texts: list[str]
    model: str
    dimensions: int | None = None
    packs: bool = False
    """Whether a vector is written as base64 of its numbers, instead of as a list."""
    noted: tuple[str, ...] = ()
    """Members without effect."""


def read_request(body: Mapping[str, Any]) -> EmbeddingsRequest:
    """Read a request, or raise ``Failure``."""
    noted = members.collect_unused_members(body, members.EMBEDDINGS)
    wanted = body.get("dimensions")
    form = members.optional_text(body.get("encoding_format"), "encoding_format") or "float"
    if form not in ("float", "base64"):
        raise members.make_unusable_failure("encoding_format", "must be float or base64")
    dimensions = None if wanted is None else members.read_whole_number(wanted, "dimensions")
    return EmbeddingsRequest(
        texts=_read_texts(body.get("input")),
        model=members.read_text(body.get("model"), "model"),
        dimensions=dimensions,
        packs=form == "base64",
        noted=noted,
    )


def _read_texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    given = members.read_items(value, "input")
    if len(given) > MAX_TEXTS and not isinstance(given[0], int):
        raise members.make_unusable_failure("input", f"at most {MAX_TEXTS} texts")
    if any(isinstance(each, int | list) for each in given[:1]):
        raise members.make_unusable_failure(
            "input", "must be text: token ids belong to one model, and the host chooses the model"
        )
    return [members.read_text(each, f"input[{at}]") for at, each in enumerate(given)]


def write_response(made: Embedded, wanted: EmbeddingsRequest) -> Iterator[bytes]:
    """Write the response, piece by piece."""
    piece = bytearray(b'{"object":"list","data":[')
    for at, vector in enumerate(made.vectors):
        piece += b'%b{"object":"embedding","index":%d,"embedding":' % (b"," if at else b"", at)
        piece += b'"%b"' % base64.b64encode(vector) if wanted.packs else msgspec.json.encode(_unpack_numbers(vector))
        piece += b"}"
        if len(piece) >= _PIECE:
            yield bytes(piece)
            piece.clear()
    used = 0 if made.usage is None else made.usage.input_tokens
    usage = {"prompt_tokens": used, "total_tokens": used}
    yield bytes(piece + b'],"model":%b,"usage":%b}' % (msgspec.json.encode(made.model), msgspec.json.encode(usage)))


def _unpack_numbers(vector: bytes) -> list[float]:
    numbers = array("f", vector)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers.tolist()
