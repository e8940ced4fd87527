"""The types that a type consists of: members of unions and containers, values of aliases, members of classes."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args

__all__ = ["members_of_class", "parts_of", "walk_types"]


def walk_types(annotations: Iterable[Any]) -> Iterator[Any]:
    """Yield all types that these types consist of, and the metadata beside them, each once."""
    # The list keeps each of them, since the identity of a removed object may be given to another.
    found, seen = list(annotations), set[int]()
    for annotation in found:
        if id(annotation) not in seen:
            seen.add(id(annotation))
            yield annotation
            found += parts_of(annotation)


def parts_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a type consists of."""
    for alias in ("__value__", "__supertype__"):
        if hasattr(annotation, alias) and not isinstance(annotation, types.GenericAlias):
            return (getattr(annotation, alias),)
    arguments = get_args(annotation)
    return arguments or tuple(members_of_class(annotation).values())


def members_of_class(annotation: Any) -> Mapping[str, Any]:
    """Return the types of the members of a dataclass, TypedDict, NamedTuple or pydantic model; empty for others."""
    is_model = hasattr(annotation, "__pydantic_fields__") and isinstance(annotation, type)
    return _field_types(annotation) if is_model or _has_fields(annotation) else {}


def _has_fields(annotation: Any) -> bool:
    """Tell whether a type is a dataclass, Struct, TypedDict or NamedTuple."""
    if not isinstance(annotation, type):
        return False
    kind = cast("type[Any]", annotation)
    marks = ("__dataclass_fields__", "__struct_fields__", "_fields", "__required_keys__")
    return any(hasattr(kind, mark) for mark in marks)


def _field_types(annotation: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError):
        return {}
