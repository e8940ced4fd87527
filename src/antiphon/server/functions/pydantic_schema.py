"""Types as pydantic is given them: with the bounds of ``msgspec.Meta``, and with bytes as base64.

Owns the changes to pydantic's schemas, those for validation ("core") and JSON Schema. Imported only where pydantic is
used. A model keeps its own validators; only the copy of its schema that this library validates with is changed.
"""

from __future__ import annotations

import types
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from enum import Enum
from functools import partial
from operator import is_
from types import SimpleNamespace
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import msgspec
from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, TypeAdapter, WithJsonSchema
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import SchemaSerializer, SchemaValidator

from antiphon.server.functions import schema_gaps

_BOUNDS = (
    "gt", "ge", "lt", "le", "multiple_of", "pattern", "min_length", "max_length", "title", "description", "examples",
)  # fmt: skip
_FIELDED = ("dataclass-args", "named-tuple", "typed-dict", "arguments")
"""Core schemas with fields; "arguments" are those of a named tuple before pydantic 2.13."""
_BYTES_OPTIONS = frozenset({"ser_json_bytes", "val_json_bytes"})
_LIMITS = {"gt": "exclusiveMinimum", "ge": "minimum", "lt": "exclusiveMaximum", "le": "maximum"}
_OPAQUE = frozenset({"cls", "config", "default", "expected", "members", "metadata"})
"""Keys of a core schema that hold values of the author's."""


def with_bounds(annotation: Any, within: tuple[Any, ...] = ()) -> Any:
    """Return the type with ``msgspec.Meta`` as ``Field``; ``TypeError`` for a model whose own members have it."""
    if get_origin(annotation) is Literal or any(annotation is outer for outer in within):
        return annotation
    inner = (*within, annotation)
    if get_origin(annotation) is Annotated:
        kind, *metadata = get_args(annotation)
        fields = [one for item in metadata for one in (_as_fields(item) if isinstance(item, msgspec.Meta) else [item])]
        changed = with_bounds(kind, inner)
        return annotation if changed is kind and fields == metadata else Annotated[changed, *fields]
    members = schema_gaps.members_of_class(annotation)
    parts = tuple(members.values()) or schema_gaps.parts_of(annotation)
    changed = [with_bounds(part, inner) for part in parts]
    if all(map(is_, changed, parts)):
        return annotation
    if members and hasattr(annotation, "__pydantic_fields__"):
        raise TypeError(f"{annotation.__name__} has bounds by msgspec.Meta, which pydantic ignores; use pydantic.Field")
    if members:
        kinds = zip(members, changed, parts, strict=True)
        return Annotated[annotation, _PydanticMembers({name: new for name, new, old in kinds if new is not old})]
    origin: Any = typing.Union if isinstance(annotation, types.UnionType) else get_origin(annotation)
    return changed[0] if origin in (None, typing.Required, typing.NotRequired) else origin[*changed]


def _as_fields(meta: msgspec.Meta) -> list[Any]:
    """Convert the bounds and words of a ``Meta`` to pydantic's metadata."""
    given = {name: value for name in _BOUNDS if (value := getattr(meta, name)) is not None}
    if meta.extra_json_schema:
        given["json_schema_extra"] = meta.extra_json_schema
    fields: list[Any] = [Field(**given)] if given else []
    return fields if meta.tz is None else [*fields, AfterValidator(partial(_check_zone, aware=meta.tz))]


def _check_zone(value: Any, *, aware: bool) -> Any:
    if (value.tzinfo is not None) is not aware:
        raise ValueError(f"a time {'with' if aware else 'without'} a time zone is expected")
    return value


class _PydanticMembers:
    """Metadata of a class that is no model: the types of those members that pydantic must read as another type."""

    def __init__(self, kinds: Mapping[str, Any]) -> None:
        self._kinds = kinds

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        schema = handler(source)
        found = handler.resolve_ref_schema(schema)
        while found["type"] not in _FIELDED:
            found = found.get("schema") or found["arguments_schema"]
        # Dataclasses and tuples have a list of fields, TypedDicts have them by name.
        listed: Any = found.get("fields") or found["arguments_schema"]
        fields: dict[str, Any] = listed if hasattr(listed, "items") else {field["name"]: field for field in listed}
        for name in self._kinds.keys() & fields.keys():
            outer = fields[name]
            while outer["schema"]["type"] == "default":
                outer = outer["schema"]
            outer["schema"] = handler.generate_schema(self._kinds[name])
        return schema


def with_base64(schema: Any) -> Any:
    """Return a core schema in which bytes are base64, as in MCP and msgspec; the same schema if it has no bytes.

    A model whose configuration says how JSON carries bytes is left as it is; so is one with its own ``__init__``, and a
    type with its own serializer.
    """

    def change(node: dict[str, Any]) -> Any:
        kind = str(node.get("type"))
        is_own = "serialization" in node and (kind == "bytes" or kind.startswith("function"))
        if is_own or node.get("custom_init") or not _BYTES_OPTIONS.isdisjoint(node.get("config") or ()):
            return node
        return _mark_base64(node) if kind == "bytes" else _change_parts(node, change)

    return _change_nodes(schema, change)


def _change_nodes(schema: Any, change: Callable[[dict[str, Any]], Any]) -> Any:
    if isinstance(schema, list | tuple):
        old = cast("list[Any]", schema)
        new = [_change_nodes(item, change) for item in old]
        return old if all(map(is_, new, old)) else old.__class__(new)
    return change(cast("dict[str, Any]", schema)) if isinstance(schema, dict) else schema


def _change_parts(node: dict[str, Any], change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    changed = {key: _change_nodes(value, change) for key, value in node.items() if key not in _OPAQUE}
    return {**node, **changed} if any(changed[key] is not node[key] for key in changed) else node


def _mark_base64(node: dict[str, Any]) -> Any:
    bounds = (("minLength", node.get("min_length")), ("maxLength", node.get("max_length")))
    lengths = {name: (bound + 2) // 3 * 4 for name, bound in bounds if bound is not None}
    published = WithJsonSchema({"type": "string", "contentEncoding": "base64", **lengths})
    reader = BeforeValidator(lambda value: b64decode(value, validate=True) if isinstance(value, str) else value)
    writer = PlainSerializer(_write_base64, return_type=str, when_used="json")
    adapter: TypeAdapter[Any] = TypeAdapter(Annotated[bytes, reader, writer, published])
    return {**cast("dict[str, Any]", adapter.core_schema), "schema": node}


def _write_base64(value: Any) -> Any:
    # A value of another type is refused by its place when the result is checked.
    return b64encode(value).decode() if isinstance(value, bytes | bytearray) else value


def compile_schema(schema: Any) -> tuple[SchemaValidator, SchemaSerializer]:
    """Compile a core schema as it stands.

    For a class with a validator of its own pydantic uses that one and ignores the schema. So another class stands in
    its place, which has none and makes the same objects.
    """
    models = set[type]()

    def change(node: dict[str, Any]) -> dict[str, Any]:
        inner = _change_parts(node, change)
        is_model = node.get("type") in ("model", "dataclass") and not node.get("custom_init")
        if not is_model:
            return inner
        model: Any = node["cls"]
        models.add(model)

        def make(_: type) -> Any:
            return model.__new__(model)

        return {**inner, "cls": _StandIn(model.__name__, (), {"__new__": make, "model": model, "models": models})}

    own = _change_nodes(schema, change)
    return SchemaValidator(own), SchemaSerializer(own)


class _StandIn(type):
    """A class in the place of a model: the model makes its objects, and objects of the model are its own."""

    model: type
    models: set[type]

    def __instancecheck__(cls, instance: Any) -> bool:
        # Of several models in a union that an object belongs to, its own class is nearest.
        return next((kind for kind in type(instance).__mro__ if kind in cls.models), None) is cls.model


class JsonSchemas(GenerateJsonSchema):
    """JSON Schemas in which keys of objects have their form, and bytes in defaults are base64."""

    def generate_inner(self, schema: Any) -> dict[str, Any]:
        """Generate the schema of a value; one that is written as a time has no format that its text may break."""
        written = super().generate_inner(schema)
        is_loose = schema["type"] in ("datetime", "time", "timedelta") and schema.get("tz_constraint") != "aware"
        if is_loose and self.mode == "serialization" and written.get("format") in schema_gaps.LOOSE_FORMATS:
            return {key: value for key, value in written.items() if key != "format"}
        return written

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        """Generate the schema of an enum, in which no alias of a member repeats its value."""
        return super().enum_schema(cast("Any", {**schema, "members": list(dict.fromkeys(schema["members"]))}))

    def literal_schema(self, schema: Any) -> dict[str, Any]:
        """Generate the schema of a ``Literal``. Raises ``TypeError`` for members that are not read from JSON."""
        if self.mode == "validation" and any(isinstance(one, Enum) and one != one.value for one in schema["expected"]):
            raise TypeError("a Literal of an enum's members is not read; derive the enum from StrEnum or IntEnum")
        return super().literal_schema(schema)

    def default_schema(self, schema: Any) -> dict[str, Any]:
        """Generate the schema of a value with a default."""
        if "default" not in schema or "base64" not in repr(schema["schema"]):
            return super().default_schema(schema)
        written = super().default_schema(cast("Any", {key: schema[key] for key in schema if key != "default"}))
        try:
            return {**written, "default": msgspec.json.decode(msgspec.json.encode(schema["default"]))}
        except TypeError:
            return written

    def dict_schema(self, schema: Any) -> dict[str, Any]:
        """Generate the schema of a dictionary. Raises ``TypeError`` if its keys cannot be text."""
        written = super().dict_schema(schema)
        names = self._write_keys(self.generate_inner(schema.get("keys_schema", {"type": "any"})))
        if names is None and self.mode == "validation":
            raise TypeError(schema_gaps.NO_KEY)
        # Pydantic gives the values of other keys no schema where keys have a pattern, which allows any value there.
        for values in written.pop("patternProperties", {}).values():
            written["additionalProperties"] = values
        written.pop("propertyNames", None)
        return {**written, "propertyNames": names} if names else written

    def _write_keys(self, node: dict[str, Any]) -> dict[str, Any] | None:
        """Return the schema of a value as a key: empty for any text, ``None`` if no text is such a value."""
        node = self.resolve_ref_schema(node)
        kind, values = node.get("type"), node.get("enum", [node["const"]] if "const" in node else None)
        if "anyOf" in node:
            return schema_gaps.join_keys(map(self._write_keys, node["anyOf"]))
        if values is not None:
            # A key is read as the member of an enum, which has a title here, but not as a number of a ``Literal``.
            texts = [str(value) for value in values if isinstance(value, str) or "title" in node]
            return {"enum": texts} if texts else None
        if kind in ("array", "object", "boolean", "null"):
            return None
        if kind == "number":
            return schema_gaps.NUMBER_KEY
        if kind == "integer":
            return schema_gaps.write_whole_keys(
                SimpleNamespace(**{name: node.get(key) for name, key in _LIMITS.items()})
            )
        return {key: value for key, value in node.items() if key not in ("type", "title")}
