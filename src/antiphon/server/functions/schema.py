"""The JSON Schema of a function's arguments.

Owns ``inputSchema``: properties, which of them are required, defaults and descriptions. ``shape`` has the schema of a
single type.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from antiphon.server.functions.schema_gaps import remove_unfit_defaults
from antiphon.server.functions.shape import Schema, encode_value, schemas_of
from antiphon.server.functions.signature import REQUIRED, Parameter

__all__ = ["choices", "input_schema", "takes_list", "text_choices"]


def input_schema(parameters: Sequence[Parameter], place: str) -> Schema:
    """Return the schema of the object with these arguments (JSON Schema 2020-12, self-contained).

    It has ``additionalProperties: false``, because arguments that the function does not have are refused. Raises
    ``ConfigError``, which names the parameter, for a type without a JSON form.
    """
    typed = [(f'{place}: parameter "{p.name}"', p.annotation) for p in parameters]
    schemas, definitions = schemas_of(typed, mode="validation")
    properties = {p.wire_name: _with_default(p, schema) for p, schema in zip(parameters, schemas, strict=True)}
    schema: Schema = {"type": "object", "properties": properties}
    required = [p.wire_name for p in parameters if p.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    remove_unfit_defaults(schema)
    return schema


def choices(schema: Schema, name: str) -> list[Any]:
    """Return the possible values of a property (an enum or ``Literal``); empty if it is not limited to some."""
    nodes = _alternatives(schema, name)
    return [value for node in nodes for value in ([node["const"]] if "const" in node else node.get("enum", []))]


def text_choices(schema: Schema) -> dict[str, tuple[str, ...]]:
    """Return, for every property with only some possible values, those that are text."""
    limited = {
        name: [value for value in choices(schema, name) if isinstance(value, str)] for name in schema["properties"]
    }
    return {name: tuple(values) for name, values in limited.items() if values}


def takes_list(schema: Schema, name: str) -> bool:
    """Return whether a list can be a value of a property."""
    limits = {"type", "anyOf", "$ref", "enum", "const"}
    nodes = _alternatives(schema, name)
    return any("array" in node.get("type", ()) or limits.isdisjoint(node) for node in nodes)


def _alternatives(schema: Schema, name: str) -> list[Schema]:
    """Return the schemas that a value of a property may fit: its own, those of a union, and what they refer to."""
    nodes: list[Schema] = [schema["properties"].get(name, {})]
    for node in nodes:
        target: str = node.get("$ref", "").removeprefix("#/$defs/")
        inner = [*node.get("anyOf", ()), *([schema["$defs"][target]] if target else ())]
        nodes += [one for one in inner if one not in nodes]
    return nodes


def _with_default(parameter: Parameter, schema: Schema) -> Schema:
    """Add the default, if it has a JSON form; a sentinel of the author has none."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if parameter.default is REQUIRED:
        return schema
    try:
        return {**schema, "default": msgspec.json.decode(encode_value(parameter.default))}
    except (TypeError, ValueError, RecursionError):
        return schema
