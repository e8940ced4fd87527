"""An OpenAPI document: read, bounded, and with its references resolved.

Owns where a document comes from (a mapping, a file, JSON or YAML text) and what a ``$ref`` leads to; ``referencing``
resolves the references. A document is hostile: what the chosen operations reach is walked once, without recursion, and
bounded in size and depth before anything is made of it. No reference is fetched unless the caller gave a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.errors import ConfigError
from antiphon.machine.files import open_file
from antiphon.machine.front_matter import read_yaml
from antiphon.machine.public_names import describe_install

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

# The values of these keywords are data, in which "$ref" means nothing, or are not used here.
_UNUSED = frozenset({"example", "examples", "default", "enum", "const", "links", "callbacks"})
_NAMED = frozenset({"properties", "patternProperties", "dependentSchemas", "$defs", "definitions"})
"""Keywords that hold schemas by name."""


class Scope:
    """What references are relative to: one document, or a part of it that has a base URI of its own."""

    __slots__ = ("known", "resolver", "root")

    def __init__(self, resolver: Any, root: Any) -> None:
        self.resolver, self.root = resolver, root
        self.known: dict[str, Target] = {}


class Target:
    """A part of a document, and the scope of the references in it."""

    __slots__ = ("node", "scope")

    def __init__(self, node: Any, scope: Scope) -> None:
        self.node, self.scope = node, scope

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
        root, base = _read_document(document)
        version = root.get("openapi")
        # YAML has 3.1 as a number.
        if not str(version).startswith("3."):
            found = f"swagger {root['swagger']!r}" if "swagger" in root else f"openapi {version!r}"
            raise ConfigError(f"from_openapi() reads OpenAPI 3; this document says {found:.50}: convert it first")
        self._references, self._retrieved = references, dict[str, Any]()
        registry: Any = Registry(retrieve=cast("Any", self._retrieve))
        self.root = Target(root, Scope(registry.with_resource(base, _make_resource(root)).resolver(base), root))
        self._seen: set[int] = set()

    def follow(self, target: Target, place: str) -> Target:
        """Return what a Reference Object stands for, or the target itself.

        Raises ``ConfigError``, which begins with ``place``, for a reference that leads nowhere.
        """
        for _ in range(_MAX_HOPS):
            reference = target.members.get("$ref")
            if not isinstance(reference, str):
                return target
            target = self.resolve(reference, target.scope, place)
        raise ConfigError(f"{place}: more than {_MAX_HOPS} references in a row, at {target.members['$ref']!r:.200}")

    def resolve(self, reference: str, scope: Scope, place: str) -> Target:
        """Return what a reference leads to; ``ConfigError`` if that is nothing, or outside and not allowed."""
        found = scope.known.get(reference)
        if found is None:
            try:
                resolved = scope.resolver.lookup(reference)
                root = resolved.resolver.lookup("#").contents
            except Exception as error:
                # What the library raises has no common class; a hostile pointer ends in ValueError and TypeError, too.
                cause: BaseException | None = error
                while cause is not None and not isinstance(cause, ConfigError):
                    cause = cause.__cause__
                why = (
                    cause or f"leads nowhere ({type(error).__name__}): mend it, or leave the operation out by include="
                )
                raise ConfigError(f"{place}: $ref {reference!r:.200} {why}") from None
            # Most references stay in their document. They share its scope, so that each is looked up only once.
            found = Target(resolved.contents, scope if root is scope.root else Scope(resolved.resolver, root))
            scope.known[reference] = found
        return found

    def check(self, targets: Iterable[Target], place: str) -> None:
        """Walk over all that these parts reach, once; ``ConfigError`` for a bound or a reference to nothing."""
        pending = [(target.node, target.scope, 1, False) for target in targets]
        while pending:
            node, scope, depth, named = pending.pop()
            if node.__class__ not in (dict, list) or id(node) in self._seen:
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
                if value.__class__ in (dict, list):
                    if named or not (name in _UNUSED or name.startswith("x-")):
                        pending.append((value, scope, depth + 1, not named and name in _NAMED))
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
            self._retrieved[uri] = _make_resource(_read_document(document)[0])
        return self._retrieved[uri]


def _make_resource(contents: dict[str, Any]) -> Any:
    """Return a document for ``referencing``, which knows JSON Schemas but not where OpenAPI has them."""
    from referencing import Specification
    from referencing.jsonschema import DRAFT202012

    known: Any = DRAFT202012
    schemas = Target(contents, cast("Any", None)).get("components").get("schemas").members.values()
    return Specification[Any](
        "OpenAPI",
        known.id_of,
        lambda node: [*known.subresources_of(node), *(schemas if node is contents else ())],
        known.maybe_in_subresource,
        lambda _, node: known.anchors_in(node),
    ).create_resource(contents)


def _read_document(document: Any) -> tuple[dict[str, Any], str]:
    """Return a document, and its URI if it is a file."""
    base = ""
    if isinstance(document, PathLike) or (isinstance(document, str) and not re.search(r"[\n{]", document)):
        path = Path(cast("PathLike[str] | str", document))
        if path.parts[:1] in (("http:",), ("https:",)):
            raise ConfigError(f"{str(path)!r:.200} is not fetched: give its text, as in httpx.get(url).text")
        try:
            with open_file(path) as file:
                document, base = file.read(MAX_TEXT + 1), path.resolve().as_uri()
        except OSError as error:
            raise ConfigError(f"OpenAPI document {str(path)!r:.200}: cannot be read: {error.strerror}") from None
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
    return dict(cast("Mapping[str, Any]", document)), base
