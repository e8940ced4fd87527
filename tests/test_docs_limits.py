"""The tables of docs/topics/limits.md and limits-of-the-host.md say what the code says."""

from __future__ import annotations

import inspect
import re
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import msgspec
import pytest

TOPICS = Path(__file__).parent.parent / "docs" / "topics"
PAGES = "".join((TOPICS / name).read_text(encoding="utf-8") for name in ("limits.md", "limits-of-the-host.md"))
ROW = re.compile(r"^\| (?P<what>[^|]+) \| (?P<value>[\d,.]+)(?: (?P<unit>\w+))? \| `(?P<place>[^`]+)` \|", re.MULTILINE)
UNITS = {"KiB": 1024, "MiB": 1024**2, "min": 60, "s": 1, "ms": 1, "characters": 1, "threads": 1, None: 1}


class Bound(NamedTuple):
    """One row of a table."""

    value: float
    place: str


def bounds() -> list[Bound]:
    """Read the tables."""
    rows = ROW.finditer(PAGES)
    return [Bound(float(row["value"].replace(",", "")) * UNITS[row["unit"]], row["place"]) for row in rows]


def owner(place: str) -> tuple[ModuleType, str]:
    """Split a place into the module and the rest."""
    words = place.partition("(")[0].split(".")
    at = next(at for at, word in enumerate(words) if not word.islower() or word.startswith("_"))
    return import_module(f"antiphon.{'.'.join(words[:at])}"), ".".join(words[at:])


def actual(place: str) -> Any:
    """Look up what the code has there: a constant, a member of one, or the default of a parameter."""
    thing, path = owner(place)
    for name in path.split("."):
        thing = getattr(thing, name)
    parameter = place.partition("(")[2].rstrip(")")
    if not parameter:
        return thing
    if isinstance(thing, type) and issubclass(thing, msgspec.Struct):
        return next(field.default for field in msgspec.structs.fields(thing) if field.name == parameter)
    return inspect.signature(thing).parameters[parameter].default


@pytest.fixture(autouse=True)
def usual_stores(patient_stores: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Compare the figure as it is without the tests."""
    monkeypatch.setattr("antiphon.sql.database_store.PATIENCE", patient_stores)


@pytest.mark.parametrize("bound", bounds(), ids=lambda bound: bound.place)
def test_a_limit_is_what_the_page_says(bound: Bound):
    """The figure on the page is the figure in the code."""
    assert actual(bound.place) == bound.value


def test_every_row_has_a_place():
    """No line of a table escapes the comparison."""
    lines = [line for line in PAGES.splitlines() if line.startswith("| ")]
    headings = sum(line.startswith("| bound |") for line in lines)
    assert len(bounds()) == len(lines) - headings


def test_no_limit_of_a_module_is_left_out():
    """A module that is on the page is there with every bound it has."""
    modules = {module for bound in bounds() for module in [owner(bound.place)[0]]}
    named = {(module, path.partition(".")[0]) for module, path in (owner(bound.place) for bound in bounds())}
    left_out = [
        f"{module.__name__}.{name}"
        for module in modules
        for name, value in vars(module).items()
        if name.lstrip("_").startswith("MAX_") and isinstance(value, int | float) and (module, name) not in named
        if f"{name} =" in inspect.getsource(module)
    ]
    assert left_out == []
