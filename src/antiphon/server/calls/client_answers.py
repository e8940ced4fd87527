"""Answers of a client: read once, to what was asked for, and refused where they are something else."""

from __future__ import annotations

from msgspec import DecodeError, Raw, Struct

from antiphon.errors import InvalidParams, RemoteProtocolError
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode
from antiphon.wire.methods import MethodSpec

__all__ = ["Answer", "read_answer", "read_given", "read_reply"]


class Answer(Struct, frozen=True, eq=False):
    """An answer that came with a request: as it came, and as it was read."""

    raw: Raw
    value: Wire


def read_answer(key: str, answer: Raw, spec: MethodSpec) -> Answer:
    """Read an answer in a retry; ``InvalidParams``, which names the key, if it is not of its ask's result type."""
    try:
        return Answer(answer, decode(answer, spec.result or Wire))
    except DecodeError as error:
        raise InvalidParams(f"Invalid params: inputResponses.{key}: {error}") from None


def read_given(answer: Raw, spec: MethodSpec) -> Answer | None:
    """Read an answer that came before its ask; ``None`` for one that cannot be used: it is asked for."""
    try:
        return Answer(answer, decode(answer, spec.result or Wire))
    except DecodeError:
        return None


def read_reply(answer: Raw, spec: MethodSpec) -> Wire:
    """Read an answer that nothing more can be said about; ``RemoteProtocolError`` if it is something else."""
    try:
        return decode(answer, spec.result or Wire)
    except DecodeError as error:
        raise RemoteProtocolError(f"The client's answer to {spec.name} cannot be read: {error}") from None
