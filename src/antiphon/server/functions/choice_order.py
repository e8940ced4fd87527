"""The order of choices: as their author wrote them, because people and models read them as a scale.

Owns nothing else: msgspec, which writes the schemas, sorts the values of an enum or ``Literal``.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any, Literal, cast, get_args, get_origin

from antiphon.json_schema.effort import walk_objects
from antiphon.server.functions.type_parts import walk_types

__all__ = ["restore_order"]


def restore_order(schemas: Iterable[dict[str, Any]], annotations: Iterable[Any]) -> None:
    """Restore the order of every ``enum`` in these schemas, from the types that the schemas were made from."""
    limited = [node for schema in schemas for node in walk_objects(schema) if isinstance(node.get("enum"), list)]
    if not limited:
        return
    orders = {frozenset(map(repr, values)): values for values in _declared(annotations)}
    for node in limited:
        # Null, which a union may have added, stays last.
        values = [value for value in node["enum"] if value is not None]
        nulls = [None] * (len(node["enum"]) - len(values))
        node["enum"] = [*orders.get(frozenset(map(repr, values)), values), *nulls]


def _declared(annotations: Iterable[Any]) -> Iterator[list[Any]]:
    """List the values of every enum and ``Literal`` that a type is made of, in their order."""
    for annotation in walk_types(annotations):
        if get_origin(annotation) is Literal:
            yield [value for value in get_args(annotation) if value is not None]
        elif isinstance(annotation, enum.EnumType):
            yield [member.value for member in cast("Iterable[enum.Enum]", annotation)]
