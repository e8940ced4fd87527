"""Answers that come with a request: whether they are what was asked for. ``round_call`` delivers them."""

from __future__ import annotations

from msgspec import DecodeError, Raw

from antiphon.errors import InvalidParams
from antiphon.wire.common import Wire
from antiphon.wire.methods import MethodSpec
from antiphon.wire.unknown import decode

__all__ = ["check_readable", "is_readable"]


def check_readable(key: str, answer: Raw, spec: MethodSpec) -> None:
    """Raise ``InvalidParams``, which names the key, if an answer is not of its ask's result type."""
    try:
        decode(answer, spec.result or Wire)
    except DecodeError as error:
        raise InvalidParams(f"Invalid params: inputResponses.{key}: {error}") from None


def is_readable(answer: Raw, spec: MethodSpec) -> bool:
    """Tell whether an answer that came unasked can be used; one that cannot is asked for."""
    try:
        decode(answer, spec.result or Wire)
    except DecodeError:
        return False
    return True
