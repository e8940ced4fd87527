"""Reading the JSON of a request: each value checked for its type, each mistake named by its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from antiphon.model_api.dialects.failures import Failure

__all__ = [
    "arguments",
    "boolean",
    "items",
    "members",
    "number",
    "objects",
    "optional_text",
    "text",
    "unusable",
    "whole",
]


def unusable(place: str, problem: str) -> Failure:
    """Make the error for a member that cannot be used."""
    return Failure(400, "invalid_request", f"{place}: {problem}", place)


def text(value: object, place: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise unusable(place, "must be a string")
    return value


def optional_text(value: object, place: str) -> str | None:
    """Return a text, or ``None`` for an absent one."""
    return None if value is None else text(value, place)


def whole(value: object, place: str, *, least: int = 1) -> int:
    """Return a whole number."""
    if type(value) is not int or value < least:
        raise unusable(place, f"must be an integer of at least {least}")
    return value


def number(value: object, place: str) -> float:
    """Return a number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise unusable(place, "must be a number")
    return value


def boolean(value: object, place: str) -> bool:
    """Return a truth value."""
    if not isinstance(value, bool):
        raise unusable(place, "must be true or false")
    return value


def items(value: object, place: str) -> list[Any]:
    """Return an array."""
    if not isinstance(value, list):
        raise unusable(place, "must be an array")
    return cast("list[Any]", value)


def members(value: object, place: str) -> Mapping[str, Any]:
    """Return an object."""
    if not isinstance(value, dict):
        raise unusable(place, "must be an object")
    return cast("dict[str, Any]", value)


def objects(value: object, place: str) -> Iterator[tuple[Mapping[str, Any], str]]:
    """Yield the objects of an array, each with its place."""
    for at, each in enumerate(items(value, place)):
        yield members(each, f"{place}[{at}]"), f"{place}[{at}]"


def arguments(value: object, place: str) -> Mapping[str, Any]:
    """Return the arguments of a tool, which OpenAI writes as JSON in a string; none if the member is absent."""
    try:
        given: object = msgspec.json.decode(text(value or "{}", place))
    except (ValueError, RecursionError):
        raise unusable(place, "is not JSON") from None
    return members(given, place)
