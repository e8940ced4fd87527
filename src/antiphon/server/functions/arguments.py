"""From the JSON of a call to the keyword arguments of a function, and the JSON Schema of these arguments.

Owns decoding and its errors. One decode by msgspec converts the JSON object to typed values; it leaves arguments of
pydantic types as bytes, and pydantic decodes these.

A server may have 100,000 tools. So each type is examined once, even if many functions use it; schema and decoder are
made on first use, if the types alone show that this will succeed; and functions with the same parameters share them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from weakref import WeakValueDictionary

import msgspec
from msgspec import Raw, structs

from antiphon.errors import ConfigError, InvalidParams
from antiphon.json_schema.validator import MismatchError, SchemaMismatch, describe_mismatch, prefix_place, suggest_name
from antiphon.server.functions import shape
from antiphon.server.functions.schema_gaps import remove_unfit_defaults
from antiphon.server.functions.shape import Adapter, is_pydantic, read_field
from antiphon.server.functions.signature import REQUIRED, Parameter

_as_dict = structs.asdict

_PLAIN = (type(None), bool, int, float, str)
"""Types of defaults that any struct accepts, and whose text identifies them."""

_MAX_TYPES = 1_000
"""Most types whose examination is remembered; a server uses some dozens."""


class ArgumentError(InvalidParams):
    """The arguments of a call do not fit; the message names the argument.

    ``argument`` is the place: ``count``, ``items[2].price``, or empty for the arguments as a whole.
    """

    def __init__(self, message: str, *, argument: str = "") -> None:
        super().__init__(message)
        self.argument = argument


class Arguments:
    """The arguments of one function: their ``schema``, and how to decode them.

    Raises ``ConfigError``, which begins with ``place`` and names the parameter, for types without a JSON form.
    """

    __slots__ = ("_foreign", "_form", "_place", "names", "parameters")

    def __init__(self, parameters: Sequence[Parameter], place: str) -> None:
        self._place = place
        known = [_native_parameter(parameter) for parameter in parameters]
        self.parameters = tuple(
            found or _normalize_parameter(parameter, place) for found, parameter in zip(known, parameters, strict=True)
        )
        self.names = tuple(parameter.alias or parameter.name for parameter in self.parameters)
        self._foreign = {p.name: p.annotation for p in self.parameters if isinstance(p.annotation, Adapter)}
        self._form: _Form | None = None
        if None in known:
            if len(set(self.names)) < len(self.names):
                raise ConfigError(f"{place}: two arguments have one name, by an alias: {', '.join(self.names)}")
            # Made now, so that a type without a JSON form fails at registration.
            self._form = _Form()
            self._form.schema = input_schema(self.parameters, place)
            self._form.decoder = self._make_decoder()

    @property
    def schema(self) -> shape.Schema:
        """The JSON Schema of the object with these arguments."""
        form = self._form or self._find_known_form()
        if form.schema is None:
            form.schema = input_schema(self.parameters, self._place)
        return form.schema

    def describe(self, words: Mapping[str, str]) -> shape.Schema:
        """Return the schema with descriptions from a docstring, which names parameters as the function does."""
        properties: shape.Schema = dict(self.schema["properties"])
        for parameter in self.parameters:
            if parameter.name in words:
                written = properties[parameter.wire_name]
                properties[parameter.wire_name] = {
                    **written,
                    "description": written.get("description", words[parameter.name]),
                }
        return {**self.schema, "properties": properties}

    def decode(self, raw: bytes | Raw) -> dict[str, Any]:
        """Convert the JSON object of a call to keyword arguments, with defaults; a number is never a string."""
        raw = raw or b"{}"
        form = self._form or self._find_known_form()
        decoder = form.decoder
        if decoder is None:
            decoder = form.decoder = self._make_decoder()
        try:
            values = _as_dict(decoder.decode(raw))
        except msgspec.DecodeError:
            # The arguments may hold a whole number written as ``1.0``, be ``null``, or an empty list of PHP.
            try:
                values = _as_dict(
                    shape.decode_with(decoder.decode, b"{}" if bytes(raw).strip() in (b"null", b"[]") else raw)
                )
            except MismatchError as error:
                raise self._error(error.mismatch) from None
        if self._foreign:
            self._read_foreign(values)
        return values

    def from_text(self, texts: Mapping[str, str | list[str]]) -> dict[str, Any]:
        """Convert texts (prompts, URIs) to keyword arguments: ``"3"`` is an ``int`` where one is expected."""
        for name in texts:
            if name not in self.names:
                raise self._error(SchemaMismatch(name, "", "unknown"))
        values: dict[str, Any] = {}
        for parameter in self.parameters:
            if parameter.wire_name in texts:
                text, adapter = texts[parameter.wire_name], self._foreign.get(parameter.name)
                try:
                    read = adapter.from_text(text) if adapter else _convert_leniently(text, parameter.annotation)
                    values[parameter.name] = read
                    continue
                except (MismatchError, msgspec.ValidationError) as error:
                    # Hosts send "" for an optional argument that a person has left empty in a form.
                    if text or parameter.required:
                        raise self._error(prefix_place(parameter.wire_name, describe_mismatch(error))) from None
            elif parameter.required:
                raise self._error(SchemaMismatch(parameter.wire_name, "", "missing"))
            if parameter.factory is not None:
                values[parameter.name] = parameter.factory()
        return values

    def _find_known_form(self) -> _Form:
        """Return the form of these parameters if another function with the same ones is in use."""
        # The text distinguishes what Python considers equal: 1 and True, int | str and str | int.
        key = tuple(
            (each.name, each.annotation, repr(each.annotation), each.default is REQUIRED, repr(each.default))
            for each in self.parameters
        )
        self._form = _forms.setdefault(key, _Form())
        return self._form

    def _make_decoder(self) -> msgspec.json.Decoder[Any]:
        fields = [(p.name, Raw if p.name in self._foreign else p.annotation, _make_field(p)) for p in self.parameters]
        # Python mangles no names in a class called "_", so a parameter may begin with two underscores.
        rename = {p.name: p.alias for p in self.parameters if p.alias} or None
        struct = msgspec.defstruct("_", fields, kw_only=True, forbid_unknown_fields=True, gc=False, rename=rename)
        return msgspec.json.Decoder(struct)

    def _read_foreign(self, values: dict[str, Any]) -> None:
        for parameter, wire_name in zip(self.parameters, self.names, strict=True):
            name = parameter.name
            if isinstance(values[name], Raw) and name in self._foreign:
                try:
                    values[name] = self._foreign[name].decode(values[name])
                except MismatchError as error:
                    raise self._error(prefix_place(wire_name, error.mismatch)) from None

    def _error(self, mismatch: SchemaMismatch) -> ArgumentError:
        place, problem, kind = mismatch.place, mismatch.problem, mismatch.kind
        if kind == "unknown":
            problem = suggest_name(place, self.names)
        elif kind == "invalid" and place in self.names:
            allowed = list_choices(self.schema, place)
            if allowed and "nvalid" in problem:
                problem += ", expected one of " + ", ".join(msgspec.json.encode(one).decode() for one in allowed[:20])
        elif kind == "invalid" and not place:
            return ArgumentError(f"arguments: {problem}")
        return ArgumentError(SchemaMismatch(place, problem, kind).sentence("argument"), argument=place)


class _Form:
    """The schema and the decoder of some parameters, each made on first use."""

    __slots__ = ("__weakref__", "decoder", "schema")

    def __init__(self) -> None:
        self.schema: shape.Schema | None = None
        self.decoder: msgspec.json.Decoder[Any] | None = None


_forms: WeakValueDictionary[tuple[object, ...], _Form] = WeakValueDictionary()
"""The forms in use, by the identity of their parameters."""


def _native_parameter(parameter: Parameter) -> Parameter | None:
    """Return the parameter if schemas and decoders can contain it, converted for both; else ``None``."""
    is_plain = parameter.default is REQUIRED or parameter.default.__class__ in _PLAIN
    if not is_plain or parameter.name.startswith("__"):
        return None
    try:
        kind = _resolve_native(parameter.annotation, repr(parameter.annotation))
    except TypeError:
        return None
    if kind is None or kind[0] is parameter.annotation:
        return parameter if kind else None
    return Parameter(name=parameter.name, annotation=kind[0], default=parameter.default)


@lru_cache(maxsize=_MAX_TYPES)
def _resolve_native(annotation: Any, _text: str) -> tuple[Any] | None:
    """Return a msgspec type with its text metadata resolved, if its schema and its decoder can be made."""
    if is_pydantic(annotation):
        return None
    kind = shape.with_text_metadata(annotation)
    return None if shape.find_obstacle(kind) else (kind,)


def _normalize_parameter(parameter: Parameter, place: str) -> Parameter:
    """Resolve text metadata, pydantic's defaults and aliases; a pydantic type becomes an ``Adapter``."""
    place = f'{place}: parameter "{parameter.name}"'
    try:
        read = read_field(parameter)
    except TypeError as error:
        raise ConfigError(f"{place}: {error}") from None
    return structs.replace(read, annotation=shape.adapt_type(shape.with_text_metadata(read.annotation), place))


def _make_field(parameter: Parameter) -> Any:
    if parameter.required:
        return msgspec.field()
    if parameter.factory is None and parameter.default.__class__ in _PLAIN:
        return msgspec.field(default=parameter.default)
    # As in a direct call of the function, every call without the argument gets the same default.
    return msgspec.field(default_factory=parameter.factory or (lambda: parameter.default))


def _convert_leniently(text: str | list[str], annotation: Any) -> Any:
    try:
        return msgspec.convert(text, annotation, strict=False)
    except msgspec.ValidationError:
        if not isinstance(text, str):
            raise
        try:
            document = msgspec.json.decode(text)
        except msgspec.DecodeError:
            document = text
        if isinstance(document, list | dict | bool):
            return msgspec.convert(document, annotation, str_keys=True)
        raise


def input_schema(parameters: Sequence[Parameter], place: str) -> shape.Schema:
    """Return the schema of the object with these arguments; others are refused (``additionalProperties: false``)."""
    typed = [(f'{place}: parameter "{p.name}"', p.annotation) for p in parameters]
    schemas, definitions = shape.schemas_of(typed, mode="validation")
    properties = {p.wire_name: _with_default(p, schema) for p, schema in zip(parameters, schemas, strict=True)}
    schema: shape.Schema = {"type": "object", "properties": properties}
    required = [p.wire_name for p in parameters if p.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = False
    if definitions:
        schema["$defs"] = definitions
    remove_unfit_defaults(schema)
    return schema


def list_choices(schema: shape.Schema, name: str) -> list[Any]:
    """Return the possible values of a property (an enum or ``Literal``); empty if it is not limited to some."""
    nodes = _list_alternatives(schema, name)
    return [value for node in nodes for value in ([node["const"]] if "const" in node else node.get("enum", []))]


def text_choices(schema: shape.Schema) -> dict[str, tuple[str, ...]]:
    """Return, for every property with only some possible values, those that are text."""
    limited = {
        name: [value for value in list_choices(schema, name) if isinstance(value, str)] for name in schema["properties"]
    }
    return {name: tuple(values) for name, values in limited.items() if values}


def takes_list(schema: shape.Schema, name: str) -> bool:
    """Return whether a list can be a value of a property."""
    limits = {"type", "anyOf", "$ref", "enum", "const"}
    return any("array" in node.get("type", ()) or limits.isdisjoint(node) for node in _list_alternatives(schema, name))


def _list_alternatives(schema: shape.Schema, name: str) -> list[shape.Schema]:
    """Return the schemas that a value of a property may fit: its own, those of a union, and what they refer to."""
    nodes: list[shape.Schema] = [schema["properties"].get(name, {})]
    for node in nodes:
        target: str = node.get("$ref", "").removeprefix("#/$defs/")
        inner = [*node.get("anyOf", ()), *([schema["$defs"][target]] if target else ())]
        nodes += [one for one in inner if one not in nodes]
    return nodes


def _with_default(parameter: Parameter, schema: shape.Schema) -> shape.Schema:
    """Add the default, if it has a JSON form; a sentinel of the author has none."""
    schema = {key: value for key, value in schema.items() if key != "default"}
    if parameter.default is REQUIRED:
        return schema
    try:
        return {**schema, "default": msgspec.json.decode(shape.encode_value(parameter.default))}
    except (TypeError, ValueError, RecursionError):
        return schema
