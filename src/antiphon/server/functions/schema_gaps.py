"""The gaps of JSON Schemas: formats of times and keys of objects, which msgspec leaves out, and unfit defaults.

Owns also the walk over the types that a type consists of.
"""

from __future__ import annotations

import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import ceil, floor
from types import GenericAlias
from typing import Any, cast, get_args, get_origin

from msgspec import inspect as types

from antiphon.errors import ConfigError
from antiphon.json_schema.effort import walk_objects

_Schema = dict[str, Any]
NUMBER_KEY = {"pattern": r"^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?$"}
LOOSE_FORMATS = ("date-time", "duration", "time")
"""Formats that values of Python may break: RFC 3339 wants a zone in a time, and in a duration no sign or fraction."""
NO_KEY = "the keys of a JSON object are text, which these keys cannot be; use a list of pairs: list[tuple[...]]"

_PLAIN = {"anyOf", "default", "description", "enum", "examples", "title", "type"}
_CLASSES: Mapping[Any, tuple[type, ...]] = {
    "boolean": (bool,), "integer": (int,), "null": (type(None),), "number": (int, float), "string": (str,),
}  # fmt: skip

_KEYS: Mapping[type, _Schema] = {
    types.AnyType: {},
    types.FloatType: NUMBER_KEY,
    types.BytesType: {"contentEncoding": "base64"},
    types.DateType: {"format": "date"},
    types.DateTimeType: {"format": "date-time"},
    types.TimeType: {"format": "time"},
    types.TimeDeltaType: {"format": "duration"},
    types.UUIDType: {"format": "uuid"},
    types.DecimalType: {"format": "decimal"},
}
"""The schema of a value of each type as the key of an object, where it is text."""


def fill_gaps(
    schemas: Sequence[_Schema], definitions: Mapping[str, _Schema], annotations: Sequence[Any], *, results: bool = False
) -> None:
    """Complete the schemas of these types. Raises ``ConfigError`` for one without a JSON form.

    ``results``: they are of values to be written, which have no format that one of them may break.
    """
    seen = set[str]()
    pending = list(zip(schemas, types.multi_type_info(annotations), strict=True))
    while pending:
        schema, kind = pending.pop()
        kind = _strip_annotations(kind)
        target: str = schema.get("$ref", "").removeprefix("#/$defs/")
        if target in seen:
            continue
        if target:
            seen.add(target)
            schema = definitions[target]
        if isinstance(kind, types.DateTimeType | types.TimeType) and kind.tz is None and not results:
            schema.setdefault("format", "time" if isinstance(kind, types.TimeType) else "date-time")
        elif isinstance(kind, types.TimeDeltaType) and results:
            schema.pop("format", None)
        elif isinstance(kind, types.DictType):
            names = _as_key(kind.key_type)
            if names is None:
                raise ConfigError(NO_KEY)
            if names and not (results and names.get("format") in LOOSE_FORMATS):
                schema["propertyNames"] = names
        elif isinstance(kind, types.DataclassType):
            _check_fields(kind.cls, results=results)
        pending += _list_parts(schema, kind)


def _check_fields(kind: Any, *, results: bool) -> None:
    """Refuse fields that only their class may set, and those of attrs classes that msgspec does not write."""
    kind = get_origin(kind) or kind
    attributes = getattr(kind, "__attrs_attrs__", ())
    for field in attributes or kind.__dataclass_fields__.values():
        if attributes and results and field.name.startswith("_"):
            raise ConfigError(f"no result has {kind.__name__}.{field.name}, because its name begins with _; rename it")
        if not results and not field.init:
            raise ConfigError(f"a client could set {kind.__name__}.{field.name}, which has init=False; leave it out")


def remove_unfit_defaults(schema: _Schema) -> None:
    """Remove defaults that do not fit their schema (JSON Schema 2020-12, validation 9.2: RECOMMENDED to be valid)."""
    maps = set[int]()
    for node in walk_objects(schema):
        # The members of these are named by authors, so that "default" is a name there.
        maps.update(id(node[key]) for key in ("properties", "$defs") if key in node)
        if "default" in node and id(node) not in maps and not _fits_schema(node, schema.get("$defs", {})):
            del node["default"]


def _fits_schema(node: _Schema, definitions: _Schema) -> bool:
    if _fits_plainly(node, node["default"]):
        return True
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for({**node, "$defs": definitions}, validate_formats=True)
    except ValueError:
        # A pattern may be one that only Python knows.
        return True
    return validator.is_valid(node["default"])


def _fits_plainly(node: _Schema, value: Any) -> bool:
    """Return whether a value fits a schema that needs no validator, which takes 40 ms to load."""
    if not node.keys() <= _PLAIN:
        return False
    if "anyOf" in node:
        return any(_fits_plainly(each, value) for each in node["anyOf"])
    return value in node["enum"] if "enum" in node else value.__class__ in _CLASSES.get(node.get("type"), ())


def _list_parts(schema: _Schema, kind: Any) -> Iterator[tuple[_Schema, Any]]:
    """Yield the schemas inside of a schema, each with its type."""
    if isinstance(kind, types.CollectionType):
        yield from [(schema["items"], kind.item_type)] if "items" in schema else []
    elif isinstance(kind, types.TupleType):
        yield from zip(schema.get("prefixItems", []), kind.item_types, strict=False)
    elif isinstance(kind, types.DictType):
        values = schema.get("additionalProperties")
        yield from [(values, kind.value_type)] if isinstance(values, dict) else []
    elif isinstance(kind, types.UnionType):
        yield from _list_branches(schema, kind)
    elif isinstance(kind, types.StructType | types.DataclassType | types.TypedDictType | types.NamedTupleType):
        properties: _Schema = schema.get("properties", {})
        items: list[_Schema] = schema.get("prefixItems", [])[-len(kind.fields) :]
        for at, field in enumerate(kind.fields):
            yield properties[field.encode_name] if properties else items[at], field.type


def _list_branches(schema: _Schema, kind: types.UnionType) -> Iterator[tuple[_Schema, Any]]:
    plain: list[Any] = []
    structs: list[Any] = []
    for member in kind.types:
        inner = _strip_annotations(member)
        if not isinstance(inner, types.NoneType):
            is_tagged = isinstance(inner, types.StructType) and not inner.array_like
            (structs if is_tagged else plain).append(member)
    # msgspec writes structs behind all others, and several structs as a union of their own.
    options = [option for option in schema["anyOf"] if option.get("type") != "null"]
    nested = options[-1]["anyOf"] if len(structs) > 1 and "discriminator" in options[-1] else options[len(plain) :]
    yield from zip([*options[: len(plain)], *nested], [*plain, *structs], strict=True)


def _strip_annotations(kind: Any) -> Any:
    while isinstance(kind, types.Metadata):
        kind = kind.type
    return kind


def _as_key(kind: Any) -> _Schema | None:
    """Return the schema of a type as the key of an object: empty for any text, ``None`` if no text is such a value."""
    kind = _strip_annotations(kind)
    if isinstance(kind, types.UnionType):
        return join_keys(map(_as_key, kind.types))
    if isinstance(kind, types.IntType):
        return write_whole_keys(kind)
    if isinstance(kind, types.LiteralType | types.EnumType):
        values = kind.values if isinstance(kind, types.LiteralType) else [one.value for one in kind.cls]
        return {"enum": [str(value) for value in values]}
    if isinstance(kind, types.StrType):
        bounds = {"minLength": kind.min_length, "maxLength": kind.max_length, "pattern": kind.pattern}
        return {name: bound for name, bound in bounds.items() if bound is not None}
    return next((names for one, names in _KEYS.items() if isinstance(kind, one)), None)


def join_keys(members: Iterable[_Schema | None]) -> _Schema | None:
    """Return the schema of keys that are of one of several types, each as ``_as_key`` returns it."""
    found = [names for names in members if names is not None]
    return None if not found else {"anyOf": found} if all(found) else {}


def write_whole_keys(bounds: Any) -> _Schema:
    """Return the schema of whole numbers as keys; ``gt``, ``ge``, ``lt`` and ``le`` are attributes of ``bounds``.

    The keys are text, which has no smallest number, so bounds become patterns of digits.
    """
    lows = [*([] if bounds.ge is None else [ceil(bounds.ge)]), *([] if bounds.gt is None else [floor(bounds.gt) + 1])]
    highs = [*([] if bounds.le is None else [floor(bounds.le)]), *([] if bounds.lt is None else [ceil(bounds.lt) - 1])]
    found = [_write_from(low) if low >= 0 else f"{_write_from(0)}|-({_write_up_to(-low)})" for low in lows]
    found += [f"{_write_up_to(high)}|-[1-9][0-9]*" if high >= 0 else f"-({_write_from(-high)})" for high in highs]
    patterns = [{"pattern": f"^({digits})$"} for digits in found] or [{"pattern": f"^-?({_write_from(0)})$"}]
    return patterns[0] if len(patterns) == 1 else {"allOf": patterns}


def _write_from(low: int) -> str:
    """Return the pattern of the numbers from ``low``, which is not negative, upwards."""
    if low < 2:
        return "[1-9][0-9]*" if low else "0|[1-9][0-9]*"
    digits = str(low)
    higher = [(at, int(digit) + 1) for at, digit in enumerate(digits) if digit != "9"]
    parts = [f"{digits[:at]}[{first}-9][0-9]{{{len(digits) - at - 1}}}" for at, first in higher]
    return "|".join([digits, f"[1-9][0-9]{{{len(digits)},}}", *parts])


def _write_up_to(high: int) -> str:
    """Return the pattern of the numbers from 0 to ``high``."""
    digits = str(high)
    lower = [(at, int(digit) - 1) for at, digit in enumerate(digits) if digit > ("0" if at else "1")]
    parts = [f"{digits[:at]}[{0 if at else 1}-{last}][0-9]{{{len(digits) - at - 1}}}" for at, last in lower]
    shorter = [f"[1-9][0-9]{{0,{len(digits) - 2}}}"] if len(digits) > 1 else []
    return "|".join(["0", digits, *shorter, *parts])


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
        if hasattr(annotation, alias) and not isinstance(annotation, GenericAlias):
            return (getattr(annotation, alias),)
    return get_args(annotation) or tuple(members_of_class(annotation).values())


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
