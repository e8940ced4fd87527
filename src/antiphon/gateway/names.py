"""The names of many servers' tools and prompts behind one gateway.

A name consists of the server's name and its own, so that no server can take the name of another's tool. A server's name
neither contains two underscores in a row nor begins or ends with one, so the first two in a row separate the parts.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from typing import Literal

from antiphon.server.mounts import prefixed

__all__ = ["MAX_NAME", "Style", "exposed", "server_names"]

Style = Literal["prefix", "none"]
"""``prefix``: ``server__tool``; ``none``: the server's own name, with a prefix only if another server has the same."""

MAX_NAME = 64 - len("mcp__antiphon__")
"""Most characters: model APIs allow 64, of which hosts use some to name the gateway."""

_UNUSABLE = re.compile(r"[^A-Za-z0-9-]+|_{2,}")
_DIGITS = 8
"""Hexadecimal digits of a digest that replaces what was cut off."""


def server_names(names: Iterable[str]) -> dict[str, str]:
    """Return the form of each server's name in the names of its tools: letters, digits, hyphens, single underscores.

    ``names``: as configured. Names that would become equal are distinguished by a digest, whatever their order.
    """
    plain = {name: _UNUSABLE.sub("_", name).strip("_") or "server" for name in names}
    taken = list(plain.values())
    return {name: word if taken.count(word) == 1 else _cut(word, MAX_NAME, name) for name, word in plain.items()}


def exposed(server: str, name: str) -> str:
    """Return the name of a tool behind the gateway.

    A name that is too long is cut, and ends with a digest of all of it.

    ``server``: in the form of ``server_names``. ``name``: the server's own name for it.
    """
    whole = prefixed(server, name)
    return whole if len(whole) <= MAX_NAME else _cut(whole, MAX_NAME, whole)


def _cut(word: str, length: int, of: str) -> str:
    digest = hashlib.sha256(of.encode()).hexdigest()[:_DIGITS]
    return f"{word[: length - _DIGITS - 1].rstrip('_')}-{digest}"
