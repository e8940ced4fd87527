"""What the tools and prompts of many servers are called behind one gateway.

A name is made of the server's and its own, so that no server can take the name of another's tool: the name of a server
neither has two underscores in a row nor begins or ends with one, so the first two in a row end it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal

__all__ = ["MAX_NAME", "Style", "exposed", "server_names"]

Style = Literal["prefix", "none"]
"""``prefix``: ``server__tool``; ``none``: as the server calls it, with a prefix only where another has the name."""

MAX_NAME = 64 - len("mcp__antiphon__")
"""Characters: model APIs take 64, of which hosts use some to say which server a tool is of."""

_UNUSABLE = re.compile(r"[^A-Za-z0-9-]+|_{2,}")
_DIGITS = 8
"""Hexadecimal digits of a digest that stands for what was cut off."""


def server_names(names: Iterable[str]) -> dict[str, str]:
    """Return what each server is called in the names of its tools: letters, digits, hyphens and single underscores.

    ``names``: as configured. Two that would be called alike are told apart by a digest, whichever comes first.
    """
    plain = {name: _UNUSABLE.sub("_", name).strip("_") or "server" for name in names}
    taken = list(plain.values())
    return {name: word if taken.count(word) == 1 else _cut(word, MAX_NAME, name) for name, word in plain.items()}


def exposed(server: str, name: str) -> str:
    """Return the name of a tool behind the gateway; one that is too long is cut, and ends with a digest of all of it.

    ``server``: as ``server_names`` has it. ``name``: as the server calls it.
    """
    whole = f"{server}__{name}"
    return whole if len(whole) <= MAX_NAME else _cut(whole, MAX_NAME, whole)


def _cut(word: str, length: int, of: str) -> str:
    digest = hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]
    return f"{word[: length - _DIGITS - 1].rstrip('_')}-{digest}"
