"""Faults at places of JSON values that a server made, and bounded walks over such values.

Nothing here recurs: a value may be nested deeper than the stack of the interpreter.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeGuard

from antiphon.check.findings import Finding, excerpt_of

MAX_OF_RULE = 20
"""Most findings of one rule: a generated list of tools has the same fault everywhere."""
MAX_NODES = 20_000
"""Most members and items of one definition that are looked at; the largest real ones have some thousands."""


class PlacedFault(NamedTuple):
    """A broken rule, where in a definition, and what was there."""

    rule: str
    path: str
    seen: str


class JsonText(NamedTuple):
    """A text anywhere in a value, and its path."""

    path: str
    text: str
    is_name: bool = False
    """Whether the text is itself the name of a member."""


def is_object(value: object) -> TypeGuard[dict[str, Any]]:
    """Return whether a value is an object."""
    return isinstance(value, dict)


def is_list(value: object) -> TypeGuard[list[Any]]:
    """Return whether a value is a list."""
    return isinstance(value, list)


def is_number(value: object) -> TypeGuard[float]:
    """Return whether a value is a number; ``true`` is none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


FITS: Mapping[str, Callable[[object], bool]] = {
    "string": lambda value: isinstance(value, str),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
    "object": is_object,
    "array": is_list,
    "number": is_number,
    "integer": lambda value: is_number(value) and value % 1 == 0,
}
"""Whether a value has a type of JSON Schema."""


def read_object(value: object) -> dict[str, Any]:
    """Return an object, or an empty one for anything else."""
    return value if is_object(value) else {}


def read_list(value: object) -> list[Any]:
    """Return a list, or an empty one for anything else."""
    return value if is_list(value) else []


def describe_json(value: object) -> str:
    """Say what a value is without its contents, which may have any size."""
    if isinstance(value, str):
        return excerpt_of(value)
    if value is None or isinstance(value, bool | int | float):
        return excerpt_of(f"{value!r:.60}".replace("None", "null"))
    return f"an object of {len(read_object(value))}" if is_object(value) else f"a list of {len(read_list(value))}"


def join_path(path: str, step: str | int) -> str:
    """Add a member or an index to a path."""
    if isinstance(step, int):
        return f"{path}[{step}]"
    return f"{path}.{step[:80]}" if path else step[:80]


def walk_json(value: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Yield a value and all within it, at most ``MAX_NODES``, each with its path; outer ones first."""
    pending: list[tuple[str, object]] = [(path, value)]
    left = MAX_NODES
    while pending and left > 0:
        place, node = pending.pop()
        left -= 1
        yield place, node
        inner = enumerate(read_list(node)) if is_list(node) else read_object(node).items()
        # Paths stay short, because a value of one nested member in another would make them long.
        steps = [(join_path(place[-400:], step), each) for (step, each), _ in zip(inner, range(left), strict=False)]
        pending += reversed(steps)


def list_json_texts(value: object, path: str = "") -> Iterator[JsonText]:
    """Yield every text of a value, the names of members included."""
    for place, node in walk_json(value, path):
        if isinstance(node, str):
            yield JsonText(place, node)
        for name, _ in zip(read_object(node), range(MAX_NODES), strict=False):
            yield JsonText(join_path(place, name), name, is_name=True)


def place_faults(faults: Iterable[PlacedFault], place: str, revision: str) -> Iterator[Finding]:
    """Make findings of the faults of one definition."""
    for rule, path, seen in faults:
        yield Finding(rule=rule, place=f"{place} {path}".rstrip(), seen=excerpt_of(seen), revision=revision)


def limit_findings(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield at most ``MAX_OF_RULE`` findings of each rule."""
    counted: Counter[str] = Counter()
    for finding in findings:
        counted[finding.rule] += 1
        if counted[finding.rule] <= MAX_OF_RULE:
            yield finding
