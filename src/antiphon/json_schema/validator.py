"""Validation against a JSON Schema that a person wrote by hand, or that a peer sent.

Owns what such a schema may be (bounded, self-contained, of a known dialect), and where validation runs: on the event
loop if it is little work, else in a side process, which is killed when it takes too long. ``jsonschema-rs`` validates;
it is loaded when the first schema is compiled.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import lru_cache, reduce
from operator import getitem
from typing import Any, NoReturn, cast

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import ConfigError, TooCostly
from antiphon.json_schema.effort import MAX_MEMBERS, Effort, count_members, walk_nodes, weigh_value

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
        return SchemaMismatch(_shorten_text(f"{place}.{member[2]}" if place else member[2]), "", _KINDS[member[1]])
    problem = re.sub(
        r"`([^`]*)`", lambda found: " or ".join(_JSON_NAMES.get(one, one) for one in found[1].split(" | ")), problem
    )
    problem = re.sub(r"(?<=\d)\.0(?!\d)", "", problem)
    problem = problem[:1].lower() + problem[1:]
    return SchemaMismatch(_shorten_text(place), _shorten_text(f"key: {problem}" if is_key else problem))


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


DIALECTS = frozenset(
    {
        "https://json-schema.org/draft/2020-12/schema",
        "https://json-schema.org/draft/2019-09/schema",
        "http://json-schema.org/draft-07/schema",
        "http://json-schema.org/draft-06/schema",
        "http://json-schema.org/draft-04/schema",
    }
)
"""Accepted values of ``$schema``; without it, 2020-12 applies (2025-11-25 basic, JSON Schema usage)."""

MAX_DEPTH = 64
"""Deepest nesting of a schema. The MCP specification requires a bound; its own largest schema nests 15 deep."""

MAX_NODES = 10_000
"""Most objects and arrays in one schema. The MCP specification's own schema has about 3,000."""

MAX_EXPANSION = 1_000_000
"""Most subschemas that apply to the same value when references are followed. Real schemas have hundreds."""

MAX_EFFORT = 100_000
"""Most subschemas times places of the value for validation on the event loop, where this takes 5 ms at worst."""

_MAX_WEIGHT = 5_000
"""Most places of a value that is validated on the event loop."""

_MAX_VALUE_DEPTH = 24
"""Deepest nesting of such a value."""

_MAX_REASONS = 10_000_000
"""Effort above which an error says that a value does not fit but not why, since each failing branch is one reason."""

_MAX_PATTERN = 100_000
"""Most bytes of a compiled regular expression on the event loop, compiled in 2 ms. Larger ones run in a side
process."""

_RECURS = MAX_EFFORT + 1
"""Stands for the effort of a schema that depends on the nesting of the value."""

_REFERENCES = frozenset({"$ref", "$dynamicRef", "$recursiveRef"})


class SchemaValidator:
    """A compiled schema.

    Raises ``ConfigError``, whose message begins with ``place``, if the schema is invalid, too large or deep, of an
    unknown dialect, or refers to something outside of itself ("MUST NOT automatically dereference" network addresses).
    With ``lazy`` nothing is compiled now, and a schema too large for the event loop is not examined either: the first
    ``check`` then reports its errors.
    """

    __slots__ = ("_compiled", "_constant", "_countable", "_document", "_effort", "_place", "schema")

    def __init__(self, schema: Mapping[str, Any], *, place: str, lazy: bool = False) -> None:
        self.schema: dict[str, Any] = schema if isinstance(schema, dict) else dict(schema)
        self._place = place
        self._compiled: Any = None
        self._constant: int | None = None
        self._document = b""
        self._effort: Effort | None = None
        self._countable = count_members(self.schema, MAX_MEMBERS) <= MAX_MEMBERS
        if self._countable or not lazy:
            _refuse_unbounded(self.schema, place)
        if not lazy:
            # What is compiled for the event loop lacks some regular expressions: then it is compiled to see if it can.
            self._compiled = _compile_here(self.schema, place) if self._countable else None
            if self._compiled is None:
                _compile_schema(self.schema, place)

    async def check(self, instance: Any) -> None:
        """Return if ``instance`` (plain JSON) fits; ``MismatchError`` names a misfit, ``TooCostly`` a limit."""
        if self._is_little(instance):
            _check_instance(self._compiled, instance)
        else:
            await self._check_aside(instance)

    def _is_little(self, instance: Any) -> bool:
        """Return whether a check is little work, and the schema is compiled for it."""
        if not self._countable:
            return False
        if self._effort is None or self._constant is None:
            self._effort = Effort(self.schema)
            self._constant = self._effort.constant() or _RECURS
        # Every place of a value takes at least one byte of JSON, so the size usually decides.
        if self._constant * len(msgspec.json.encode(instance)) > MAX_EFFORT and not self._is_light(instance):
            return False
        if self._compiled is None:
            self._compiled = _compile_here(self.schema, self._place)
        return self._compiled is not None

    def _is_light(self, instance: Any) -> bool:
        """Measure a value, and compare the effort at its nesting with the limit."""
        assert self._effort is not None
        weighed = weigh_value(instance, _MAX_WEIGHT)
        if weighed is None or weighed[1] > _MAX_VALUE_DEPTH:
            _refuse_expanding(self._effort)
            return False
        total = self._effort.total(weighed[1])
        if total is None or total * weighed[0] > MAX_EFFORT:
            _refuse_expanding(self._effort)
            return False
        return True

    async def _check_aside(self, instance: Any) -> None:
        # Imported here, since most schemas need no other process.
        from antiphon.machine.side_process.pool import run_aside

        if not self._document:
            self._document = msgspec.json.encode([self._place, self.schema])
        length = len(self._document).to_bytes(8, "big")
        answer = await run_aside(check_document, length + self._document + msgspec.json.encode(instance))
        outcome = msgspec.json.decode(answer, type=_Outcome)
        if outcome.config:
            raise ConfigError(outcome.config)
        if outcome.costly:
            raise TooCostly(outcome.costly)
        if outcome.mismatch is not None:
            raise MismatchError(outcome.mismatch)


class _Outcome(msgspec.Struct):
    """The result of validation in a side process."""

    mismatch: SchemaMismatch | None = None
    config: str = ""
    costly: str = ""


def check_document(payload: bytes) -> bytes:
    """Validate in a side process. The payload is the length of the schema document, the document, and the value."""
    end = 8 + int.from_bytes(payload[:8], "big")
    outcome = _Outcome()
    try:
        effort, validator = _prepare_schema(payload[8:end])
        instance = msgspec.json.decode(payload[end:])
        if not validator.is_valid(instance):
            _explain_mismatch(effort, validator, instance)
    except MismatchError as error:
        outcome.mismatch = error.mismatch
    except ConfigError as error:
        outcome.config = str(error)
    except TooCostly as error:
        outcome.costly = str(error)
    return msgspec.json.encode(outcome)


@lru_cache(maxsize=8)
def _prepare_schema(document: bytes) -> tuple[Effort, Any]:
    place, schema = msgspec.json.decode(document, type=tuple[str, dict[str, Any]])
    _refuse_unbounded(schema, place)
    effort = Effort(schema)
    _refuse_expanding(effort)
    return effort, _compile_schema(schema, place)


def _explain_mismatch(effort: Effort, validator: Any, instance: Any) -> NoReturn:
    """Report why a value does not fit, unless the reasons would fill the memory."""
    weighed = weigh_value(instance, _MAX_REASONS)
    total = effort.total(min(weighed[1], _MAX_VALUE_DEPTH)) if weighed else None
    if weighed is not None and total is not None and total * weighed[0] <= _MAX_REASONS:
        _check_instance(validator, instance)
    raise MismatchError(SchemaMismatch("", "it does not fit; there is too much of it to say where"))


def _check_instance(validator: Any, instance: Any) -> None:
    import jsonschema_rs

    try:
        validator.validate(instance)
    except jsonschema_rs.ValidationError as error:
        raise MismatchError(describe_mismatch(error)) from None


def _compile_here(schema: dict[str, Any], place: str) -> Any:
    """Compile a schema for the event loop; ``None`` if its regular expressions may take more than linear time."""
    import jsonschema_rs

    try:
        return _compile_schema(schema, place, jsonschema_rs.RegexOptions(size_limit=_MAX_PATTERN))
    except ConfigError:
        keywords = {"pattern", "patternProperties"}
        if any(isinstance(node, dict) and not keywords.isdisjoint(node) for node, _ in walk_nodes(schema)):
            return None
        raise


def _compile_schema(schema: dict[str, Any], place: str, patterns: Any = None) -> Any:
    import jsonschema_rs

    try:
        return jsonschema_rs.validator_for(schema, retriever=_refuse_retrieval, pattern_options=patterns)
    except (jsonschema_rs.ValidationError, jsonschema_rs.ReferencingError, ValueError) as error:
        problem = str(getattr(error, "message", error)).splitlines()[0]
        raise ConfigError(f"{place}: not a valid JSON Schema: {problem}") from None


def _refuse_expanding(effort: Effort) -> None:
    expansion = effort.expansion()
    if expansion is not None and expansion > MAX_EXPANSION:
        raise TooCostly(f"the JSON Schema expands to more than {MAX_EXPANSION} subschemas for one value")


def _refuse_retrieval(uri: str) -> NoReturn:
    raise ValueError(f"{uri} is outside of the schema")


def _refuse_unbounded(schema: Mapping[str, Any], place: str) -> None:
    dialect = schema.get("$schema")
    if dialect is not None and str(dialect).removesuffix("#") not in DIALECTS:
        raise ConfigError(f"{place}: unknown JSON Schema dialect {dialect!r}; known: {', '.join(sorted(DIALECTS))}")
    for count, (node, depth) in enumerate(walk_nodes(schema), 1):
        if depth > MAX_DEPTH or count > MAX_NODES:
            limit = f"deeper than {MAX_DEPTH}" if depth > MAX_DEPTH else f"larger than {MAX_NODES} nodes"
            raise ConfigError(f"{place}: JSON Schema {limit}")
        if isinstance(node, dict) and not _REFERENCES.isdisjoint(node):
            _refuse_remote(node, place)


def _refuse_remote(node: dict[str, Any], place: str) -> None:
    for keyword in sorted(_REFERENCES & node.keys()):
        target: Any = node[keyword]
        # Not a fragment or a name that an ``$id`` in the schema may resolve.
        if isinstance(target, str) and target.lower().startswith(("http:", "https:", "file:", "ftp:")):
            raise ConfigError(f"{place}: {keyword} {target!r} leaves the schema; put the definition under $defs")


def is_same_json(one: object, other: object) -> bool:
    """Return whether two values are the same JSON: 1 is 1.0, as in JavaScript, but not true.

    Raises ``ValueError`` if they nest deeper than 255.
    """
    import jsonschema_rs

    # As "const" compares.
    return jsonschema_rs.is_valid({"const": one}, other)
