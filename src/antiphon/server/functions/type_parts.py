"""The types that a type consists of: members of unions and containers, values of aliases, members of classes."""

from __future__ import annotations

import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast, get_args


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
    """Return the types of the members of a dataclass, TypedDict, NamedTuple or model; empty for other types."""
    if not isinstance(annotation, type):
        return {}
    kind = cast("type[Any]", annotation)
    marks = ("__dataclass_fields__", "__struct_fields__", "_fields", "__required_keys__", "__pydantic_fields__")
    try:
        return typing.get_type_hints(kind, include_extras=True) if any(hasattr(kind, mark) for mark in marks) else {}
    except (NameError, TypeError):
        return {}
