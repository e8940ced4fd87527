"""TOML of files that strangers write, read in a time that grows with its length."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

MAX_PARTS = 32
"""Most parts of a dotted key. ``tomllib`` takes a time that grows with the square of their number."""

# Each ends at the end of the text at the latest, so that no beginning is tried twice.
_TEXTS = re.compile(
    r'"""(?:\\.|[^"\\]|"(?!""))*+"{0,5}'
    r"|'''(?:[^']|'(?!''))*+'{0,5}"
    r'|"(?:[^"\\\n]|\\[^\n])*+"?'
    r"|'[^'\n]*+'?"
    r"|\#[^\n]*+",
    re.DOTALL,
)
_LONG_KEY = re.compile(rf"(?<![\w-])(?:[\w-]++[ \t]*+\.[ \t]*+){{{MAX_PARTS}}}")


def parse_toml(text: str, *, parse_float: Callable[[str], Any] = float) -> dict[str, Any]:
    """Parse a TOML text, with ``parse_float`` for numbers with a point; ``RecursionError`` for deep nesting."""
    # Imported here, because a host made by a program reads no file.
    import tomllib

    if _LONG_KEY.search(_TEXTS.sub("x", text)):
        raise ValueError(f"a key has more than {MAX_PARTS} parts")
    return tomllib.loads(text, parse_float=parse_float)
