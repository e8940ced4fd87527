"""Every rule has a test, every mark a rule."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from antiphon.wire.revisions import REVISIONS
from tests.requirements import REQUIREMENTS

TESTS = Path(__file__).parent


def marks() -> Iterator[tuple[str, str]]:
    """Go through the marks of all tests: the id, and where it is."""
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        # Most files have none, and to parse them all takes a second.
        for node in ast.walk(ast.parse(source if "mark.requirement" in source else "")):
            if isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "requirement":
                for argument in node.args:
                    yield ast.literal_eval(argument), f"{path.relative_to(TESTS)}:{node.lineno}"


def test_every_rule_has_a_test():
    """A rule without one is only a promise."""
    marked = {id for id, _ in marks()}
    assert sorted(set(REQUIREMENTS) - marked) == []


def test_every_mark_names_a_rule():
    """A mark that names none holds nothing."""
    assert [f"{place} {id}" for id, place in marks() if id not in REQUIREMENTS] == []


def test_every_rule_has_a_place():
    """In revisions that exist, in the order of time, and once."""
    names = [each.name for each in REVISIONS]
    for row in REQUIREMENTS.values():
        assert names.index(row.since) <= names.index(row.until or names[-1]), row
        assert row.text.endswith("."), row


def test_no_rule_is_written_twice():
    """The same id twice would hide one of them."""
    source = (TESTS / "requirements.py").read_text(encoding="utf-8")
    calls = [
        node
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"must", "should"}
    ]
    assert len(calls) == len(REQUIREMENTS)
