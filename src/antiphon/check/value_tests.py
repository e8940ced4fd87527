"""Tests of values that a JSON Schema cannot express: texts that mislead, schemas that nothing fits.

Each takes JSON as it came and yields what is wrong: the path within the value, and what was seen. The patterns are
those of ``host.checks``, which a host applies to each call as well.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, cast

from antiphon.errors import ConfigError
from antiphon.host.checks.redact import find_secrets, is_password, names_password
from antiphon.host.checks.risk import list_orders
from antiphon.host.checks.visible import blank_runs, count_hidden, find_lookalikes
from antiphon.json_schema.effort import count_members
from antiphon.json_schema.validator import SchemaValidator

JsonPath = tuple[str | int, ...]
Seen = Iterator[tuple[JsonPath, object]]
MAX_VALUES = 20_000
"""Most values within one definition that are looked at; the largest real ones have below 3,000."""
_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_NESTED = ("items", "additionalProperties", "not", "if", "then", "else", "prefixItems", "allOf", "anyOf", "oneOf")


def read_object(value: object) -> dict[str, Any]:
    """Return an object, or an empty one for anything else."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def read_list(value: object) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def measure_depth(value: object, most: int) -> int:
    """Return how deep a value is nested; above ``most``, some number above it."""
    level, depth = [value], 0
    while level and depth <= most:
        below = [each for node in level for each in (*read_list(node), *read_object(node).values())]
        level, depth = [each for each in below if type(each) in (dict, list)], depth + 1
    return depth


def list_texts(value: object) -> Iterator[tuple[JsonPath, str]]:
    """Yield every text of a value that people or models read, the names of arguments included."""
    pending: list[tuple[JsonPath, object]] = [((), value)]
    for _ in range(MAX_VALUES):
        if not pending:
            return
        path, node = pending.pop()
        if isinstance(node, str):
            yield path, node
        for name, each in reversed(read_object(node).items()):
            if path[-1:] == ("properties",):
                yield (*path, name), name
            if name not in ("icons", "_meta", "pattern"):
                pending.append(((*path, name), each))
        pending += [((*path, at), each) for at, each in reversed([*enumerate(read_list(node))])]


def walk_schemas(value: object) -> Iterator[tuple[JsonPath, dict[str, Any]]]:
    """Yield a schema and every subschema that is an object; values such as defaults are none."""
    pending: list[tuple[JsonPath, object]] = [((), value)]
    for _ in range(MAX_VALUES):
        if not pending:
            return
        path, node = pending.pop()
        if isinstance(node, dict):
            yield path, (schema := read_object(cast("object", node)))
            for keyword in _BY_NAME:
                pending += [((*path, keyword, name), one) for name, one in read_object(schema.get(keyword)).items()]
            for keyword in _NESTED:
                pending += [((*path, keyword, at), one) for at, one in enumerate(read_list(schema.get(keyword)))]
                pending.append(((*path, keyword), schema.get(keyword)))


def _on_text(find: Callable[[str], Iterable[object]]) -> Callable[[object], Seen]:
    return lambda value: (((), found) for found in find(value)) if isinstance(value, str) else iter(())


def _on_hidden(*kinds: str) -> Callable[[object], Seen]:
    return _on_text(lambda text: [f"{kind}: {text}" for kind in kinds if kind in count_hidden(text)])


def _on_orders(*kinds: str) -> Callable[[object], Seen]:
    return _on_text(lambda text: (words for kind, words in list_orders(text) if kind in kinds))


def _find_secret_names(properties: object) -> Seen:
    for name, schema in read_object(properties).items():
        # A flag such as "by_api_key" holds none.
        if names_password(name) and read_object(schema).get("type") not in ("boolean", "integer", "number"):
            yield (name,), name


def _find_set_secrets(variables: object) -> Seen:
    for name, value in read_object(variables).items():
        if find_secrets(f"{name}={value}") or (names_password(name) and is_password(str(value))):
            yield (name,), "a secret"


def _find_broken_schema(schema: object, *, is_invalid: bool) -> Seen:
    """Compile a schema as our client does: bounded, in its dialect, without fetching anything."""
    if not isinstance(schema, dict):
        return
    try:
        SchemaValidator(read_object(cast("object", schema)), place="")
    except ConfigError as error:
        text = str(error).removeprefix(": ")
        # Our engine lacks some regular expressions of ECMA-262, so that they say nothing about the schema.
        if is_invalid == ("not a valid JSON Schema" in text and 'is not a "regex"' not in text):
            yield (), text


def _find_unknown_required(schema: object) -> Seen:
    node = read_object(schema)
    properties = node.get("properties")
    if isinstance(properties, dict) and not {"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"} & set(node):
        for name in read_list(node.get("required")):
            if isinstance(name, str) and name not in properties:
                yield ("required",), name


def _find_unfit_default(schema: object) -> Seen:
    node = read_object(schema)
    is_little = "default" in node and count_members(node, 200) <= 200
    # Nothing that it refers to may be fetched, and no pattern of a stranger is matched here.
    if not is_little or any(sign in repr(node) for sign in ("'$", "'pattern")):
        return
    import jsonschema_rs

    with suppress(jsonschema_rs.ValidationError, ValueError, OverflowError):
        if not jsonschema_rs.validator_for(node).is_valid(node["default"]):
            yield ("default",), node["default"]


def _find_alike_names(names: object) -> Seen:
    """Find names that a hurried reader takes for each other, or that differ in capitals only."""
    met: dict[str, str] = {}
    for at, name in enumerate(read_list(names)):
        if isinstance(name, str):
            twins = str.maketrans("01358", "olesb")
            reduced = re.sub(r"[\W_]", "", name[:200].lower().translate(twins).replace("rn", "m").replace("i", "l"))
            if reduced and met.setdefault(reduced, name) != name:
                yield (at,), f"{met[reduced]}, {name}"


TESTS: Mapping[str, Callable[[object], Seen]] = {
    "bidirectional": _on_hidden("bidi"),
    "smuggled": _on_hidden("tag", "variation"),
    "invisible": _on_hidden("zero-width", "filler", "private", "stacked"),
    "control": _on_hidden("control"),
    "blank-room": _on_text(lambda text: [text] if blank_runs(text) else []),
    "lookalike": _on_text(lambda text: (text[start:end] for start, end in find_lookalikes(text))),
    "injection": _on_orders("injection", "posing"),
    "secrecy": _on_orders("secrecy"),
    "steering": _on_orders("steering", "order"),
    "theft": _on_orders("theft"),
    "secret": _on_text(lambda text: (found.kind for found in find_secrets(text))),
    "secret-names": _find_secret_names,
    "set-secrets": _find_set_secrets,
    "invalid-schema": partial(_find_broken_schema, is_invalid=True),
    "unchecked-schema": partial(_find_broken_schema, is_invalid=False),
    "unknown-required": _find_unknown_required,
    "unfit-default": _find_unfit_default,
    "alike": _find_alike_names,
}
"""Each test by the name that rules use."""
