"""The names in ``src`` are words that a newcomer reads once: bounds on the kinds of names that need a second reading.

Names of the public API are promises, and names of methods that implement or override another are not ours to choose:
both are left out, as are the few names listed here.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.public_surface import public

SRC = Path(__file__).parents[1] / "src" / "antiphon"

MAX_CLASS_NAMES_TWICE = 8
MAX_MODULE_NAMES_TWICE = 6
MAX_ONE_WORD = 0.07
MAX_PARTICIPLES = 0.03
"""What there is today, and no more; of participles what the words of this project allow."""

PLAIN_FOLDERS = ("cli/commands", "transports/stdio", "transports/sse", "transports/websocket", "wire")
"""Folders that make a module's name plain: one file a command, two sides of each transport, a feature's messages."""

COMMANDS = {"command", "main", "run"}
"""Functions that a command line or a process starts by a word of its own."""

IRREGULAR = frozenset(
    [
        "asleep",
        "begun",
        "bound",
        "bought",
        "broken",
        "brought",
        "built",
        "caught",
        "chosen",
        "cut",
        "dealt",
        "done",
        "drawn",
        "driven",
        "fallen",
        "fed",
        "felt",
        "forgotten",
        "found",
        "given",
        "gone",
        "grown",
        "held",
        "hidden",
        "hit",
        "kept",
        "known",
        "laid",
        "led",
        "left",
        "lent",
        "lost",
        "made",
        "meant",
        "met",
        "paid",
        "put",
        "read",
        "rewritten",
        "said",
        "seen",
        "sent",
        "set",
        "shown",
        "sold",
        "spent",
        "spoken",
        "spread",
        "stood",
        "stolen",
        "sworn",
        "taken",
        "thought",
        "thrown",
        "told",
        "understood",
        "undone",
        "unread",
        "withdrawn",
        "won",
        "worn",
        "wound",
        "written",
    ]
)
VERBS = frozenset(["bind", "bound", "cut", "find", "hit", "put", "read", "set", "spread"])
"""Forms that are the verb, too: right before an object, and as the name of a store's operation."""

NO_PARTICIPLES = frozenset(
    ["bed", "embed", "exceed", "feed", "indeed", "need", "proceed", "red", "seed", "shed", "speed", "succeed"]
)


@dataclass(frozen=True, slots=True)
class Named:
    """A class, function or method of ``src``."""

    name: str
    kind: str
    place: str
    fixed: bool
    """Public, or of a class that others define the methods of."""

    @property
    def words(self) -> list[str]:
        """The words of the name, without underscores around it."""
        return self.name.strip("_").split("_")


@cache
def _public_names() -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in public())


def _names_in(path: Path) -> Iterator[Named]:
    module = path.relative_to(SRC).as_posix()

    def walk(node: ast.AST, kind: str, *, fixed: bool) -> Iterator[Named]:
        for child in ast.iter_child_nodes(node):
            match child:
                case ast.FunctionDef() | ast.AsyncFunctionDef():
                    stays = (
                        child.name.startswith("__") or fixed or (kind == "function" and child.name in _public_names())
                    )
                    yield Named(child.name, kind, f"{module}:{child.lineno}", stays)
                    yield from walk(child, "function", fixed=False)
                case ast.ClassDef():
                    yield Named(child.name, "class", f"{module}:{child.lineno}", fixed=child.name in _public_names())
                    inherits = bool(child.bases) and not child.name.startswith("_Row")
                    yield from walk(child, "method", fixed=inherits or child.name in _public_names())
                case _:
                    yield from walk(child, kind, fixed=fixed)

    yield from walk(ast.parse(path.read_text(encoding="utf-8")), "function", fixed=False)


@cache
def _names() -> tuple[Named, ...]:
    return tuple(name for path in sorted(SRC.rglob("*.py")) for name in _names_in(path))


def is_participle(name: str) -> bool:
    """Return whether a name is, or begins with, a past participle that stands for no verb."""
    first, *others = name.strip("_").split("_")
    if others and first in VERBS:
        return False
    return first in IRREGULAR or (bool(re.fullmatch(r"[a-z]{2,}ed", first)) and first not in NO_PARTICIPLES)


def test_a_participle_is_told_from_a_verb():
    """Verbs that end alike, or have an object, are no participles."""
    assert [name for name in ("kept", "_shown", "redefined", "listed", "found_by") if not is_participle(name)] == []
    assert [name for name in ("feed", "need", "speed_up", "read_header", "list_kept") if is_participle(name)] == []


def test_a_class_name_stands_once():
    """Two classes of one name are taken for each other."""
    places: dict[str, set[str]] = defaultdict(set)
    for one in _names():
        if one.kind == "class":
            places[one.name].add(one.place.partition(":")[0])
    twice = {name: sorted(where) for name, where in places.items() if len(where) > 1}
    assert len(twice) <= MAX_CLASS_NAMES_TWICE, f"rename all but one of each: {twice}"


def test_a_module_name_stands_once():
    """Unless its folder makes it plain: it is a package, or in one of ``PLAIN_FOLDERS``."""
    places: dict[str, list[str]] = defaultdict(list)
    for path in sorted(SRC.rglob("*.py")):
        place = path.relative_to(SRC).as_posix()
        if path.name not in {"__init__.py", "__main__.py"} and not place.startswith(PLAIN_FOLDERS):
            places[path.stem].append(place)
    twice = {name: where for name, where in places.items() if len(where) > 1}
    assert len(twice) <= MAX_MODULE_NAMES_TWICE, f"rename all but one of each: {twice}"


def test_functions_are_named_by_a_verb_and_its_object():
    """One word is right where the class is the object; a function of a module has no class, nor has a nested one."""
    functions = [one for one in _names() if one.kind == "function" and not one.fixed and one.name not in COMMANDS]
    short = [f"{one.name} ({one.place})" for one in functions if len(one.words) == 1]
    share = len(short) / len(functions)
    assert share <= MAX_ONE_WORD, f"{share:.0%} of the functions have one word: {', '.join(short)}"


def test_few_names_are_participles():
    """``kept`` says neither what is done nor to what: ``list_kept_calls`` does."""
    names = [one for one in _names() if one.kind != "class" and not one.fixed]
    participles = [f"{one.name} ({one.place})" for one in names if is_participle(one.name)]
    share = len(participles) / len(names)
    assert share <= MAX_PARTICIPLES, f"{share:.1%} of the names are participles: {', '.join(participles)}"
