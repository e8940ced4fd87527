"""Validation against a JSON Schema that somebody wrote by hand.

Owns what such a schema may be: bounded, self-contained, of a known dialect. The validation itself is jsonschema-rs',
which is loaded when the first schema is compiled.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NoReturn

from antiphon.errors import ConfigError
from antiphon.json_schema.mismatch import MismatchError, describe

__all__ = ["DIALECTS", "MAX_DEPTH", "MAX_NODES", "SchemaValidator"]

DIALECTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema",
    }
)
"""What ``$schema`` may name; without it, 2020-12 holds (2025-11-25 basic, JSON Schema usage)."""

MAX_DEPTH = 64
"""Deepest nesting of a schema. The MCP specification asks for a bound; its own largest schema nests 15 deep."""

MAX_NODES = 10_000
"""Most objects and arrays in one schema. The MCP specification's own schema has about 3,000."""

_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class SchemaValidator:
    """A compiled schema.

    ``place`` begins every ``ConfigError``: the schema is not valid, too large or deep, of an unknown dialect, or
    refers to something outside of itself ("MUST NOT automatically dereference" network addresses). With ``lazy`` only
    the bounds are checked now, and the rest when ``check`` is first called.
    """

    __slots__ = ("_compiled", "_place", "_schema")

    def __init__(self, schema: Mapping[str, Any], *, place: str, lazy: bool = False) -> None:
        self._schema = schema
        self._place = place
        _refuse_unbounded(schema, place)
        self._compiled: Any = None if lazy else self._compile()

    def check(self, instance: Any) -> None:
        """Raise ``MismatchError``, which names the first place, if ``instance`` (plain JSON values) does not fit."""
        if self._compiled is None:
            self._compiled = self._compile()
        for error in self._compiled.iter_errors(instance):
            raise MismatchError(describe(error))

    def _compile(self) -> Any:
        import jsonschema_rs

        try:
            return jsonschema_rs.validator_for(dict(self._schema), retriever=_refuse_retrieval)
        except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
            problem = str(getattr(error, "message", error)).splitlines()[0]
            raise ConfigError(f"{self._place}: not a valid JSON Schema: {problem}") from None


def _refuse_retrieval(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema")


def _refuse_unbounded(schema: Mapping[str, Any], place: str) -> None:
    dialect = schema.get("$schema")
    if dialect is not None and str(dialect).removesuffix("#") not in DIALECTS:
        raise ConfigError(f"{place}: unknown JSON Schema dialect {dialect!r}; known: {', '.join(sorted(DIALECTS))}")
    for count, (node, depth) in enumerate(_nodes(schema), 1):
        if depth > MAX_DEPTH or count > MAX_NODES:
            limit = f"deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else f"larger than {MAX_NODES} nodes"
            raise ConfigError(f"{place}: JSON Schema {limit}")
        if isinstance(node, dict):
            _refuse_remote(node, place)


def _refuse_remote(node: dict[str, Any], place: str) -> None:
    for keyword in _REFERENCES:
        target: Any = node.get(keyword)
        if isinstance(target, str) and _is_remote(target):
            raise ConfigError(f"{place}: {keyword} {target!r} leaves the schema; put the definition under $defs")


def _is_remote(target: str) -> bool:
    """Tell an address from a fragment or from a name that an ``$id`` within the schema may resolve."""
    scheme = target.partition(":")[0].lower()
    return ":" in target and not target.startswith("#") and scheme in ("http", "https", "file", "ftp")


def _nodes(schema: Mapping[str, Any]) -> Iterator[tuple[dict[str, Any] | list[Any], int]]:
    """Walk over all objects and arrays without recursion."""
    pending: list[tuple[dict[str, Any] | list[Any], int]] = [(dict(schema), 1)]
    while pending:
        node, depth = pending.pop()
        yield node, depth
        children: Iterable[Any] = node.values() if isinstance(node, dict) else node
        pending += [(child, depth + 1) for child in children if isinstance(child, dict | list)]
