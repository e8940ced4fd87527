"""What the first releases of Python 3.11 get wrong is not used: Debian 12 has 3.11.2."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

import antiphon

SRC = Path(antiphon.__file__).parent
PARTS = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<open>\((?P<looks>\?(?:<?[!=]|>))?)|(?P<close>\)(?:[*+?]|\{[\d,]*\})?+(?P<keeps>\+)?)|.",
    re.DOTALL,
)


def find_faulty_groups(pattern: str) -> list[str]:
    """Return the groups that 3.11.0 to 3.11.4 leave in the wrong place.

    They are repeated without backtracking, and look around or have such a group in them.
    """
    begun: list[tuple[int, bool]] = []
    found: list[str] = []
    for part in PARTS.finditer(pattern):
        if part["open"]:
            begun.append((part.start(), bool(part["looks"])))
        elif part["close"] and begun:
            start, looks = begun.pop()
            if part["keeps"] and looks:
                found.append(pattern[start : part.end()])
            if (looks or part["keeps"]) and begun:
                begun[-1] = begun[-1][0], True
    return found


def list_texts() -> Iterator[tuple[str, str]]:
    """List the texts in the code, and in tables beside it, with where they stand."""
    for path in sorted(SRC.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes):
                text = node.value if isinstance(node.value, str) else node.value.decode("latin-1")
                yield f"{path.name}:{node.lineno}", text
            elif isinstance(node, ast.JoinedStr):
                parts = [part.value if isinstance(part, ast.Constant) else "x" for part in node.values]
                yield f"{path.name}:{node.lineno}", "".join(map(str, parts))
    for path in sorted(SRC.rglob("*.toml")):
        pending: list[object] = [tomllib.loads(path.read_text())]
        while pending:
            value = pending.pop()
            if isinstance(value, dict | list):
                pending += value.values() if isinstance(value, dict) else value
            elif isinstance(value, str):
                yield path.name, value


@pytest.mark.parametrize(
    ("pattern", "groups"),
    [
        (r"/\*(?:[^*]|\*(?!/))*+\*/", [r"(?:[^*]|\*(?!/))*+"]),
        (r"(?:-(?=a)){0,3}+", [r"(?:-(?=a)){0,3}+"]),
        (r"(?:(?:a|bc)?+d)*+", [r"(?:(?:a|bc)?+d)*+"]),
        (r"(?:(?>a|bc)d)++", [r"(?:(?>a|bc)d)++"]),
        (r"(?:-(?!a))*", []),
        (r"(?:[^)(?!]|\()*+(?!a)", []),
    ],
)
def test_a_faulty_group_would_be_found(pattern: str, groups: list[str]):
    """Within classes and after a backslash no group begins."""
    assert find_faulty_groups(pattern) == groups


def test_no_pattern_has_such_a_group():
    """A secret that is left in a text, and a comment that is none, were what came of it."""
    assert [(place, group) for place, text in list_texts() for group in find_faulty_groups(text)] == []
