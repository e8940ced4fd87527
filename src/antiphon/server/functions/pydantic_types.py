"""Types that pydantic handles: models, and any type with pydantic's metadata in it.

Owns all contact with pydantic, which is imported only if the author's annotations use it. A type that contains such a
type anywhere is passed to pydantic as a whole, so that its unions, aliases and validators behave as pydantic documents.
Validation is strict in JSON mode: a number is no string, but a string can be a date.
"""

from __future__ import annotations

import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec

from antiphon.json_schema.mismatch import MismatchError, describe

__all__ = ["Adapter", "field_default", "is_pydantic", "parts_of"]

_MARKS = ("__get_pydantic_core_schema__", "__pydantic_core_schema__", "__pydantic_validator__")
_PACKAGES = {"pydantic", "pydantic_core", "annotated_types"}


class Adapter:
    """A type in pydantic's view: JSON Schema, decoding and encoding."""

    __slots__ = ("_adapter",)

    def __init__(self, annotation: Any) -> None:
        from pydantic import TypeAdapter

        self._adapter: Any = TypeAdapter(_with_fields(annotation))

    def schema(self, mode: Literal["validation", "serialization"]) -> dict[str, Any]:
        """Return the JSON Schema, with its definitions under ``$defs``."""
        return self._adapter.json_schema(mode=mode, ref_template="#/$defs/{model}")

    def decode(self, raw: bytes | msgspec.Raw) -> Any:
        """Decode JSON. Raises ``MismatchError``."""
        try:
            return self._adapter.validate_json(bytes(raw), strict=True)
        except ValueError as error:
            raise MismatchError(describe(error)) from None

    def from_text(self, value: Any) -> Any:
        """Convert a value that can only be given as text (or a list of texts). Raises ``MismatchError``."""
        try:
            return self._adapter.validate_strings(value)
        except ValueError as error:
            if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
                return self.decode(value.encode())
            raise MismatchError(describe(error)) from None

    def encode(self, value: Any) -> bytes:
        """Encode as JSON, with the names of the schema."""
        return self._adapter.dump_json(value, by_alias=True)


def is_pydantic(annotation: Any) -> bool:
    """Tell whether pydantic must handle a type, because the type, a part of it or its metadata is pydantic's."""
    return "pydantic" in sys.modules and _mentions(annotation, set())


def field_default(annotation: Any, default: Any, required: Any) -> tuple[Any, Any, Callable[[], Any] | None]:
    """Resolve ``x: int = Field(3, ge=0)`` and ``Annotated[int, Field(default=3)]`` to a type and a plain default.

    ``required`` stands for no default, in the argument and in the result. The last value makes a default for each call
    (``Field(default_factory=...)``), if there is one.
    """
    if "pydantic" not in sys.modules:
        return annotation, default, None
    from pydantic.fields import FieldInfo
    from pydantic_core import PydanticUndefined

    if isinstance(default, FieldInfo):
        annotation, info = Annotated[annotation, default], default
    else:
        metadata = get_args(annotation)[1:] if get_origin(annotation) is Annotated else ()
        info = next((item for item in metadata if isinstance(item, FieldInfo)), None)
        if info is None or default is not required:
            return annotation, default, None
    if info.default_factory is not None:
        return annotation, required, lambda: info.get_default(call_default_factory=True, validated_data={})
    return annotation, required if info.default is PydanticUndefined else info.default, None


_BOUNDS = (
    *("gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length"),
    *("title", "description", "examples"),
)
"""The members of ``msgspec.Meta`` that pydantic's ``Field`` has under the same name."""


def _with_fields(annotation: Any) -> Any:
    """Write bounds and texts by ``msgspec.Meta`` as pydantic's ``Field``, since pydantic does not read ``Meta``.

    Raises:
        TypeError: a class has members with such bounds; pydantic reads the class itself.
    """
    arguments = get_args(annotation)
    if get_origin(annotation) is Annotated:
        from pydantic import Field

        inner, *metadata = arguments
        fields = [
            Field(**{name: value for name in _BOUNDS if (value := getattr(item, name)) is not None})
            if isinstance(item, msgspec.Meta)
            else item
            for item in metadata
        ]
        return Annotated[_with_fields(inner), *fields]
    if get_origin(annotation) in (None, Literal):
        bounded = [name for name, kind in _field_types(annotation).items() if _is_bounded(kind)]
        if bounded and _has_fields(annotation):
            raise TypeError(f"{annotation.__name__}.{bounded[0]} has bounds by msgspec.Meta: write them by Field")
        return annotation
    if isinstance(annotation, types.UnionType) or get_origin(annotation) is typing.Union:
        first, *others = map(_with_fields, arguments)
        for each in others:
            first = first | each
        return first
    inner = tuple(each if each is Ellipsis else _with_fields(each) for each in arguments)
    return annotation if inner == arguments else get_origin(annotation)[inner]


def _is_bounded(annotation: Any) -> bool:
    arguments = get_args(annotation)
    return any(isinstance(each, msgspec.Meta) for each in arguments) or any(map(_is_bounded, arguments))


def _mentions(annotation: Any, seen: set[int]) -> bool:
    if id(annotation) in seen or get_origin(annotation) is Literal:
        return False
    seen.add(id(annotation))
    if any(hasattr(annotation, mark) for mark in _MARKS):
        return True
    if get_origin(annotation) is Annotated:
        metadata = get_args(annotation)[1:]
        if any(type(item).__module__.partition(".")[0] in _PACKAGES for item in metadata):
            return True
        return _mentions(get_args(annotation)[0], seen)
    return any(_mentions(part, seen) for part in parts_of(annotation))


def parts_of(annotation: Any) -> tuple[Any, ...]:
    """Return the types that a type consists of."""
    for alias in ("__value__", "__supertype__"):
        if hasattr(annotation, alias) and not isinstance(annotation, types.GenericAlias):
            return (getattr(annotation, alias),)
    arguments = get_args(annotation)
    return arguments or (tuple(_field_types(annotation).values()) if _has_fields(annotation) else ())


def _has_fields(annotation: Any) -> bool:
    """Tell whether a type is a dataclass, Struct, TypedDict or NamedTuple."""
    if not isinstance(annotation, type):
        return False
    kind = cast("type[Any]", annotation)
    marks = ("__dataclass_fields__", "__struct_fields__", "_fields")
    return typing.is_typeddict(kind) or any(hasattr(kind, mark) for mark in marks)


def _field_types(annotation: Any) -> Mapping[str, Any]:
    try:
        return typing.get_type_hints(annotation, include_extras=True)
    except (NameError, TypeError):
        return {}
