"""Which clients are known to show an elicitation to their user.

A client that declares the capability need not show anything: some answer by themselves, and some hang
(claude-code#85442, #88901). Each row names its source; ``--elicit-in client`` or ``host`` overrides this table.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

from antiphon.wire.common import Implementation

__all__ = ["KNOWN_CLIENTS", "KnownClient", "shows"]

Version = tuple[int, ...]


class KnownClient(Struct, frozen=True, kw_only=True):
    """The versions of one client that show elicitations."""

    form: Version
    """First version that shows forms."""
    url: Version | None = None
    """First version that shows addresses; ``None`` if none does."""
    until: Version | None = None
    """First version that shows none any more; ``None`` if the newest one does."""


KNOWN_CLIENTS: Mapping[str, KnownClient] = {
    # Its program has both modes since 2.1.76 (2026-03, jongwony/cc-plugin#21).
    "claude-code": KnownClient(form=(2, 1, 76), url=(2, 1, 76)),
    # Forms came with 1.102 (2025-06); addresses were merged after 1.106 (2025-11, microsoft/vscode#277253).
    "Visual Studio Code": KnownClient(form=(1, 102), url=(1, 107)),
    "Visual Studio Code - Insiders": KnownClient(form=(1, 102), url=(1, 107)),
    # Its documentation lists forms (canimcp.dev/client/cursor-vscode). It always declares version 1.0.0; versions
    # that show none do not declare the capability.
    "cursor-vscode": KnownClient(form=(1,)),
    # modelcontextprotocol/inspector#524.
    "mcp-inspector": KnownClient(form=(0, 16, 2)),
}
"""The known clients, by the names that they declare."""

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")


def shows(client: Implementation | None, mode: Literal["form", "url"]) -> bool:
    """Tell whether a client is known to show elicitations of a mode to its user.

    ``client``: its name and version, as it declares them. A client that lies only keeps its own user from being asked.
    """
    known = KNOWN_CLIENTS.get(client.name) if client is not None else None
    if client is None or known is None:
        return False
    since = known.form if mode == "form" else known.url
    version = _version(client.version)
    if since is None or version is None or version < since:
        return False
    return known.until is None or version < known.until


def _version(text: str) -> Version | None:
    found = _NUMBERS.search(text)
    return tuple(int(part) for part in found[0].split(".")) if found is not None else None
