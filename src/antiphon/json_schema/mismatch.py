"""Why a value does not fit its type, in words that a model or a person can act on.

``msgspec``, ``pydantic`` and ``jsonschema-rs`` report the errors; here their reports become a place ("items[2].price")
and a problem ("expected number >= 0").
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import reduce
from operator import getitem
from typing import Any, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

MAX_TEXT = 300
"""Most characters of a problem, since a report may quote what the peer sent."""

_KINDS = {"missing required": "missing", "contains unknown": "unknown"}
_JSON_NAMES = {"int": "integer", "float": "number", "str": "string", "bool": "boolean"}


class SchemaMismatch(Struct, frozen=True):
    """A place (empty for the whole value), and what is wrong there."""

    place: str
    problem: str
    kind: str = "invalid"
    """``invalid``; or ``missing`` or ``unknown`` for the member itself."""
    rule: tuple[str | int, ...] = ()
    """The path to the broken rule within a JSON Schema, if the value was checked by one."""

    def sentence(self, noun: str = "") -> str:
        """Return one sentence, with ``noun`` before the place (``argument "count": expected integer``)."""
        label = f'{noun} "{self.place}"'.strip()
        if self.kind != "invalid":
            return f"{self.kind} {label}{self.problem}"
        return f"{label}: {self.problem}" if self.place else self.problem


class MismatchError(ValueError):
    """A value does not fit its type. The text names the place."""

    def __init__(self, mismatch: SchemaMismatch) -> None:
        super().__init__(mismatch.sentence())
        self.mismatch = mismatch


def describe_mismatch(error: Exception) -> SchemaMismatch:
    """Convert the report of one of the three libraries; of several errors, the first."""
    if isinstance(error, MismatchError):
        return error.mismatch
    if isinstance(error, msgspec.ValidationError):
        return _of_msgspec(str(error))
    if hasattr(error, "instance_path"):
        return _of_jsonschema(error)
    if hasattr(error, "errors"):
        return _of_pydantic(error)
    return SchemaMismatch("", _shorten_text(f"not JSON: {error}"))


def describe_rule(mismatch: SchemaMismatch, schema: Mapping[str, Any]) -> str:
    """Describe a mismatch to readers who may not see the value: its keys, which the schema does not name, are ``*``."""
    public = msgspec.json.encode(schema).decode()
    steps = re.split(r"(\[\d+\]|[.\[\]])", mismatch.place)
    place = "".join(
        "*" if at % 2 == 0 and step and f'"{step}"' not in public else step for at, step in enumerate(steps)
    )
    problem = re.sub(r"^(invalid .*?value) .*", r"\1", mismatch.problem, flags=re.DOTALL)
    if mismatch.rule:
        problem = f"expected {mismatch.rule[-1]}"
        # The path of a rule begins at the part of the schema that has an ``$id``, if there is one.
        with suppress(LookupError, TypeError):
            rule: object = reduce(getitem, mismatch.rule, cast("Any", schema))
            problem += f": {msgspec.json.encode(rule).decode()}"
    return replace(mismatch, place=place, problem=_shorten_text(problem)).sentence()


def join_path(steps: Iterable[str | int]) -> str:
    """Format a path as in JavaScript: ``items[2].price``."""
    text = ""
    for step in steps:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return _shorten_text(text)


def suggest_name(name: str, known: Iterable[str]) -> str:
    """Name the known name that was probably meant, or list all of them."""
    from difflib import get_close_matches

    names = list(known)
    close = get_close_matches(name[:MAX_TEXT], names, n=1)
    if close:
        return f'; did you mean "{close[0]}"?'
    return "; known: " + ", ".join(f'"{one}"' for one in names[:20]) if names else "; none is taken"


def prefix_place(outer: str, mismatch: SchemaMismatch) -> SchemaMismatch:
    """Prefix the place of a mismatch with the member it was found in."""
    inner = mismatch.place
    place = outer + (inner if not inner or inner.startswith("[") else f".{inner}")
    return replace(mismatch, place=place)


def _of_msgspec(text: str) -> SchemaMismatch:
    # "problem - at `$.path`", "problem - at `key` in `$.path`", or the problem alone.
    problem, at, path = text.rpartition(" - at `")
    if not at:
        problem, path = text, ""
    is_key = path.startswith("key` in `")
    place = path.removeprefix("key` in `").removesuffix("`").removeprefix("$").removeprefix(".")
    member = re.fullmatch(r"Object (missing required|contains unknown) field `(.*)`", problem, re.DOTALL)
    if member is not None:
        whole = f"{place}.{member[2]}" if place else member[2]
        return SchemaMismatch(_shorten_text(whole), "", _KINDS[member[1]])
    problem = re.sub(r"`([^`]*)`", lambda quoted: _json_name(quoted[1]), problem)
    problem = re.sub(r"(?<=\d)\.0(?!\d)", "", problem)
    problem = problem[:1].lower() + problem[1:]
    return SchemaMismatch(_shorten_text(place), _shorten_text(f"key: {problem}" if is_key else problem))


def _json_name(name: str) -> str:
    return " or ".join(_JSON_NAMES.get(part, part) for part in name.split(" | "))


def _of_pydantic(error: Any) -> SchemaMismatch:
    first: Mapping[str, Any] = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = join_path(first["loc"])
    if first["type"] == "missing":
        return SchemaMismatch(place, "", "missing")
    message = str(first["msg"])
    return SchemaMismatch(place, _shorten_text(message[:1].lower() + message[1:]))


def _of_jsonschema(error: Any) -> SchemaMismatch:
    place = join_path(error.instance_path)
    message = str(error.message)
    required = re.fullmatch(r'"(.*)" is a required property', message, re.DOTALL)
    if required is not None:
        return SchemaMismatch(join_path([*error.instance_path, required[1]]), "", "missing")
    return SchemaMismatch(place, _shorten_text(message), rule=tuple(error.schema_path))


def _shorten_text(text: str) -> str:
    return text if len(text) <= MAX_TEXT else text[: MAX_TEXT - 3] + "..."
