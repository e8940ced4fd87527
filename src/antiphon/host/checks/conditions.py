"""Conditions of rules, in CEL: which ones are allowed, and what they cost at most.

Owns the bounds. ``common-expression-language`` evaluates; it knows no limits and holds the interpreter, so a condition
is weighed when it is read, and the arguments of a call before each use. It is loaded when the first condition is read.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from functools import lru_cache
from typing import Any, cast

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.checks.labels import Label
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.machine.public_names import describe_install
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams, ToolAnnotations

MOST_COUNTED = 100
"""Most tools of one principal whose calls are counted; a condition may look at each of them."""
MAX_ITEMS = 1_000
"""Most objects, lists and single values in the arguments of a call."""
MAX_BYTES = 64 * 1024
"""Most bytes of the arguments as JSON."""
MAX_DEPTH = 20
"""Deepest nesting of the arguments; the library copies what lies below each step of a path."""
MAX_CONDITION = 2_000
"""Most characters of a condition."""
MAX_PATTERN = 100
"""Most characters of a regular expression, which is compiled at each use."""
_MATCHED = 4_000
"""Most bytes of arguments for one ``matches``: the slowest patterns take 0.7 microseconds for each."""
_BUDGET = 120_000
"""Most units of one evaluation, of at most 40 ns each: together below 5 ms."""
_MACRO = 60
"""Units for one item that a macro visits."""
_MAX_SUMS = 10
"""Most additions: texts are added by copying them."""

VARIABLES = ("tool", "args", "annotations", "server", "principal", "time", "calls", "labels", "session", "links")
"""The names that a condition may use."""

_MACROS = ("all", "exists", "exists_one")
_FUNCTIONS = (*_MACROS, "size", "contains", "startsWith", "endsWith", "matches", "has", "type", "int", "double")
_TYPES = ("bool", "int", "double", "string", "list", "map", "null_type")
_WORDS = ("true", "false", "null", "in")
_TOKEN = re.compile(
    r"""(?:\s|//[^\n]*)+|(?P<text>[rR]"[^"\n]*"|[rR]'[^'\n]*'|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*')"""
    r"""|(?P<word>[A-Za-z_]\w*)|(?P<number>\d[\w.]*)|(?P<sign>.)""",
    re.DOTALL,
)
_HEAVY = re.compile(r"\\[wWdDsSpPbB]|\{")
_INTEGERS = range(-(2**63), 2**63)


class Unclear(Exception):
    """Whether a condition holds cannot be found out; the text says why."""


class _Tokens:
    """The words and signs of a condition, and what stands in its macros."""

    def __init__(self, text: str) -> None:
        self.kinds: list[str] = []
        self.texts: list[str] = []
        for found in _TOKEN.finditer(text):
            if found.lastgroup is not None:
                self.kinds.append(found.lastgroup)
                self.texts.append(found[0])
        self.in_macro = [False] * len(self.texts)
        self.bound: set[str] = set()
        self.macros = 0
        for at in range(len(self.texts)):
            if self.is_call(at) and self.texts[at] in _MACROS:
                self._enter_macro(at)

    def is_call(self, at: int) -> bool:
        """Return whether a function is called here."""
        return self.kinds[at] == "word" and self.texts[at + 1 : at + 2] == ["("]

    def is_member(self, at: int) -> bool:
        """Return whether a member of another value is named here."""
        return at > 0 and self.texts[at - 1] == "."

    def _enter_macro(self, at: int) -> None:
        if self.in_macro[at]:
            raise ValueError(f"{self.texts[at]}() stands within another macro: write two rules, or one list")
        self.macros += 1
        self.bound.add("".join(self.texts[at + 2 : at + 3]))
        depth = 0
        for inner in range(at + 1, len(self.texts)):
            depth += (self.texts[inner] in ("(", "[", "{")) - (self.texts[inner] in (")", "]", "}"))
            if depth == 0:
                return
            self.in_macro[inner] = True


class Condition:
    """A condition that was compiled once, and is evaluated for each call."""

    def __init__(self, text: str) -> None:
        """Check and compile the text; raise ``ValueError`` if it is no condition, or may cost too much."""
        try:
            import cel
        except ImportError:
            raise ConfigError(f'a rule with "when" needs more packages: {describe_install("host")}') from None
        if len(text) > MAX_CONDITION:
            raise ValueError(f"a condition has at most {MAX_CONDITION} characters: write two rules")
        if '"""' in text or "'''" in text:
            raise ValueError("a text stands in single or double quotes")
        self._program: Any = _call_library(lambda: cel.compile(text), "not CEL")
        tokens = _Tokens(text)
        self._matches = _check_calls(tokens, cel.compile)
        _check_names(tokens)
        outer = tokens.in_macro.count(False)
        self._per_item = outer + tokens.macros * _MACRO + 2 * (len(tokens.texts) - outer)
        self._tokens = len(tokens.texts)
        self.names = frozenset(VARIABLES).intersection(
            word for at, word in enumerate(tokens.texts) if tokens.kinds[at] == "word" and not tokens.is_member(at)
        )
        """The variables that it uses."""

    def holds(self, facts: CallFacts) -> bool:
        """Return whether the condition holds for a call; raise ``Unclear`` if that cannot be found out in time."""
        items, size = facts.size(self.names)
        if self._matches and size > _MATCHED // self._matches:
            raise Unclear(f"matches() takes at most {_MATCHED // self._matches} bytes of arguments here")
        if items * self._per_item + size * self._tokens // 100 > _BUDGET:
            raise Unclear("the arguments are too large for this condition")
        result = _call_library(
            lambda: self._program.execute({name: facts.value(name) for name in self.names}), "", Unclear
        )
        if not isinstance(result, bool):
            raise Unclear("it is neither true nor false")
        return result


read_condition = lru_cache(1_024)(Condition)
"""Compiles a condition, each text once."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """What conditions may depend on besides the call itself."""

    now: datetime = msgspec.field(default_factory=lambda: datetime.now().astimezone())
    """The time on this machine; default now."""
    calls: Mapping[str, int] = {}
    """How often each tool was let pass before, for the same principal."""
    flowed: frozenset[Label] = frozenset()
    """The labels of what the session has read."""
    links: tuple[str, ...] = ()
    """Web addresses that the session has read, but not from what its model may have written."""
    given: frozenset[Label] | None = None
    """The labels that a person gave the tool; ``None`` for none."""
    is_known: bool = False
    """Whether the tool was allowed before."""


class CallFacts:
    """The values of all variables for one call; those that take work are made when they are first used."""

    def __init__(
        self, params: CallToolRequestParams, origin: Origin, situation: Situation, labels: Iterable[str] = ()
    ) -> None:
        self._params = params
        self._origin = origin
        self._situation = situation
        self._items: int | str | None = None
        self._values: dict[str, object] = {
            "tool": params.name,
            "principal": origin.principal or "",
            "calls": dict(situation.calls),
            "labels": sorted(labels),
            "session": sorted(situation.flowed),
            "links": list(situation.links),
        }

    def size(self, names: frozenset[str]) -> tuple[int, int]:
        """Return how many values and bytes the arguments have; raise ``Unclear`` if they are beyond the bounds."""
        calls = self._situation.calls if "calls" in names else ()
        links = self._situation.links if "links" in names else ()
        if len(calls) > MOST_COUNTED:
            raise Unclear("more tools were called than are counted")
        if "tool" in names and len(self._params.name) > MAX_CONDITION:
            raise Unclear("the name of the tool is too long")
        if self._items is None:
            try:
                self._values["args"] = arguments = _decode_arguments(self._params.arguments)
                self._items = _count_values(arguments)
            except Unclear as error:
                self._items = str(error)
        if isinstance(self._items, str):
            raise Unclear(self._items)
        return max(self._items, len(calls), len(links)), len(self._params.arguments) + sum(map(len, links))

    def value(self, name: str) -> object:
        """Return the value of a variable."""
        if name not in self._values:
            self._values[name] = getattr(self, f"_{name}")()
        return self._values[name]

    def _annotations(self) -> dict[str, bool]:
        # The defaults are those of the specification (2025-11-25, ToolAnnotations).
        said = self._origin.tool.annotations if self._origin.tool is not None else None
        hints = ToolAnnotations() if said is None else said
        return {
            "readOnlyHint": hints.read_only_hint is True,
            "destructiveHint": hints.destructive_hint is not False,
            "idempotentHint": hints.idempotent_hint is True,
            "openWorldHint": hints.open_world_hint is not False,
        }

    def _server(self) -> dict[str, str]:
        origin = self._origin
        name = origin.server.name[:_MATCHED] if origin.server is not None else ""
        return {"identity": origin.identity, "target": origin.target[:_MATCHED], "name": name}

    def _time(self) -> dict[str, object]:
        now = self._situation.now
        return {"hour": now.hour, "minute": now.minute, "weekday": now.isoweekday(), "date": now.date().isoformat()}


def read_grant_condition(when: str) -> Condition:
    """Compile the condition of a grant; raise ``ValueError`` if it is none, or depends on more than the call itself."""
    condition = read_condition(when)
    if beyond := condition.names & {"calls", "labels", "session", "links"}:
        raise ValueError(f"only a rule can use {', '.join(sorted(beyond))}")
    return condition


def holds_for(when: str, params: CallToolRequestParams, origin: Origin) -> bool:
    """Return whether a call meets the condition of a grant; one about which that is unclear does not."""
    try:
        return read_grant_condition(when).holds(CallFacts(params, origin, Situation()))
    except (Unclear, ValueError):
        return False


def _decode_arguments(raw: msgspec.Raw) -> object:
    """Decode the arguments. A name that stands twice would let the server read another value than the condition."""
    if len(raw) > MAX_BYTES:
        raise Unclear(f"the arguments have more than {MAX_BYTES:,} bytes")
    try:
        return json.loads(bytes(raw) or b"{}", object_pairs_hook=_refuse_repeats)
    except (ValueError, RecursionError):
        raise Unclear("the arguments cannot be read") from None


def _refuse_repeats(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise Unclear("an argument is given twice")
    return members


def _count_values(arguments: object) -> int:
    items = 0
    level: list[object] = [arguments]
    for _ in range(MAX_DEPTH):
        below: list[object] = []
        for value in level:
            items += 1
            if isinstance(value, dict):
                below += cast("dict[str, object]", value).values()
            elif isinstance(value, list):
                below += cast("list[object]", value)
            elif not isinstance(value, str):
                _check_number(value)
            if items + len(below) > MAX_ITEMS:
                raise Unclear(f"the arguments have more than {MAX_ITEMS:,} values")
        if not below:
            return items
        level = below
    raise Unclear(f"the arguments are nested more than {MAX_DEPTH} deep")


def _check_number(value: object) -> None:
    if isinstance(value, int) and value not in _INTEGERS:
        raise Unclear("an argument is a number beyond 64 bits")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unclear("an argument is not a finite number")


def _call_library(work: Any, what: str, kind: type[Exception] = ValueError) -> Any:
    """Call the library; whatever it raises, a panic of its own included, becomes an error of one kind."""
    try:
        return work()
    except Exception as error:
        reason = f"{error.args[0]!r} is absent" if isinstance(error, KeyError) else str(error).partition("\n")[0][:200]
        raise kind(f"{what}: {reason}" if what else reason) from None
    except BaseException as error:
        # pyo3_runtime.PanicException is no Exception.
        if type(error).__name__ != "PanicException":
            raise
        raise kind("the library has failed") from None


def _check_calls(tokens: _Tokens, compile_text: Callable[[str], Any]) -> int:
    """Check the functions, and return how often ``matches`` is called."""
    matches = 0
    for at, name in enumerate(tokens.texts):
        if not tokens.is_call(at) or name in _WORDS:
            continue
        if name not in _FUNCTIONS:
            raise ValueError(f"there is no function {name}(); {suggest_similar(name, [*_FUNCTIONS])}")
        if name == "matches":
            matches += 1
            _check_pattern(tokens, at, compile_text)
    if tokens.texts.count("+") > _MAX_SUMS:
        raise ValueError(f"a condition adds at most {_MAX_SUMS} times")
    return matches


def _check_pattern(tokens: _Tokens, at: int, compile_text: Callable[[str], Any]) -> None:
    pattern = "".join(tokens.texts[at + 2 : at + 3])
    if tokens.in_macro[at]:
        raise ValueError("matches() stands within a macro, where it is compiled for each item: compare another way")
    if tokens.kinds[at + 2 : at + 3] != ["text"] or tokens.texts[at + 3 : at + 4] != [")"]:
        raise ValueError('matches() takes a pattern in quotes: args.to.matches("@example[.]com$")')
    if len(pattern) > MAX_PATTERN or _HEAVY.search(pattern):
        raise ValueError(
            f"a pattern has at most {MAX_PATTERN} characters, without {{n}} and classes like \\w: write [a-zA-Z0-9_]"
        )
    _call_library(lambda: compile_text(f'"".matches({pattern})').execute(), "the pattern cannot be read")


def _check_names(tokens: _Tokens) -> None:
    for at, name in enumerate(tokens.texts):
        if tokens.kinds[at] != "word" or tokens.is_member(at) or tokens.is_call(at) or name in (*_WORDS, *_TYPES):
            continue
        if tokens.in_macro[at] and name in ("args", "calls", "links"):
            raise ValueError(f"{name} stands within a macro: there, only the item and short values are compared")
        if name not in VARIABLES and not (tokens.in_macro[at] and name in tokens.bound):
            raise ValueError(f"there is no {name}; {suggest_similar(name, [*VARIABLES])}")
    if tokens.in_macro.count(True) and "+" in (text for at, text in enumerate(tokens.texts) if tokens.in_macro[at]):
        raise ValueError("a macro adds nothing: compare its items as they are")
