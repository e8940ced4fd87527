"""Schemas of OpenAPI 3.0 and 3.1, converted to JSON Schema 2020-12.

Owns which keywords are kept, and how definitions are shared: each component is converted once for requests and once for
responses, when the first tool that needs it is listed, and all tools hold the same object under ``$defs``. What no
schema can be (a wrong type of a keyword, a broken pattern) is left out, since one such place would spoil the tool.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping, Sized
from functools import lru_cache
from typing import Any, cast

import msgspec
from msgspec import Struct, field

from antiphon.json_schema.effort import count_members
from antiphon.server.openapi.document import ApiDocument, Target
from antiphon.wire.envelope import encode_value

MAX_INPUT = 6_000
"""Most members of an input schema, definitions included; ``SchemaValidator`` takes 10,000 objects and arrays."""
MAX_OUTPUT = 1_800
"""Most members of an output schema: one up to 2,000 is checked on the event loop. Stripe's would have 300,000."""
_MAX_DEPTH = 24
"""Deepest nesting of one definition: what is deeper may be anything."""
_MAX_MEMBERS = 1_000
"""Most members of a value that is kept, such as an enumeration."""
_MAX_BYTES: Mapping[str, int] = {"enum": 30_000, "required": 30_000}
"""Most bytes of a keyword's value; 2,000 of the others."""
_INNER: Mapping[str, str] = {
    **dict.fromkeys(("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames"), "one"),
    **dict.fromkeys(("unevaluatedItems", "unevaluatedProperties", "contentSchema"), "one"),
    **dict.fromkeys(("allOf", "anyOf", "oneOf", "prefixItems"), "list"),
    **dict.fromkeys(("properties", "patternProperties", "dependentSchemas"), "named"),
}
"""Keywords whose values are schemas."""
_KEPT = re.compile(
    "type|title|description|format|default|const|enum|examples|required|deprecated|maximum|minimum|exclusiveM..imum|"
    "multipleOf|pattern|uniqueItems|(max|min)(Length|Items|Properties|Contains)|content(Encoding|MediaType)|"
    "(read|write)Only"
)
"""Keywords whose values are no schemas."""


class Definition(Struct, eq=False):
    """A component, which schemas refer to by name."""

    name: str
    target: Target
    schema: Any = None
    """The converted schema, once it is needed."""
    uses: dict[str, Definition] = field(default_factory=dict[str, "Definition"])
    """The definitions that the schema itself refers to."""
    size: int = 0


class SchemaConverter:
    """Converts the schemas of one document, for requests or for responses."""

    def __init__(self, document: ApiDocument, *, output: bool) -> None:
        self._document, self._output = document, output
        self._most = self._left = MAX_OUTPUT if output else MAX_INPUT
        self._definitions: dict[int, Definition] = {}
        self._names: set[str] = set()

    def begin(self) -> dict[str, Definition]:
        """Begin a schema, and count its members anew; return the definitions that it refers to, which has none yet."""
        self._left = self._most
        return {}

    def convert(self, target: Target, uses: dict[str, Definition], depth: int = 0) -> Any:
        """Return a schema, and add what it refers to to ``uses``; a part that is too large or deep may be anything."""
        node: Any = target.node
        members = target.members
        inner = [len(each) for name, each in members.items() if name in _INNER and isinstance(each, Sized)]
        size = 1 + len(members) + sum(inner)
        if not members or depth > _MAX_DEPTH or size > self._left:
            return node if isinstance(node, bool) and depth else {}
        self._left -= size
        made: dict[str, Any] = {}
        for name, value in members.items():
            if name in _INNER:
                self._convert_inner(name, target.get(name), made, uses, depth + 1)
            elif name in ("$ref", "$dynamicRef") and isinstance(value, str):
                made["$ref"] = self._refer(value, target, uses)
            elif name == "description" and isinstance(value, str):
                made[name] = target.text(name, 2_000)
            elif _KEPT.fullmatch(name) and _is_small(name, value):
                # A mapping that others have read may hold dates, and text that is not Unicode.
                made[name] = msgspec.json.decode(encode_value(value))
                self._left -= count_members(value, _MAX_MEMBERS) - 1
        _drop_invalid(made)
        _convert_keywords(made, members)
        properties = target.get("properties")
        for name in properties.members:
            # What is for the other direction only is left out.
            if properties.get(name).members.get("writeOnly" if self._output else "readOnly") is True:
                made["properties"].pop(name, None)
                if name in made.get("required", ()):
                    made["required"] = [each for each in made["required"] if each != name]
        return made

    def _convert_inner(
        self, name: str, inner: Target, made: dict[str, Any], uses: dict[str, Definition], depth: int
    ) -> None:
        """Convert a keyword whose value is a schema, a list of schemas, or schemas by name."""
        if _INNER[name] == "named":
            keys = [key for key in inner.members if name != "patternProperties" or _is_pattern(key)]
            made[name] = {
                key.encode(errors="replace").decode(): self.convert(inner.get(key), uses, depth) for key in keys
            }
        elif _INNER[name] == "list" and inner.items:
            made[name] = [self.convert(each, uses, depth) for each in inner.items]
        elif inner.node is False and self._output and name == "additionalProperties":
            pass  # Answers may get members that the document does not name yet.
        elif _INNER[name] == "one" and isinstance(inner.node, dict | bool):
            made[name] = self.convert(inner, uses, depth)

    def close(self, schema: dict[str, Any], uses: Mapping[str, Definition]) -> dict[str, Any]:
        """Return a schema with the definitions that it needs; those that make it too large may be anything."""
        left = self._most - count_members(schema, self._most)
        found: dict[str, Any] = {}
        pending = deque(uses.values())
        while pending:
            each = pending.popleft()
            if each.name in found:
                continue
            if each.schema is None:
                each.uses = self.begin()
                each.schema = self.convert(each.target, each.uses)
                each.size = count_members(each.schema, MAX_INPUT)
            left -= 1
            if each.size > left:
                found[each.name] = {"description": "Not described here, since the whole would be too long."}
                continue
            left -= each.size
            found[each.name] = each.schema
            pending.extend(each.uses.values())
        return {**schema, "$defs": found} if found else schema

    def _refer(self, reference: str, target: Target, uses: dict[str, Definition]) -> str:
        found = self._document.resolve(reference, target.scope, "a schema")
        if (definition := self._definitions.get(id(found.node))) is None:
            start = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]).strip("_")[:64] or "schema"
            name, count = start, 1
            while name in self._names:
                count += 1
                name = f"{start}_{count}"
            self._names.add(name)
            definition = self._definitions[id(found.node)] = Definition(name, found)
        uses[definition.name] = definition
        return f"#/$defs/{definition.name}"


def _convert_keywords(made: dict[str, Any], schema: dict[str, Any]) -> None:
    """Convert what only OpenAPI has, most of it in 3.0."""
    for bound in ("Minimum", "Maximum"):
        # A boolean in 3.0, where it changes the meaning of the bound beside it.
        if schema.get(f"exclusive{bound}") is True and bound.lower() in made:
            made[f"exclusive{bound}"] = made.pop(bound.lower())
    if isinstance(example := schema.get("example"), str | int | float) and _is_small("example", example):
        made.setdefault("examples", msgspec.json.decode(encode_value([example])))
    if schema.get("format") == "binary":
        # JSON has no bytes: in arguments they are base64, and are sent as the bytes themselves.
        made.pop("format", None)
        made.setdefault("contentEncoding", "base64")
    if "oneOf" in made and "anyOf" not in made:
        # Several may fit where a discriminator decides, or once something was left out of them.
        made["anyOf"] = made.pop("oneOf")
    if schema.get("nullable") is not True:
        return
    kinds = made.get("type", "null")
    if "null" not in kinds:
        made["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if inner := {name: made.pop(name) for name in ("$ref", "allOf", "anyOf", "oneOf", "not", "const") if name in made}:
        made["anyOf"] = [inner, {"type": "null"}]


def _is_small(name: str, value: Any) -> bool:
    """Return whether a value of a keyword is kept: "$ref" in one would be taken for a reference by some readers."""
    if isinstance(value, list | dict) and count_members(cast("object", value), _MAX_MEMBERS) > _MAX_MEMBERS:
        return False
    data = encode_value(cast("object", value))
    is_fit = name != "pattern" or (isinstance(value, str) and _is_pattern(value))
    return is_fit and len(data) <= _MAX_BYTES.get(name, 2_000) and b'"$ref"' not in data


def _drop_invalid(made: dict[str, Any]) -> None:
    """Leave out the keywords whose values are of a wrong type."""
    own = {name: value for name, value in made.items() if _KEPT.fullmatch(name)}
    meta = _read_meta_schema()
    for name, value in () if meta.is_valid(own) else own.items():
        if not meta.is_valid({name: value}):
            del made[name]


@lru_cache(maxsize=1)
def _read_meta_schema() -> Any:
    import jsonschema_rs

    return jsonschema_rs.validator_for({"$ref": "https://json-schema.org/draft/2020-12/schema"})


@lru_cache(maxsize=4_096)
def _is_pattern(pattern: str) -> bool:
    """Return whether the validator can compile a pattern; those of other dialects of regular expressions may differ."""
    import jsonschema_rs

    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
