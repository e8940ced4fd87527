"""Annotations of tools and resources that an author gives as a mapping, whose unknown names are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

import msgspec
from msgspec import structs

from antiphon.errors import ConfigError
from antiphon.json_schema.mismatch import suggest
from antiphon.wire.common import Annotations
from antiphon.wire.tools import ToolAnnotations

__all__ = ["read_annotations"]

A = TypeVar("A", Annotations, ToolAnnotations)


def read_annotations(given: Any, kind: type[A], place: str) -> A:
    """Return annotations as a value of their class; a mapping has the names of its members, or those on the wire.

    Raises ``ConfigError``, which begins with ``place``, for an unknown name or a wrong type.
    """
    if isinstance(given, kind):
        return given
    if not isinstance(given, Mapping):
        raise ConfigError(f"{place}: annotations= takes {kind.__name__}(...), not {given!r}")
    names = {name: field.encode_name for field in structs.fields(kind) for name in (field.name, field.encode_name)}
    members = cast("Mapping[str, Any]", given)
    for name in members:
        if name not in names:
            raise ConfigError(f'{place}: annotations= has no "{name}"{suggest(name, names)}')
    try:
        return msgspec.convert({names[name]: value for name, value in members.items()}, kind)
    except msgspec.ValidationError as error:
        raise ConfigError(f"{place}: annotations= has a wrong value: {error}") from None
