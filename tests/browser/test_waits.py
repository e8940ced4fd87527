"""The tests of this folder wait in a way that the page's policy of content permits."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.browser

FUNCTION = re.compile(r"""f?["'](\w+|\(\)) => |settled$|[A-Z_]+$""")
"""A function's text, or the name of one."""


def test_what_a_test_waits_for_is_a_function():
    """An expression's text is evaluated anew for each frame, which the page forbids: only its first try would count.

    A promise counts as true at once, whatever it brings.
    """
    calls = [
        f"{file.name}:{node.lineno}: {ast.unparse(node.args[0])}"
        for file in Path(__file__).parent.glob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".wait_for_function")
    ]
    assert len(calls) > 10
    assert [call for call in calls if not FUNCTION.match(call.split(": ", 1)[1])] == []
    assert [call for call in calls if ".then(" in call or "Promise" in call] == []
