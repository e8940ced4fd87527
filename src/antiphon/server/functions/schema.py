"""The JSON Schema of a function's arguments.

Owns ``inputSchema``: properties, which of them are required, defaults and descriptions. ``shape`` has the schema of a
single type.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from antiphon.server.functions.pydantic_types import Adapter
from antiphon.server.functions.shape import Schema, encode_value, schemas_of
from antiphon.server.functions.signature import Parameter

__all__ = ["choices", "described", "input_schema", "text_choices"]


def input_schema(parameters: Sequence[Parameter], place: str) -> Schema:
    """Return the schema of the object with these arguments (JSON Schema 2020-12, self-contained).

    It has ``additionalProperties: false``, because arguments that the function does not have are refused. Raises
    ``ConfigError``, which names the parameter, for a type without a JSON form.
    """
    typed = [(f'{place}: parameter "{p.name}"', p.annotation) for p in parameters]
    schemas, definitions = schemas_of(typed, mode="validation")
    properties = {p.name: _with_default(p, schema) for p, schema in zip(parameters, schemas, strict=True)}
    schema: Schema = {"type": "object", "properties": properties}
    required = [p.name for p in parameters if p.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    return schema


def described(schema: Schema, words: Mapping[str, str]) -> Schema:
    """Add descriptions from a docstring to properties that have none."""
    properties: Schema = schema["properties"]
    added = {
        name: {**prop, "description": words[name]}
        for name, prop in properties.items()
        if name in words and "description" not in prop
    }
    return {**schema, "properties": {**properties, **added}} if added else schema


def choices(schema: Schema, name: str) -> list[Any]:
    """Return the possible values of a property (an enum or ``Literal``); empty if it is not limited to some."""
    found: list[Any] = []
    pending: list[Schema] = [schema["properties"].get(name, {})]
    while pending:
        node = pending.pop()
        found += node.get("enum", []) if "const" not in node else [node["const"]]
        pending += node.get("anyOf", [])
        target: str = node.get("$ref", "")
        if target:
            definition = schema.get("$defs", {}).get(target.removeprefix("#/$defs/"), {})
            pending += [definition] if "enum" in definition or "const" in definition else []
    return found


def text_choices(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return, for every property with only some possible values, those that are text."""
    limited = {
        name: [value for value in choices(schema, name) if isinstance(value, str)] for name in schema["properties"]
    }
    return {name: tuple(values) for name, values in limited.items() if values}


def _with_default(parameter: Parameter, schema: Schema) -> Schema:
    """Add the default, if it has a JSON form that the argument takes; a sentinel and ``x: int = None`` have none.

    JSON Schema 2020-12, validation 9.2: a default is RECOMMENDED to be valid by its schema.
    """
    if parameter.required or parameter.factory is not None:
        return schema
    kind = parameter.annotation
    try:
        raw = encode_value(parameter.default)
        default = msgspec.json.decode(raw)
        if isinstance(kind, Adapter):
            kind.decode(raw)
        else:
            msgspec.convert(default, kind)
    except (TypeError, ValueError, RecursionError):
        return schema
    return {**schema, "default": default}
