"""Arguments and requests as typed; arguments are ``key=value``, ``key:=JSON``, or one JSON object.

An object may be in a file (``@FILE``) or come from standard input (``-``). Owns the conversion of typed text to a value
of the type that the input schema of a tool has; the server validates the values.
"""

from __future__ import annotations

import codecs
import contextlib
import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import click
import msgspec

from antiphon.cli.output.formats import Failed, find_json_mistake
from antiphon.errors import AntiphonError, ConfigError
from antiphon.host.checks.form_fields import fields_of
from antiphon.host.checks.validate import validate_request
from antiphon.machine.files import decode_text, name_errors, read_file
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams, read_properties, resolve_schema

Schema = Mapping[str, Any]

_SHOWN = 200
"""Characters that a message quotes of what cannot be read."""
_LARGEST = 64 * 1024 * 1024
"""Most bytes of arguments, or of a request, in a file: as many as a message may have."""


def read_arguments(typed: Iterable[str], schema: Schema) -> dict[str, Any]:
    """Read the arguments of a tool. A key that is given twice makes a list if the schema wants one."""
    values: dict[str, Any] = {}
    for word in typed:
        if word == "-" or word.startswith("@") or word.lstrip().startswith("{"):
            is_here = word.lstrip().startswith("{")
            whole = _parse_json("the arguments", word if is_here else read_text(Path(word.removeprefix("@"))))
            if not isinstance(whole, dict):
                raise ConfigError("the arguments: a JSON object is needed")
            values.update(cast("dict[str, Any]", whole))
            continue
        key, text, is_json = _split_word(word)
        wanted = _find_property(schema, key)
        value = _parse_json(key, text) if is_json else _convert_value(key, text, wanted, schema)
        repeated = key in values and isinstance(values[key], list) and isinstance(value, list)
        values[key] = [*values[key], *cast("list[Any]", value)] if repeated else value
    return values


def read_texts(typed: Iterable[str]) -> dict[str, str]:
    """Read the arguments of a prompt, which are texts."""
    return {key: text for key, text, _ in map(_split_word, typed)}


def find_by_prefix(prefix: str, known: Sequence[str], missing: str) -> str:
    """Return the only known name that begins like this. ``missing``: the message if there is none."""
    found = [one for one in known if prefix and one.startswith(prefix)]
    if len(found) > 1:
        raise ConfigError(f"{prefix!r} may be any of: {', '.join(found[:10])}")
    if not found:
        raise Failed(missing)
    return found[0]


def _split_word(word: str) -> tuple[str, str, bool]:
    key, equals, text = word.partition("=")
    if not equals or not key.rstrip(":"):
        raise ConfigError(
            f"{word!r}: an argument is written key=value, key:=JSON, or as one JSON object (or @FILE, or -)"
        )
    return (key[:-1], text, True) if key.endswith(":") else (key, text, False)


def read_input(path: Path, most: int = _LARGEST) -> bytes:
    """Read a file; ``-`` is standard input. ``most``: most bytes."""
    with name_errors(path):
        data = sys.stdin.buffer.read(most + 1) if str(path) == "-" else read_file(path, most + 1)
    if len(data) > most:
        raise ConfigError(f"{path}: larger than {most} bytes")
    return data


def read_text(path: Path) -> str:
    """Read a file of UTF-8, whose mark at the beginning is left out; ``-`` is standard input."""
    return decode_text(read_input(path), path, _LARGEST)


def _parse_json(place: str, text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError) as error:
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."
        mistake = find_json_mistake(text.encode("utf-8", "replace")) or error
        raise ConfigError(f"{place}: {shown!r} is not JSON: {mistake}") from None


def _find_property(schema: Schema, key: str) -> Schema:
    """Return the schema of one argument; an empty one if the schema has none for it."""
    known = read_properties(schema)
    if key in known:
        return resolve_schema(known[key], schema)
    if schema.get("additionalProperties") is False:
        raise ConfigError(f"there is no argument {key!r}: {suggest_similar(key, list(known))}")
    return {}


def _convert_value(key: str, text: str, wanted: Schema, root: Schema) -> object:
    """Convert a text to the first type of the schema that it fits; strings come last, since every text is one."""
    types = _list_types(wanted, root)
    if not types:
        return _guess_value(text)
    readers = [reader for kind, reader in _READERS.items() if kind in types]
    for read, _ in readers:
        with contextlib.suppress(ValueError, RecursionError, click.BadParameter):
            return read(text, wanted, root)
    raise ConfigError(f"{key}={text[:_SHOWN]}: {readers[-1][1]} is needed")


def _list_types(wanted: Schema, root: Schema, depth: int = 0) -> set[str]:
    kinds = wanted.get("type")
    found: set[str] = {kinds} if isinstance(kinds, str) else set()
    if isinstance(kinds, list):
        found.update(map(str, cast("list[object]", kinds)))
    if not found and isinstance(wanted.get("enum"), list):
        found = {"string" if isinstance(value, str) else "json" for value in cast("list[Any]", wanted["enum"])}
    for word in ("anyOf", "oneOf"):
        options = wanted.get(word)
        for option in cast("list[Any]", options)[:16] if isinstance(options, list) and depth < 4 else ():
            found |= _list_types(resolve_schema(option, root), root, depth + 1)
    return {kind for kind in found if kind in _READERS}


def _guess_value(text: str) -> object:
    try:
        return msgspec.json.decode(text.encode("utf-8", "replace"))
    except (msgspec.DecodeError, RecursionError):
        return text


def _convert_null(text: str) -> None:
    if text not in ("null", ""):
        raise ValueError


def _convert_number(text: str) -> int | float:
    if text.lstrip("+-").isdecimal():
        return int(text)
    if not math.isfinite(value := float(text)):
        raise ValueError
    return value


def _convert_array(text: str, wanted: Schema, root: Schema) -> object:
    """Read a JSON array, or else one element of it."""
    if text.lstrip().startswith("["):
        value = _guess_value(text)
        if isinstance(value, list):
            return cast("list[object]", value)
    return [_convert_value("element", text, resolve_schema(wanted.get("items"), root), root)]


_READERS: Mapping[str, tuple[Callable[[str, Schema, Schema], object], str]] = {
    "null": (lambda text, _wanted, _root: _convert_null(text), "null"),
    "integer": (lambda text, _wanted, _root: int(text), "a whole number"),
    "number": (lambda text, _wanted, _root: _convert_number(text), "a number"),
    "boolean": (lambda text, _wanted, _root: click.BOOL.convert(text, None, None), "true or false"),
    "object": (lambda text, _wanted, _root: msgspec.json.decode(text, type=dict[str, Any]), "a JSON object"),
    "array": (_convert_array, "a list"),
    "json": (lambda text, _wanted, _root: json.loads(text), "a JSON value"),
    "string": (lambda text, _wanted, _root: text, "a text"),
}
"""By type, in the order in which they are tried: what converts a text, and what it needs."""


Asked = CreateMessageRequestParams | ElicitRequestParams | CallToolRequestParams


class _FileMessage(msgspec.Struct):
    """The members of a message that matter here."""

    params: msgspec.Raw = msgspec.Raw()
    method: str = ""


_ASKS: Mapping[str, type[Asked]] = {"elicitation/create": ElicitRequestParams, "tools/call": CallToolRequestParams}


def read_request(path: Path) -> CreateMessageRequestParams:
    """Read a sampling request; ``-`` is standard input."""
    return cast("CreateMessageRequestParams", read_ask(path, {}))


def read_ask(path: Path, others: Mapping[str, type[Asked]] = _ASKS) -> Asked:
    """Read a sampling request, or the message of an elicitation or a tool call, which names its method."""
    data = read_input(path).removeprefix(codecs.BOM_UTF8)
    try:
        message = msgspec.json.decode(data, type=_FileMessage)
        kind = others.get(message.method, CreateMessageRequestParams)
        asked = msgspec.json.decode(bytes(message.params) or data, type=kind)
        if isinstance(asked, CreateMessageRequestParams):
            validate_request(asked)
        elif isinstance(asked, ElicitRequestParams):
            fields_of(asked)
    except (msgspec.DecodeError, RecursionError, AntiphonError) as error:
        what = 'request, nor a call {"tool": ..., "arguments": {...}}' if others else "sampling request"
        raise ConfigError(f"{path}: not a {what}: {find_json_mistake(data) or error}") from None
    return asked
