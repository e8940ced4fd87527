"""Forms that a server asks a person to fill in: their fields, and which values fit.

Pure. Owns the restricted schema of elicitation (2025-11-25 client/elicitation, "Requested Schema"), and accepts the
spellings of older revisions. The reviewer displays the form.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from operator import gt, lt
from typing import Any, Literal, cast
from urllib.parse import urlsplit

import msgspec

from antiphon.wire.elicitation import ElicitRequestParams, ElicitValue
from antiphon.wire.envelope import encode_value, too_deep
from antiphon.wire.sampling import refuse_place

YES = ("y", "yes", "\u662f")
"""What a person types to agree, in either language."""
MAX_FIELDS = 100
"""Most fields of a form; a person fills in a dozen."""
MAX_OPTIONS = 1_000
"""Most options of a field; a list of countries has 250."""
MAX_FORM = 256 * 1024
"""Most bytes of message and schema, or of an address."""

Json = Mapping[str, Any]
FieldKind = Literal["string", "integer", "number", "boolean", "choice", "choices"]


class FormOption(msgspec.Struct, frozen=True):
    """One value to choose, and its label."""

    value: str
    title: str


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """One field of a form."""

    name: str
    kind: FieldKind
    title: str
    description: str = ""
    required: bool = False
    default: ElicitValue | None = None
    options: tuple[FormOption, ...] = ()
    format: str = ""
    """``"email"``, ``"uri"``, ``"date"``, ``"date-time"``, or nothing."""
    minimum: int | float | None = None
    """Least number, length or number of choices."""
    maximum: int | float | None = None
    """Greatest number, length or number of choices."""
    pattern: str = ""
    """The regular expression that a text must match, as the server states it. It is shown; the server applies it."""

    @property
    def suggestion(self) -> list[str]:
        """What the server suggests, as a person would type it. It is shown, and never taken unless a person says so."""
        if self.default is None:
            return []
        if isinstance(self.default, bool):
            return ["true" if self.default else "false"]
        values = self.default if isinstance(self.default, list) else [self.default]
        return [str(value) for value in values]

    @property
    def hides_name(self) -> bool:
        """Whether its title is something else than the name under which the value is sent."""
        return _keep_letters(self.title) != _keep_letters(self.name)


def fields_of(params: ElicitRequestParams) -> list[Field]:
    """Return the fields of a form in its order; raise ``InvalidParams``, with the place, if it cannot be read."""
    schema = params.requested_schema or {}
    if len(params.message) + len(params.url or "") + len(encode_value(schema)) > MAX_FORM:
        refuse_place("requestedSchema", f"more than {MAX_FORM} bytes of message and schema")
    if too_deep(encode_value(schema), 16) or not isinstance(schema.get("properties", {}), dict):
        refuse_place("requestedSchema.properties", "must be an object of flat properties")
    properties = cast("dict[str, object]", schema.get("properties", {}))
    required = schema.get("required", [])
    if len(properties) > MAX_FIELDS or not isinstance(required, list):
        refuse_place("requestedSchema", f"more than {MAX_FIELDS} fields, or required is no list")
    return [_read_schema_field(name, spec, name in required) for name, spec in properties.items()]


def list_suggestions(params: ElicitRequestParams) -> dict[str, ElicitValue]:
    """Return the server's suggestions by field. A person must say before that they are to be taken."""
    return {field.name: field.default for field in fields_of(params) if field.default is not None}


def parse_value(field: Field, typed: str) -> ElicitValue | None:
    """Convert a typed text to the field's value as ``check_value`` does; ``None`` for an empty text."""
    typed = typed.strip()
    if not typed:
        if field.required:
            raise ValueError("a value is needed")
        return None
    return check_value(field, _READERS[field.kind](field, typed))


def check_value(field: Field, value: object) -> ElicitValue:
    """Return the value if it fits the field; else raise ``ValueError``, whose text says what would fit."""
    return _CHECKS[field.kind](field, value)


def check_content(fields: list[Field], content: Mapping[str, object]) -> None:
    """Check a filled-in form; raise ``ValueError`` for a field that is missing, unknown or does not fit."""
    known = {field.name: field for field in fields}
    for name, value in content.items():
        if name not in known:
            raise ValueError(f"{name}: no such field")
        try:
            check_value(known[name], value)
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None
    missing = [field.name for field in fields if field.required and field.name not in content]
    if missing:
        raise ValueError(f"{missing[0]}: a value is needed")


def _read_schema_field(name: str, spec: object, required: bool) -> Field:
    place = f"requestedSchema.properties.{name}"
    if not isinstance(spec, dict):
        refuse_place(place, "must be an object")
    schema = cast("Json", spec)
    kind = _find_kind(schema)
    if kind is None:
        refuse_place(f"{place}.type", "must be string, integer, number, boolean, or an array of choices")
    try:
        field = _read_field(name, schema, kind, required)
    except (msgspec.ValidationError, TypeError, KeyError, AttributeError) as error:
        refuse_place(place, str(error))
    if kind in ("choice", "choices") and not 0 < len(field.options) <= MAX_OPTIONS:
        refuse_place(place, f"needs 1 to {MAX_OPTIONS} choices")
    return field


def _find_kind(schema: Json) -> FieldKind | None:
    kind = schema.get("type")
    if kind == "string":
        return "choice" if "enum" in schema or "oneOf" in schema else "string"
    if kind == "array":
        return "choices"
    return cast("FieldKind", kind) if kind in ("integer", "number", "boolean") else None


_BOUNDS = {"string": ("minLength", "maxLength"), "choices": ("minItems", "maxItems")}


def _read_field(name: str, schema: Json, kind: FieldKind, required: bool) -> Field:
    least, most = _BOUNDS.get(kind, ("minimum", "maximum"))
    field = msgspec.convert(
        {
            "name": name,
            "kind": kind,
            "title": schema.get("title") or name,
            "description": schema.get("description") or "",
            "required": required,
            "options": _list_options(schema["items"] if kind == "choices" else schema),
            "format": schema.get("format") or "",
            "minimum": schema.get(least),
            "maximum": schema.get(most),
            "pattern": schema.get("pattern") or "",
        },
        Field,
    )
    default = schema.get("default")
    try:
        return field if default is None else msgspec.structs.replace(field, default=check_value(field, default))
    except ValueError:
        # A default that does not fit is the server's mistake, so the field has no default.
        return field


def write_bound(bound: float) -> str:
    """Write a bound as it is checked, with all of its digits."""
    return str(bound).removesuffix(".0")


def _list_options(schema: Json) -> list[Json]:
    titled = schema.get("oneOf") or schema.get("anyOf")
    if titled:
        return [{"value": each["const"], "title": each.get("title") or each["const"]} for each in titled]
    values: list[object] = schema.get("enum") or []
    # enumNames: the labels of choices in 2025-06-18.
    names: list[object] = schema.get("enumNames") or []
    return [{"value": value, "title": names[at] if at < len(names) else value} for at, value in enumerate(values)]


def _keep_letters(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


def _read_number(field: Field, typed: str) -> object:
    try:
        return int(typed) if re.fullmatch(r"[+-]?\d{1,300}", typed) else float(typed)
    except ValueError:
        raise ValueError("a number is needed") from None


def _read_boolean(field: Field, typed: str) -> object:
    if (said := typed.lower()) in (*YES, "true", "1"):
        return True
    if said in ("n", "no", "\u5426", "false", "0"):
        return False
    raise ValueError("yes or no is needed")


def _read_choice(field: Field, typed: str) -> str:
    for option in field.options:
        if typed in (option.value, option.title):
            return option.value
    if typed.isdecimal() and 0 < int(typed[:9]) <= len(field.options):
        return field.options[int(typed[:9]) - 1].value
    raise ValueError(f"one of the {len(field.options)} choices is needed, by its number or its text")


def _check_string(field: Field, value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("a text is needed")
    _check_bounds(field, len(value), "characters")
    test, what = _FORMATS.get(field.format, (None, ""))
    if test is not None and not test(value):
        raise ValueError(f"{what} is needed")
    return value


def _check_number(field: Field, value: object) -> int | float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < math.inf:
        raise ValueError("a number is needed")
    if field.kind == "integer" and value % 1:
        raise ValueError("a whole number is needed")
    _check_bounds(field, value, "")
    return int(value) if field.kind == "integer" else value


def _check_boolean(field: Field, value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError("yes or no is needed")
    return value


def _check_choice(field: Field, value: object) -> str:
    if not isinstance(value, str) or all(value != option.value for option in field.options):
        raise ValueError("one of the choices is needed")
    return value


def _check_choices(field: Field, value: object) -> list[str]:
    if not isinstance(value, list):
        raise ValueError("a list of choices is needed")
    chosen = [_check_choice(field, each) for each in cast("list[object]", value)]
    _check_bounds(field, len(chosen), "choices")
    return chosen


def _check_bounds(field: Field, size: float, unit: str) -> None:
    for bound, is_beyond, side in ((field.minimum, lt, "least"), (field.maximum, gt, "most")):
        if bound is not None and is_beyond(size, bound):
            raise ValueError(f"at {side} {write_bound(bound)} {unit}".rstrip())


def _can_read(reader: Any, text: str) -> bool:
    try:
        reader(text)
    except ValueError:
        return False
    return True


_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_FORMATS: dict[str, tuple[Callable[[str], object], str]] = {
    "email": (re.compile(r"[^\s@]+@[^\s@]+").fullmatch, "an e-mail address"),
    "uri": (lambda url: _can_read(urlsplit, url) and urlsplit(url).scheme, "an address with its scheme (https://...)"),
    "date": (lambda text: _DATE.fullmatch(text) and _can_read(date.fromisoformat, text), "a date as 2026-01-31"),
    "date-time": (
        lambda text: "T" in text.upper() and _can_read(datetime.fromisoformat, text),
        "a moment as 2026-01-31T12:00:00Z",
    ),
}
_READERS: dict[FieldKind, Callable[[Field, str], object]] = {
    "string": lambda field, typed: typed,
    "integer": _read_number,
    "number": _read_number,
    "boolean": _read_boolean,
    "choice": _read_choice,
    "choices": lambda field, typed: [_read_choice(field, part.strip()) for part in typed.split(",") if part.strip()],
}
_CHECKS: dict[FieldKind, Callable[[Field, object], ElicitValue]] = {
    "string": _check_string,
    "integer": _check_number,
    "number": _check_number,
    "boolean": _check_boolean,
    "choice": _check_choice,
    "choices": _check_choices,
}
