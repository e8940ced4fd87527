"""Editing a call of a tool before it runs: its arguments as fields, and the check that its server would make.

Owns the rule for all surfaces. ``checks.forms`` has the fields of forms; what fits none of them is edited as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, cast

import msgspec

from antiphon.errors import ConfigError, InvalidParams, TooCostly
from antiphon.host.checks.forms import Field, check_value, fields_of
from antiphon.host.review.diff import edited_text
from antiphon.host.review.review import EditCall, ToolItem, digest
from antiphon.json_schema.validator import SchemaValidator
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.tools import CallToolRequestParams

__all__ = ["JSON", "argument_fields", "arguments_of", "check_arguments", "edit_call", "read_fields"]

JSON = "json"
"""Format of a field whose value is JSON."""
Arguments = dict[str, Any]


def arguments_of(params: CallToolRequestParams) -> Arguments:
    """Return the arguments of a call; empty if they are no object."""
    try:
        return msgspec.json.decode(bytes(params.arguments) or b"{}", type=Arguments)
    except msgspec.DecodeError:
        return {}


def argument_fields(item: ToolItem) -> list[tuple[Field, list[str]]]:
    """Return a field for each argument that the tool declares or the call has, with its value as a person types it."""
    arguments, schema = arguments_of(item.params), _schema(item)
    properties = cast("Mapping[str, object]", schema.get("properties") or {})
    required = cast("list[str]", schema.get("required") or [])
    fields: list[tuple[Field, list[str]]] = []
    for name in (*properties, *(name for name in arguments if name not in properties)):
        field = _simple(name, properties.get(name), required=name in required)
        if field is not None and name in arguments:
            field = field if _fits(field, arguments[name]) else None
        if field is None:
            spec = properties.get(name)
            said = cast("Arguments", spec).get("description", "") if isinstance(spec, dict) else ""
            about = said if isinstance(said, str) else ""
            field = Field(
                name=name, kind="string", title=name, description=about, required=name in required, format=JSON
            )
        fields.append((field, _typed(field, arguments[name]) if name in arguments else []))
    return fields


def read_fields(item: ToolItem, read: Callable[[Field, int], Any], typed: Callable[[int], list[str]]) -> Arguments:
    """Return the arguments from edited fields; a value that was not touched stays exactly as it was.

    Args:
        item: the call.
        read: returns the value of a field that is not JSON, by its number; ``None`` leaves it out.
        typed: returns what was typed into a field, by its number.

    Raises:
        ValueError: a value does not fit; the text names its field.
    """
    before = arguments_of(item.params)
    arguments: Arguments = {}
    for at, (field, shown) in enumerate(argument_fields(item)):
        said = [edited_text(text) for text in typed(at)]
        if said == [edited_text(text) for text in shown] and field.name in before:
            arguments[field.name] = before[field.name]
        elif field.format == JSON:
            if any(text.strip() for text in said):
                arguments[field.name] = _decoded(field, said[0])
        elif (value := read(field, at)) is not None:
            arguments[field.name] = value
    return arguments


async def edit_call(item: ToolItem, arguments: Mapping[str, Any]) -> EditCall:
    """Make the decision to call the tool with other arguments.

    Raises:
        ValueError: they do not fit the tool's schema; the text names the place.
    """
    params = CallToolRequestParams.of(item.params.name, arguments, meta=item.params.meta)
    await check_arguments(item, params)
    return EditCall(params=params, digest=digest(params))


async def check_arguments(item: ToolItem, params: CallToolRequestParams) -> None:
    """Check an edited call as its server would check it.

    Raises:
        ValueError: it is another tool, or its arguments do not fit the tool's schema; the text names the place.
    """
    if msgspec.structs.replace(params, arguments=item.params.arguments) != item.params:
        raise ValueError("only the arguments of a call can be edited")
    try:
        arguments = msgspec.json.decode(bytes(params.arguments), type=Arguments)
        await SchemaValidator(_schema(item), place="input schema", lazy=True).check(arguments)
    except (ConfigError, TooCostly, msgspec.DecodeError) as error:
        raise ValueError(f"the arguments cannot be checked: {error}") from None


def _schema(item: ToolItem) -> Mapping[str, Any]:
    schema = item.origin.tool.input_schema if item.origin.tool is not None else {}
    return {**schema, "type": "object"}


def _simple(name: str, spec: object, *, required: bool) -> Field | None:
    """Return the field of a form for one argument, if there is one."""
    schema = {"type": "object", "properties": {name: spec}, "required": [name] if required else []}
    try:
        return fields_of(ElicitRequestParams.form("", schema))[0]
    except InvalidParams:
        return None


def _fits(field: Field, value: object) -> bool:
    try:
        return check_value(field, value) == value
    except ValueError:
        return False


def _typed(field: Field, value: object) -> list[str]:
    if field.format == JSON:
        return [json.dumps(value, ensure_ascii=False)]
    if isinstance(value, bool):
        return ["true" if value else "false"]
    return [str(each) for each in cast("list[object]", value)] if isinstance(value, list) else [str(value)]


def _decoded(field: Field, text: str) -> object:
    try:
        return msgspec.json.decode(text.encode())
    except (msgspec.DecodeError, UnicodeEncodeError):
        raise ValueError(f"{field.title}: JSON is needed") from None
