"""Names of tools as every model service accepts them."""

from __future__ import annotations

import re
from collections.abc import Sequence

_ACCEPTED = re.compile(r"[A-Za-z0-9_-]+")
"""OpenAI's and Anthropic's rule for names of tools and ids of their uses; Gemini accepts more."""
LONGEST_NAME = 64
"""Most characters of a name of a tool: OpenAI's limit."""


def plain_names(originals: Sequence[str], longest: int = LONGEST_NAME) -> list[str]:
    """Return a name for each tool that services accept, its own if possible, each name once."""
    used: set[str] = set()
    given: list[str | None] = []
    for name in originals:
        is_kept = len(name) <= longest and _ACCEPTED.fullmatch(name) is not None and name not in used
        given.append(name if is_kept else None)
        used.update([name] if is_kept else [])
    last: dict[str, int] = {}
    return [
        kept or _make_numbered_name(original, longest, used, last)
        for original, kept in zip(originals, given, strict=True)
    ]


def _make_numbered_name(original: str, longest: int, used: set[str], last: dict[str, int]) -> str:
    """Make a name that is not used yet, and note it. ``last``: the last number that each name has been given."""
    base = made = re.sub(r"[^A-Za-z0-9_-]", "_", original)[: longest - 6] or "unnamed"
    number = last.get(base, 1)
    while made in used:
        number += 1
        made = f"{base}_{number}"
    last[base] = number
    used.add(made)
    return made
