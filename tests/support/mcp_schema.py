"""The schemas of the five revisions as tests use them: definitions, instances made from them, and strict validators.

The schemas leave objects open nearly everywhere; ``problems`` closes them, so that a member which a revision does not
have is found when we send it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

import jsonschema_rs

FOLDER = Path(__file__).parent.parent / "schemas"
NAMES = tuple(sorted(path.stem for path in FOLDER.glob("*.json")))
MODERN = NAMES[-1]
DEPTH = 4
# A property may be called "type" or "properties"; both schemas of a tool are JSON Schema, of which the protocol's
# schema names only what it needs; anyone may put keys of their own into ``_meta``.
OPEN = ("properties", "inputSchema", "outputSchema", "_meta", "MetaObject")
WORDS = {
    "uri": "file:///tmp/a",
    "uri-template": "file:///{a}",
    "byte": "aGk=",
    "date": "2026-01-01",
    "date-time": "2026-01-01T00:00:00Z",
    "email": "a@example.org",
}


@cache
def document(revision: str) -> dict[str, Any]:
    """Load the schema of a revision."""
    return json.loads((FOLDER / f"{revision}.json").read_text())


def definitions(revision: str) -> dict[str, Any]:
    """Return the definitions of a revision by name."""
    whole = document(revision)
    return whole.get("$defs") or whole["definitions"]


@cache
def messages(revision: str) -> dict[str, str]:
    """Return the definition of every request and notification by its method, tasks excluded."""
    found: dict[str, str] = {}
    for name, part in definitions(revision).items():
        if "const" in part.get("properties", {}).get("method", {}):
            # 2026-07-28 has a union of one that repeats its only member: the first name is the message's own.
            found.setdefault(part["properties"]["method"]["const"], name)
    return {method: name for method, name in found.items() if "tasks/" not in method}


def params_schema(revision: str, method: str) -> dict[str, Any]:
    """Return the schema of a method's params."""
    return definitions(revision)[messages(revision)[method]]["properties"].get("params", {"type": "object"})


class Maker:
    """Makes one instance of a schema: unions by ``choice``, optional members as ``wants`` says."""

    def __init__(self, revision: str, choice: int, wants: Callable[[], bool]) -> None:
        self.definitions = definitions(revision)
        self.choice = choice
        self.wants = wants

    def make(self, schema: dict[str, Any], depth: int = 0) -> Any:
        """Make an instance, at most ``DEPTH`` recursions of JSON deep."""
        if "$ref" in schema:
            return self.make(self.definitions[schema["$ref"].rpartition("/")[2]], depth)
        if "const" in schema:
            return schema["const"]
        if "allOf" in schema:
            return {key: value for part in schema["allOf"] for key, value in self.make(part, depth).items()}
        for key, take in (("anyOf", self.make), ("enum", None)):
            if key in schema:
                options = schema[key]
                option = options[(self.choice + depth) % len(options)] if depth < DEPTH else options[-1]
                return take(option, depth + 1) if take else option
        return self.plain(schema, depth)

    def plain(self, schema: dict[str, Any], depth: int) -> Any:
        """Make an instance of a schema that only has a type."""
        kind = schema.get("type", "object" if "properties" in schema else "any")
        if isinstance(kind, list):
            kind = kind[self.choice % len(kind)]
        if kind == "object":
            return self.members(schema, depth)
        if kind == "array":
            items = schema.get("items", {})
            return [self.make(items, depth + 1) for _ in range(1 + self.choice % 2)]
        if kind == "string":
            return WORDS.get(schema.get("format", ""), f"word {self.choice}")
        if kind == "any":
            return [{"x": [1, None]}, "text", 7, True][self.choice % 4]
        return {"integer": self.choice, "number": [1, 0.5][self.choice % 2], "boolean": self.choice % 2 == 0}.get(kind)

    def members(self, schema: dict[str, Any], depth: int) -> dict[str, Any]:
        """Make an object: what is required always, the rest as wanted."""
        required = schema.get("required", [])
        properties = schema.get("properties", {})
        made = {name: self.make(part, depth) for name, part in properties.items() if name in required or self.wants()}
        more = schema.get("additionalProperties")
        if isinstance(more, dict) and "$ref" not in schema and depth < DEPTH and self.wants():
            made["example.org/extra"] = self.make(more or {"type": "string"}, depth + 1)
        return made


def instances(revision: str, schema: dict[str, Any], random: int = 20) -> Iterator[Any]:
    """Make instances of a schema: with every alternative, all optional members, none, and some."""
    for choice in range(10):
        yield Maker(revision, choice, lambda: True).make(schema)
        yield Maker(revision, choice, lambda: False).make(schema)
    for seed in range(random):
        dice = Random(seed)
        yield Maker(revision, seed, lambda dice=dice: dice.random() < 0.5).make(schema)


def closed(schema: Any, *, inside: str = "") -> Any:
    """Forbid members that a schema does not name, where it does not say that others may come."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value, inside=key) for key, value in schema.items()}
    if inside.endswith(OPEN) or "properties" not in result or "type" not in result:
        return result
    if inside == "params":
        # The base ``Request`` and ``Notification`` have ``_meta``; older definitions do not repeat it.
        result["properties"].setdefault("_meta", {})
    result.setdefault("additionalProperties", False)
    return result


@cache
def _validator(revision: str, pointer: str) -> Any:
    whole = document(revision)
    key = "$defs" if "$defs" in whole else "definitions"
    schema = {"$schema": whole["$schema"], "$ref": f"#/{key}/{pointer}", key: closed(whole[key])}
    return jsonschema_rs.validator_for(schema)


def problems(revision: str, pointer: str, instance: Any) -> list[str]:
    """List what is wrong with an instance of a definition (``Name`` or ``Name/properties/params``)."""
    found = _validator(revision, pointer).iter_errors(instance)
    return [f"{error.message} at {list(error.instance_path)}" for error in found]
