"""An OpenAPI document: read, bounded, with its references resolved, and its schemas converted to JSON Schema 2020-12.

Owns where a document comes from (a mapping, a file, JSON or YAML text) and what a ``$ref`` leads to; ``referencing``
resolves the references. A document is hostile: what the chosen operations reach is walked once, without recursion, and
bounded in size and depth before anything is made of it. No reference is fetched unless the caller gave a function.

Owns also which keywords of a schema of 3.0 or 3.1 are kept, and how definitions are shared: each component is converted
once for requests and once for responses, when the first tool that needs it is listed, and all tools hold the same
object under ``$defs``. What no schema can be (a wrong type of a keyword, a broken pattern) is left out, since one such
place would spoil the tool.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import cached_property, lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, cast

import jsonschema_rs
import msgspec
from msgspec import Struct, field

from antiphon.errors import ConfigError
from antiphon.json_schema.effort import count_members
from antiphon.machine.files import name_errors, open_file
from antiphon.machine.front_matter import read_yaml
from antiphon.machine.public_names import describe_install
from antiphon.wire.envelope import encode_value, too_deep
from antiphon.wire.tools import SUBSCHEMAS, ToolAnnotations

References = Mapping[str, Any] | Callable[[str], Any]
"""Other documents by their URI, or a function that returns the document of a URI."""

MAX_TEXT = 64 * 1024 * 1024
"""Most bytes of a document; GitHub's, one of the largest in use, has 13 MB."""
_MAX_YAML = 4 * 1024 * 1024
"""Most bytes of YAML, which takes a hundred times as long to read as JSON."""
_MAX_NODES = 2_000_000
"""Most objects and arrays that the chosen operations reach; GitHub's 1,200 operations reach 150,000."""
_MAX_DEPTH = 200
"""Deepest nesting between two references; documents in use nest 40 deep."""
_MAX_DOCUMENTS = 100
"""Most documents that one refers to."""
_MAX_HOPS = 20
"""Most references in a row."""


class _OpenApiTables(Struct):
    """Tables, which their file explains."""

    kept: frozenset[str]
    own_headers: frozenset[str]
    charsets: frozenset[str]
    unused: frozenset[str]
    left_out: frozenset[str]
    styles: dict[str, dict[str, tuple[str, str, str]]]
    kinds: dict[str, tuple[str, ...]]
    written: dict[str, str]
    hints: dict[str, ToolAnnotations]


TABLES = msgspec.toml.decode(Path(__file__).with_name("tables.toml").read_bytes(), type=_OpenApiTables)


class Scope(Struct, eq=False):
    """What references are relative to: one document, or a part of it that has a base URI of its own."""

    resolver: Any
    root: Any
    known: dict[str, Target] = {}


class Target(Struct, frozen=True, eq=False):
    """A part of a document, and the scope of the references in it."""

    node: Any
    scope: Scope

    def get(self, name: str) -> Target:
        """Return a member of an object; an empty part if there is none."""
        return Target(self.members.get(name), self.scope)

    @property
    def members(self) -> dict[str, Any]:
        """The members of an object; none of anything else."""
        return cast("dict[str, Any]", self.node) if isinstance(self.node, dict) else {}

    @property
    def items(self) -> list[Target]:
        """The items of an array; none of anything else."""
        listed = cast("list[Any]", self.node) if isinstance(self.node, list) else []
        return [Target(each, self.scope) for each in listed]

    def text(self, name: str, most: int = 1_000) -> str:
        """Return a member that is text, cut; nothing if it is anything else."""
        value = self.members.get(name)
        return value[:most].encode(errors="replace").decode() if isinstance(value, str) else ""


class ApiDocument:
    """A document of OpenAPI 3. Raises ``ConfigError`` if it cannot be read; the message says what to do."""

    def __init__(self, document: Any, references: References | None) -> None:
        try:
            from referencing import Registry
        except ImportError:
            raise ConfigError(f"from_openapi() needs a package: {describe_install('openapi')}") from None
        resource, base = _read_document(document)
        root = resource.contents
        version = root.get("openapi")
        # YAML has 3.1 as a number.
        if not str(version).startswith("3."):
            found = f"swagger {root['swagger']!r}" if "swagger" in root else f"openapi {version!r}"
            raise ConfigError(f"from_openapi() reads OpenAPI 3; this document says {found:.50}: convert it first")
        self._references, self._retrieved = references, dict[str, Any]()
        registry: Any = Registry(retrieve=cast("Any", self._retrieve))
        self._registry, self._base = registry.with_resource(base, resource), base
        self.root = Target(root, Scope(self._registry.resolver(base), root))
        self._seen: set[int] = set()

    def follow(self, target: Target, place: str = "") -> Target:
        """Return what a Reference Object stands for, or the target itself.

        Raises ``ConfigError``, which begins with ``place``, for a reference that leads nowhere. Without a place one to
        itself leads to an empty part, since such a schema says nothing; ``check`` has found all others.
        """
        for _ in range(_MAX_HOPS):
            reference = target.members.get("$ref")
            if not isinstance(reference, str):
                return target
            target = self.resolve(reference, target.scope, place)
        if not place:
            return target.get("")
        raise ConfigError(f"{place}: more than {_MAX_HOPS} references in a row, at {target.members['$ref']!r:.200}")

    @cached_property
    def _named(self) -> Any:
        """The resolver that knows anchors and identifiers, which the library would search for at each reference."""
        if count_members(self.root.node, _MAX_NODES) > _MAX_NODES:
            raise ConfigError(f"is no path in a document of over {_MAX_NODES:,} parts: write it as '#/...'")
        return self._registry.crawl().resolver(self._base)

    def resolve(self, reference: str, scope: Scope, place: str) -> Target:
        """Return what a reference leads to; ``ConfigError`` if that is nothing, or outside and not allowed."""
        found = scope.known.get(reference)
        if found is None:
            try:
                if scope is self.root.scope and not reference.startswith("#/"):
                    scope.resolver = self._named
                resolved = scope.resolver.lookup(reference)
                root = resolved.resolver.lookup("#").contents
            except Exception as error:
                # What the library raises has no common class; a hostile pointer ends in ValueError and TypeError, too.
                cause: BaseException | None = error
                while cause is not None and not isinstance(cause, ConfigError):
                    cause = cause.__cause__
                nowhere = f"leads nowhere ({type(error).__name__}): mend it, or leave the operation out by include="
                raise ConfigError(f"{place}: $ref {reference!r:.200} {cause or nowhere}") from None
            # Most references stay in their document. They share its scope, so that each is looked up only once.
            found = Target(resolved.contents, scope if root is scope.root else Scope(resolved.resolver, root))
            scope.known[reference] = found
        return found

    def check(self, targets: Iterable[Target], place: str) -> None:
        """Walk over all that these parts reach, once; ``ConfigError`` for a bound or a reference to nothing."""
        pending = [(target.node, target.scope, 1, False) for target in targets]
        # Readers of YAML have containers of their own, which are derived from these.
        containers, unused = (dict, list), TABLES.unused
        while pending:
            node, scope, depth, named = pending.pop()
            if id(node) in self._seen or not isinstance(cast("object", node), containers):
                continue
            self._seen.add(id(node))
            if depth > _MAX_DEPTH or len(self._seen) > _MAX_NODES:
                what = f"nests deeper than {_MAX_DEPTH}" if depth > _MAX_DEPTH else f"has over {_MAX_NODES:,} parts"
                raise ConfigError(f"{place}: the document {what}: leave the operation out by include=")
            if isinstance(node, list):
                pending += [(each, scope, depth + 1, False) for each in cast("list[Any]", node)]
                continue
            for name, value in cast("dict[Any, Any]", node).items():
                if not isinstance(name, str):
                    raise ConfigError(f"{place}: the key {name!r:.100} is no text: quote it, or give the YAML as text")
                if isinstance(cast("object", value), containers):
                    if named or not (name in unused or name.startswith("x-")):
                        pending.append((value, scope, depth + 1, not named and SUBSCHEMAS.get(name) == "named"))
                elif name in ("$ref", "$dynamicRef") and isinstance(value, str) and not named:
                    target = self.resolve(value, scope, place)
                    pending.append((target.node, target.scope, 1, False))

    def _retrieve(self, uri: str) -> Any:
        """Return a document that this one refers to, if the caller allowed that."""
        if uri not in self._retrieved:
            given = self._references
            if given is None or (isinstance(given, Mapping) and uri not in given):
                raise ConfigError(f"leaves the document, and references= has no {uri!r:.200}")
            if len(self._retrieved) >= _MAX_DOCUMENTS:
                raise ConfigError(f"leads to more than {_MAX_DOCUMENTS} documents")
            document = cast("Any", given[uri] if isinstance(given, Mapping) else given(uri))
            self._retrieved[uri], _ = _read_document(document)
        return self._retrieved[uri]


def _read_document(document: Any) -> tuple[Any, str]:
    """Return a document as a resource of ``referencing``, and its URI if it is a file."""
    from referencing.jsonschema import DRAFT202012

    base = ""
    if isinstance(document, PathLike) or (isinstance(document, str) and not re.search(r"[\n{]", document)):
        path = Path(cast("PathLike[str] | str", document))
        if path.parts[:1] in (("http:",), ("https:",)):
            raise ConfigError(f"{str(path)!r:.200} is not fetched: give its text, as in httpx.get(url).text")
        with name_errors(f"OpenAPI document {str(path)!r:.200}: cannot be read"), open_file(path) as file:
            document, base = file.read(MAX_TEXT + 1), path.resolve().as_uri()
    elif isinstance(document, str):
        document = document.encode(errors="replace")
    if isinstance(document, bytes):
        is_json = document.lstrip()[:1] == b"{"
        if len(document) > (MAX_TEXT if is_json else _MAX_YAML):
            raise ConfigError(f"an OpenAPI text has at most {MAX_TEXT:,} bytes, {_MAX_YAML:,} in YAML: give a mapping")
        try:
            noun = "the document"
            document = msgspec.json.decode(document) if is_json else read_yaml(document.decode(), _MAX_NODES, noun)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"OpenAPI document: it is no JSON or YAML: {error}") from None
    if not isinstance(document, Mapping):
        raise ConfigError("an OpenAPI document is a mapping, the path of a file, or its text as JSON or YAML")
    whole = cast("Mapping[str, Any]", document)
    # The library looks for anchors only where a JSON Schema has others, of which a document of OpenAPI has none.
    schemas = Target(whole.get("components"), cast("Any", None)).get("schemas").members
    return DRAFT202012.create_resource({"allOf": [*schemas.values()], **whole}), base


MAX_INPUT = 6_000
"""Most members of an input schema, definitions included; ``SchemaValidator`` takes 10,000 objects and arrays."""
MAX_OUTPUT = 1_800
"""Most members of an output schema: one up to 2,000 is checked on the event loop. Stripe's would have 300,000."""
_MAX_SCHEMA_DEPTH = 24
"""Deepest nesting of one definition, and of a value in it: what is deeper may be anything."""
_MAX_MEMBERS = 1_000
"""Most members of a value that is kept, such as an enumeration."""
_MAX_BYTES: Mapping[str, int] = {"enum": 30_000, "required": 30_000}
"""Most bytes of a keyword's value; 2,000 of the others."""
_INNER = {name: kind for name, kind in SUBSCHEMAS.items() if name not in TABLES.left_out}
"""Keywords whose values are schemas, and kept."""


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
    """Converts the schemas of one document, for requests or for responses: one after another, in one or more parts."""

    def __init__(self, document: ApiDocument, *, output: bool) -> None:
        self._document, self._output = document, output
        self._most = self._left = MAX_OUTPUT if output else MAX_INPUT
        self._uses: dict[str, Definition] = {}
        """The definitions that the present schema refers to."""
        self._definitions: dict[int, Definition] = {}
        self._names: dict[str, int] = {}
        """The last number that each name of a definition was given."""

    def begin(self) -> None:
        """Begin a schema: count its members anew, and note anew what it refers to."""
        self._left, self._uses = self._most, {}

    def convert(self, target: Target, depth: int = 0) -> Any:
        """Return a part of the schema; what in it is too large or deep may be anything."""
        members = target.members
        inner: list[Any] = [each for name, each in members.items() if name in _INNER and isinstance(each, dict | list)]
        size = 1 + len(members) + sum(map(len, inner))
        if not members or depth > _MAX_SCHEMA_DEPTH or size > self._left:
            return target.node if isinstance(target.node, bool) and depth else {}
        self._left -= size
        made: dict[str, Any] = {}
        for name, value in members.items():
            if name in _INNER:
                converted = self._convert_inner(name, Target(value, target.scope), depth + 1)
                # "not" and "if" would refuse more values if anything in them was left out.
                if converted is not None and (name not in ("not", "if") or converted == value):
                    made[name] = converted
            elif name in ("$ref", "$dynamicRef") and isinstance(value, str):
                made["$ref"] = self._refer(value, target)
            elif name == "description" and isinstance(value, str):
                made[name] = target.text(name, 2_000)
            elif name in TABLES.kept and (data := _encode_small(name, value)):
                made[name] = msgspec.json.decode(data)
                self._left -= count_members(value, _MAX_MEMBERS) - 1
        _drop_invalid(made)
        if "additionalProperties" in made and not all(map(_is_pattern, target.get("patternProperties").members)):
            del made["additionalProperties"]
        _convert_keywords(made, members)
        if "properties" in made or "required" in made:
            self._drop_hidden(made, target)
        return made

    def _drop_hidden(self, made: dict[str, Any], target: Target) -> None:
        """Leave out the properties that are for the other direction only, and do not require them."""
        hiding, required = "writeOnly" if self._output else "readOnly", made.get("required")
        telling = {hiding, "$ref"}
        for part in (target, *(self._document.follow(each) for each in target.get("allOf").items if required)):
            for name, value in part.get("properties").members.items():
                inner = Target(value, part.scope)
                if not telling.isdisjoint(inner.members) and self._document.follow(inner).members.get(hiding) is True:
                    made.get("properties", {}).pop(name, None)
                    if required:
                        required = made["required"] = [each for each in required if each != name]

    def _convert_inner(self, name: str, inner: Target, depth: int) -> Any:
        """Convert a keyword whose value is a schema, a list of schemas, or schemas by name; ``None`` for no value."""
        if _INNER[name] == "named":
            return {
                key.encode(errors="replace").decode(): self.convert(Target(each, inner.scope), depth)
                for key, each in inner.members.items()
                if name != "patternProperties" or _is_pattern(key)
            }
        if _INNER[name] == "list":
            return [self.convert(each, depth) for each in inner.items] or None
        # Answers may get members that the document does not name yet.
        is_open = inner.node is False and self._output and name == "additionalProperties"
        return self.convert(inner, depth) if isinstance(inner.node, dict | bool) and not is_open else None

    def close(self, schema: dict[str, Any]) -> dict[str, Any]:
        """Return the schema with the definitions that it needs; those that make it too large may be anything."""
        left = self._most - count_members(schema, self._most)
        found: dict[str, Any] = {}
        pending = deque(self._uses.values())
        while pending:
            each = pending.popleft()
            if each.name in found:
                continue
            if each.schema is None:
                self.begin()
                each.schema, each.uses = self.convert(each.target), self._uses
                each.size = count_members(each.schema, MAX_INPUT)
            left -= 1
            if each.size > left:
                found[each.name] = {"description": "Not described here, since the whole would be too long."}
                continue
            left -= each.size
            found[each.name] = each.schema
            pending.extend(each.uses.values())
        return {**schema, "$defs": found} if found else schema

    def _refer(self, reference: str, target: Target) -> str:
        found = self._document.resolve(reference, target.scope, "a schema")
        if (definition := self._definitions.get(id(found.node))) is None:
            start = re.sub(r"[^A-Za-z0-9_.-]+", "_", reference.rpartition("/")[2]).strip("_")[:64] or "schema"
            name = start
            while name in self._names:
                self._names[start] += 1
                name = f"{start}_{self._names[start]}"
            self._names[name] = 1
            definition = self._definitions[id(found.node)] = Definition(name, found)
        self._uses[definition.name] = definition
        return f"#/$defs/{definition.name}"


def _convert_keywords(made: dict[str, Any], schema: dict[str, Any]) -> None:
    """Convert what only OpenAPI has, most of it in 3.0."""
    for bound in ("Minimum", "Maximum"):
        # A boolean in 3.0, where it changes the meaning of the bound beside it.
        if schema.get(f"exclusive{bound}") is True and bound.lower() in made:
            made[f"exclusive{bound}"] = made.pop(bound.lower())
    if isinstance(example := schema.get("example"), str | int | float) and (data := _encode_small("example", example)):
        made.setdefault("examples", [msgspec.json.decode(data)])
    if schema.get("format") == "binary":
        # JSON has no bytes: in arguments they are base64, and are sent as the bytes themselves.
        made.pop("format", None)
        made.setdefault("contentEncoding", "base64")
    if "oneOf" in made:
        # Several may fit where a discriminator decides, or once something was left out of them.
        choices = {"anyOf": made.pop("oneOf")}
        made |= {"allOf": [*made.get("allOf", ()), choices]} if "anyOf" in made else choices
    if schema.get("nullable") is not True:
        return
    kinds = made.get("type", "null")
    if "null" not in kinds:
        made["type"] = [*([kinds] if isinstance(kinds, str) else kinds), "null"]
    if "enum" in made and None not in made["enum"]:
        made["enum"] = [*made["enum"], None]
    if inner := {name: made.pop(name) for name in ("$ref", "allOf", "anyOf", "not", "const") if name in made}:
        made["anyOf"] = [inner, {"type": "null"}]


def _encode_small(name: str, value: Any) -> bytes:
    """Return the JSON of a value that is kept, else nothing: some readers would take "$ref" in one for a reference."""
    if isinstance(value, list | dict) and count_members(cast("object", value), _MAX_MEMBERS) > _MAX_MEMBERS:
        return b""
    # A mapping that others have read may hold dates, and text that is not Unicode.
    data = encode_value(cast("object", value))
    is_fit = name != "pattern" or (isinstance(value, str) and _is_pattern(value))
    is_odd = data[:1] in b"[{" and (b'"$ref"' in data or too_deep(data, _MAX_SCHEMA_DEPTH))
    return data if is_fit and not is_odd and len(data) <= _MAX_BYTES.get(name, 2_000) else b""


def _drop_invalid(made: dict[str, Any]) -> None:
    """Leave out the keywords whose values are of a wrong type."""
    own = {name: value for name, value in made.items() if name in TABLES.kept}
    for name, value in () if jsonschema_rs.meta.is_valid(own) else own.items():
        if not jsonschema_rs.meta.is_valid({name: value}):
            del made[name]


@lru_cache(maxsize=4_096)
def _is_pattern(pattern: str) -> bool:
    """Return whether the validator can compile a pattern; those of other dialects of regular expressions may differ."""
    try:
        jsonschema_rs.validator_for({"pattern": pattern})
    except (jsonschema_rs.ValidationError, ValueError):
        return False
    return True
