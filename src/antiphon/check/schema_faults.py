"""Faults of one JSON Schema of a tool: what no validator accepts, what no value fits, and what vendors refuse.

A schema is checked in bounded time: beyond the bounds of ``json_schema`` it is reported as too large, and left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from antiphon.check.json_places import (
    FITS,
    PlacedFault,
    describe_json,
    is_list,
    is_number,
    is_object,
    join_path,
    read_list,
    read_object,
    walk_json,
)
from antiphon.json_schema.effort import Effort, count_members
from antiphon.json_schema.validator import DIALECTS, MAX_DEPTH, MAX_EXPANSION, MAX_NODES

_BY_NAME = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTED = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "not", "if", "then", "else", "propertyNames")
_SAYS_TYPE = frozenset({"type", "$ref", "$dynamicRef", "enum", "const", "not", "if", *_LISTED})
_BOUNDS = (
    ("minimum", "maximum"),
    ("minLength", "maxLength"),
    ("minItems", "maxItems"),
    ("minProperties", "maxProperties"),
)
_KEYWORDS = {name.lower(): name for name in (
    "additionalProperties", "allOf", "anyOf", "oneOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems",
    "required", "properties", "description", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "patternProperties",
)}  # fmt: skip
"""Keywords that are often misspelt, by their lower-case form."""
_OPENAPI = ("nullable", "example", "discriminator", "externalDocs", "xml")
"""Keywords of OpenAPI 3.0 that JSON Schema does not have."""
_MAX_SMALL = 200
"""Most members of a part of a schema whose default and examples are compared with it."""
_MAX_PATTERN = 1_000
"""Most characters of a regular expression that an engine with backtracking may compile."""
_LARGE_REPEAT = re.compile(r"\{\d{3,}")
_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""Names that Anthropic accepts for arguments: all else is answered with 400 (seen 2025-05 to 2026-09)."""
_MAX_LEVELS, _MAX_PROPERTIES, _MAX_ENUM = 10, 5_000, 1_000
"""Bounds of OpenAI's schemas (structured outputs and strict functions, 2026-09)."""


def find_schema_faults(schema: dict[str, Any]) -> Iterator[PlacedFault]:
    """Find the faults of a schema, whatever it is for; paths begin at its root."""
    if count_members(schema, 10 * MAX_NODES) > 10 * MAX_NODES or (nesting := measure_depth(schema)) > MAX_DEPTH:
        yield PlacedFault("schema.unbounded", "", f"deeper than {MAX_DEPTH}, or more than {10 * MAX_NODES} members")
        return
    nodes = dict(_walk_schemas(schema))
    yield from _find_invalid_parts(schema, nodes)
    for path, node in nodes.items():
        yield from _find_impossible_parts(path, node)
        yield from _find_misread_keywords(path, node)
        yield from _find_unfit_values(path, node)
        yield from _find_vendor_faults(path, node)
    yield from _find_size_faults(nodes, nesting)


def measure_depth(value: object) -> int:
    """Return how deep a value is nested; above the bound of schemas, some number above it."""
    level, depth = list[Any]([value]), 0
    while level and depth <= MAX_DEPTH:
        below = [each for node in level for each in (*read_list(node), *read_object(node).values())]
        level, depth = [each for each in below if is_object(each) or is_list(each)], depth + 1
    return depth


def _walk_schemas(schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield every subschema that is an object, with its path; values such as defaults are none."""
    pending: list[tuple[str, object]] = [("", schema)]
    while pending:
        path, node = pending.pop()
        if not is_object(node):
            continue
        known = read_object(node)
        yield path, known
        for keyword in reversed((*_BY_NAME, *_LISTED, *_SINGLE)):
            inner = known.get(keyword)
            if inner is None:
                continue
            place = join_path(path, keyword)
            if keyword in _BY_NAME:
                pending += [(join_path(place, name), each) for name, each in reversed(read_object(inner).items())]
            elif is_list(inner):
                pending += [(join_path(place, at), each) for at, each in reversed([*enumerate(read_list(inner))])]
            else:
                pending.append((place, inner))


def _find_invalid_parts(schema: dict[str, Any], nodes: Mapping[str, dict[str, Any]]) -> Iterator[PlacedFault]:
    dialect = schema.get("$schema")
    if dialect is not None and str(dialect).removesuffix("#") not in DIALECTS:
        yield PlacedFault("schema.dialect", "$schema", describe_json(dialect))
        return
    broken = list(_find_broken_references(schema, nodes))
    patterns = list(_find_slow_patterns(nodes))
    yield from (*broken, *patterns)
    if broken or patterns:
        return
    problem = _compile_schema(schema)
    if problem is not None:
        yield PlacedFault("schema.invalid", *problem)
    elif (Effort(schema).expansion() or 0) > MAX_EXPANSION:
        yield PlacedFault("schema.unbounded", "", f"references expand to more than {MAX_EXPANSION} subschemas")


def _compile_schema(schema: dict[str, Any]) -> tuple[str, str] | None:
    """Return where a schema is not valid, and why; ``None`` if it is."""
    # Imported here, because a program that only names a rule needs no validator.
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for(schema)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        steps: list[str | int] = list(getattr(error, "instance_path", None) or ())
        path = ""
        for step in steps:
            path = join_path(path, step)
        return path, str(getattr(error, "message", error)).splitlines()[0]
    return None


def _find_broken_references(schema: dict[str, Any], nodes: Mapping[str, dict[str, Any]]) -> Iterator[PlacedFault]:
    for path, node in nodes.items():
        target = node.get("$ref")
        if not isinstance(target, str):
            continue
        if target.partition(":")[0].lower() in ("http", "https", "file", "ftp"):
            yield PlacedFault("schema.remote_ref", join_path(path, "$ref"), target)
        elif target.startswith("#/") and "%" not in target and _follow_pointer(schema, target) is None:
            yield PlacedFault("schema.dangling_ref", join_path(path, "$ref"), target)


def _follow_pointer(schema: object, target: str) -> object:
    node = schema
    for step in target[2:].split("/"):
        name = step.replace("~1", "/").replace("~0", "~")
        if is_list(node) and name.isdecimal() and len(name) < 8:
            node = dict(enumerate(read_list(node))).get(int(name))
        else:
            node = read_object(node).get(name)
    return node


def _find_slow_patterns(nodes: Mapping[str, dict[str, Any]]) -> Iterator[PlacedFault]:
    import jsonschema_rs

    linear = jsonschema_rs.RegexOptions(size_limit=100_000)
    for path, node in nodes.items():
        for pattern in (node.get("pattern"), *read_object(node.get("patternProperties"))):
            if not isinstance(pattern, str):
                continue
            try:
                jsonschema_rs.validator_for({"pattern": pattern}, pattern_options=linear)
            except (jsonschema_rs.ValidationError, ValueError):
                may = len(pattern) <= _MAX_PATTERN and not _LARGE_REPEAT.search(pattern)
                wrong = may and _compile_schema({"pattern": pattern}) is not None
                yield PlacedFault(
                    "schema.invalid" if wrong else "schema.slow_pattern", join_path(path, "pattern"), pattern
                )


def _find_impossible_parts(path: str, node: dict[str, Any]) -> Iterator[PlacedFault]:
    properties = read_object(node.get("properties"))
    required = [name for name in read_list(node.get("required")) if isinstance(name, str)]
    elsewhere = {"patternProperties", "$ref", "allOf", "anyOf", "oneOf", "if"} & node.keys()
    if "properties" in node and not elsewhere and not re.search(r"(?:allOf|anyOf|oneOf|then|else|if|not)\b", path):
        for name in required:
            if name not in properties:
                closed = node.get("additionalProperties") is False
                rule = "schema.impossible_required" if closed else "schema.unknown_required"
                yield PlacedFault(rule, join_path(path, "required"), name)
    for low, high in _BOUNDS:
        least, most = node.get(low), node.get(high)
        if is_number(least) and is_number(most) and least > most:
            yield PlacedFault("schema.bounds", join_path(path, low), f"{low} {least} above {high} {most}")
    if node.get("enum") == []:
        yield PlacedFault("schema.empty_enum", join_path(path, "enum"), "[]")
    folded: dict[str, str] = {}
    for name in properties:
        if folded.setdefault(name.lower(), name) != name:
            yield PlacedFault(
                "schema.alike_properties", join_path(path, "properties"), f"{folded[name.lower()]}, {name}"
            )


def _find_misread_keywords(path: str, node: dict[str, Any]) -> Iterator[PlacedFault]:
    for name in node:
        known = _KEYWORDS.get(name.lower(), name)
        if known != name:
            yield PlacedFault("schema.misspelt_keyword", join_path(path, name), f"{name} is not {known}")
        elif name in _OPENAPI:
            yield PlacedFault("schema.openapi_keyword", join_path(path, name), name)


def _find_unfit_values(path: str, node: dict[str, Any]) -> Iterator[PlacedFault]:
    """Find values of a schema that do not fit it, if it is small and refers to nothing."""
    kinds = node.get("type")
    names = [kind for kind in (read_list(kinds) or [kinds]) if isinstance(kind, str)]
    fits = [FITS[kind] for kind in names if kind in FITS]
    for at, value in enumerate((read_list(node.get("enum")))[:_MAX_SMALL]):
        if fits and not any(fit(value) for fit in fits):
            yield PlacedFault("schema.enum_type", join_path(join_path(path, "enum"), at), describe_json(value))
    examples = [("default", node["default"])] if "default" in node else []
    examples += [(f"examples[{at}]", each) for at, each in enumerate(read_list(node.get("examples"))[:5])]
    if not examples or count_members(node, _MAX_SMALL) > _MAX_SMALL:
        return
    if any("$ref" in read_object(each) or "pattern" in read_object(each) for _, each in walk_json(node)):
        return
    import jsonschema_rs

    try:
        validator = jsonschema_rs.validator_for(dict(node))
    except ValueError:
        return
    for name, value in examples:
        if not validator.is_valid(value):
            rule = "schema.unfit_default" if name == "default" else "schema.unfit_example"
            yield PlacedFault(rule, join_path(path, name), describe_json(value))


def _find_vendor_faults(path: str, node: dict[str, Any]) -> Iterator[PlacedFault]:
    kinds = node.get("type")
    if not path and (union := next((name for name in ("oneOf", "anyOf", "allOf") if name in node), "")):
        yield PlacedFault("vendor.root_union", union, union)
    if path and kinds == "array" and not {"items", "prefixItems", "contains", "$ref"} & node.keys():
        yield PlacedFault("vendor.array_items", path, "no items")
    numbers = [value for value in read_list(node.get("enum")) if not isinstance(value, str) and value is not None]
    if numbers:
        yield PlacedFault("vendor.enum_numbers", join_path(path, "enum"), describe_json(numbers[0]))
    is_argument = re.search(r"properties\.[^.]*$", path) and not _SAYS_TYPE & node.keys()
    if is_argument:
        yield PlacedFault("vendor.untyped", path, "any value fits")
    if not path:
        for name in read_object(node.get("properties")):
            if not _PROPERTY.fullmatch(name):
                yield PlacedFault("vendor.property_name", "properties", describe_json(name))


def _find_size_faults(nodes: Mapping[str, dict[str, Any]], nesting: int) -> Iterator[PlacedFault]:
    # A level of a value takes two of its schema: the object, and its properties.
    if nesting > 2 * _MAX_LEVELS + 1:
        yield PlacedFault("vendor.depth", "", f"nested {nesting} deep")
    properties = sum(len(read_object(node.get("properties"))) for node in nodes.values())
    if properties > _MAX_PROPERTIES:
        yield PlacedFault("vendor.properties", "", f"{properties} properties")
    values = sum(len(read_list(node.get("enum"))) for node in nodes.values())
    if values > _MAX_ENUM:
        yield PlacedFault("vendor.enum_size", "", f"{values} values")
    roots = [
        ("#", nodes[""]),
        *((f"#/{at.replace('.', '/')}", node) for at, node in nodes.items() if at.count(".") == 1),
    ]
    if _has_recursion(dict(roots)):
        yield PlacedFault("vendor.recursion", "", "a schema refers to itself")


def _has_recursion(roots: Mapping[str, dict[str, Any]]) -> bool:
    """Return whether definitions refer to each other in a circle."""
    named = {place for place in roots if place.startswith(("#/$defs/", "#/definitions/"))}
    refers: dict[str, set[str]] = {}
    for place in named:
        found = {str(read_object(each).get("$ref")) for _, each in walk_json(roots[place])}
        if "#" in found:
            return True
        refers[place] = found & named
    while refers:
        ends = {place for place, targets in refers.items() if not targets & refers.keys()}
        if not ends:
            return True
        refers = {place: targets for place, targets in refers.items() if place not in ends}
    return False
