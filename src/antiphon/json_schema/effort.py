"""How much work it is to validate values against a JSON Schema, counted before it is done.

A schema of a few kilobytes can ask for more work than a computer will ever do: forty definitions, each of which refers
to the next one twice, are 2 to the power of 40 checks. The count is an upper bound, in subschemas evaluated; by it
``validator`` decides where to validate, and refuses what would never end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast

from antiphon.wire.tools import list_subschemas

MAX_MEMBERS = 2_000
"""Most members and items of a schema that is counted, and used, on the event loop: it compiles in 2 ms."""

_MAX_STEPS = 3_000
"""Most subschemas visited for one count: 3 ms."""
_MAX_CHAIN = 150
"""Most subschemas nested in each other, or referring to each other in a row."""
_DEEP = 30
"""Nesting of a value from which a schema that does not recur is counted as if it did."""
_BRANCH = 50
"""A failing branch of ``anyOf`` or ``oneOf`` is reported, which takes this many times as long as evaluating it."""
_PATTERN = 50
"""The same for a regular expression."""

_HERE = ("allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies")
"""Keywords whose subschemas apply to the same value again."""
_ONE_OF_THEM = ("properties", "items", "prefixItems", "additionalProperties", "additionalItems")
"""Keywords of which at most one subschema each applies to a member or item of the value."""
_EACH_OF_THEM = ("patternProperties", "propertyNames", "contains")
"""Keywords of which each subschema may apply to every member or item."""
_TWICE = ("unevaluatedProperties", "unevaluatedItems")
"""Keywords that evaluate everything beside them once more."""
_ELSEWHERE = frozenset({"$dynamicRef", "$recursiveRef", "$id", "id"})
"""Keywords with which a reference cannot be resolved by its text alone."""

_Schema = dict[str, Any]


class _NotCountable(Exception):
    """The schema is too large to be counted here, or has references that are not followed here."""


class Effort:
    """The work that validation against one schema takes."""

    __slots__ = ("_known", "_root", "_steps", "_totals")

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._root = cast("_Schema", schema)
        self._known: dict[tuple[int, int], int] = {}
        self._steps = 0
        self._totals: dict[int, int | None] = {}

    def total(self, depth: int) -> int | None:
        """Return the most subschemas that apply at one place of a value; ``None`` if they cannot be counted."""
        if depth not in self._totals:
            self._steps = 0
            try:
                self._totals[depth] = self._of(self._root, depth, 0)
            except _NotCountable:
                self._totals[depth] = None
        return self._totals[depth]

    def constant(self) -> int | None:
        """Return ``total`` if it is the same at any depth; ``None`` for a schema that recurs, or cannot be counted."""
        total = self.total(_DEEP)
        return total if total is not None and total == self.total(_DEEP + 1) else None

    def expansion(self) -> int | None:
        """Return the most subschemas that apply to one value, at any place of the schema."""
        self._steps = 0
        try:
            return max(self._of(node, 0, 0) for node in walk_objects(self._root))
        except _NotCountable:
            return None

    def _of(self, node: Any, depth: int, chain: int) -> int:
        if not isinstance(node, dict):
            return 1
        key = (id(cast("object", node)), depth)
        known = self._known.get(key)
        if known is not None:
            return known
        self._steps += 1
        if self._steps > _MAX_STEPS or chain > _MAX_CHAIN:
            raise _NotCountable
        schema = cast("_Schema", node)
        if not _ELSEWHERE.isdisjoint(schema) and (schema is not self._root or "$dynamicRef" in schema):
            raise _NotCountable
        effort = self._here(schema, depth, chain + 1)
        if depth:
            effort += self._below(schema, depth - 1, chain + 1)
        if any(keyword in schema for keyword in _TWICE):
            effort *= 2
        self._known[key] = effort
        return effort

    def _here(self, schema: _Schema, depth: int, chain: int) -> int:
        effort = _count_own(schema)
        for keyword, _, each in list_subschemas(schema):
            if keyword in _HERE:
                effort += self._of(each, depth, chain) + (_BRANCH if keyword in ("anyOf", "oneOf") else 0)
        if "$ref" in schema:
            effort += self._of(self._target(schema["$ref"]), depth, chain)
        return effort

    def _below(self, schema: _Schema, depth: int, chain: int) -> int:
        inner = list(list_subschemas(schema))
        one = [self._of(each, depth, chain) for keyword, _, each in inner if keyword in _ONE_OF_THEM]
        every = [self._of(each, depth, chain) for keyword, _, each in inner if keyword in (*_EACH_OF_THEM, *_TWICE)]
        return max(one, default=0) + sum(every)

    def _target(self, reference: object) -> object:
        """Follow a JSON Pointer. One that leads nowhere is reported when the schema is compiled."""
        if not isinstance(reference, str) or not (reference == "#" or reference.startswith("#/")):
            raise _NotCountable
        node = cast("object", self._root)
        for step in reference[2:].split("/") if len(reference) > 1 else ():
            name = step.replace("~1", "/").replace("~0", "~")
            if "%" in name or not isinstance(node, dict):
                raise _NotCountable
            node = cast("_Schema", node).get(name)
        return node


def count_members(value: object, most: int) -> int:
    """Count the members and items of a JSON value at any depth; stop above ``most``."""
    # No walk by ``walk_nodes``: each tool is counted, and a generator takes several times as long.
    count = 1
    pending = [value]
    while pending and count <= most:
        node = pending.pop()
        if isinstance(node, dict | list):
            inner = cast("dict[str, object] | list[object]", node)
            count += len(inner)
            if count <= most:
                pending.extend(inner.values() if isinstance(inner, dict) else inner)
    return count


def weigh_value(value: object, most: int) -> tuple[int, int] | None:
    """Measure a value: its places, plus one for 16 characters of text, and its nesting; ``None`` above ``most``."""
    weight, depth = 1, 0
    level: list[Any] = [value]
    while level:
        below: list[Any] = []
        for node in level:
            if isinstance(node, str):
                weight += len(node) >> 4
            elif isinstance(node, dict):
                members = cast("dict[str, object]", node)
                weight += len(members) if len(members) > most else len(members) + (sum(map(len, members)) >> 4)
            elif isinstance(node, list):
                weight += len(cast("list[object]", node))
            else:
                continue
            if weight > most:
                return None
            below.extend(_list_inner(node))
        level = below
        depth += bool(level)
    return weight, depth


def _list_inner(node: Any) -> Iterator[Any]:
    if isinstance(node, dict):
        yield from cast("dict[str, object]", node).values()
    elif isinstance(node, list):
        yield from cast("list[object]", node)


def walk_nodes(schema: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any] | list[Any], int]]:
    """Walk over all objects and arrays within a schema, each with its depth, without recursion."""
    pending: list[tuple[dict[str, Any] | list[Any], int]] = [(cast("_Schema", schema), 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        children: Iterable[Any] = node.values() if isinstance(node, dict) else node
        pending += [(child, depth + 1) for child in children if isinstance(child, dict | list)]


def walk_objects(schema: Mapping[str, Any]) -> Iterator[_Schema]:
    """Walk over all objects within a schema."""
    return (node for node, _ in walk_nodes(schema) if isinstance(node, dict))


def _count_own(schema: _Schema) -> int:
    """Count what one schema evaluates itself: its keywords, and the values it lists."""
    effort = len(schema)
    for keyword in ("properties", "patternProperties", "required", "dependentRequired"):
        named: Any = schema.get(keyword)
        if isinstance(named, dict | list):
            effort += len(cast("list[object]", named))
    for keyword in ("enum", "const"):
        if keyword in schema:
            effort += count_members(schema[keyword], MAX_MEMBERS)
    if "pattern" in schema:
        effort += _PATTERN
    patterns: Any = schema.get("patternProperties")
    if isinstance(patterns, dict):
        effort += _PATTERN * len(cast("_Schema", patterns))
    # Items are sorted and compared with their neighbours, which takes longest for objects.
    return effort * 10 if schema.get("uniqueItems") is True else effort
