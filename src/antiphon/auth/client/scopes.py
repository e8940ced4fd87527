"""Which scopes to ask for (2026-07-28 basic/authorization, "Scope Selection Strategy", "Step-Up Flow")."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.auth.client.discovery import Found

__all__ = ["OFFLINE", "first_scopes", "shown_scopes", "union"]

OFFLINE = "offline_access"
"""The scope that asks for a refresh token where the authorization server knows it."""

MAX_SCOPES = 256
"""Scopes that are asked for at most, however many a server names."""


def union(*scopes: Sequence[str]) -> tuple[str, ...]:
    """Return all of these, each once, in order, no more than fit into a request."""
    return tuple(dict.fromkeys(one for some in scopes for one in some))[:MAX_SCOPES]


def first_scopes(
    wanted: Sequence[str] | None, challenged: Sequence[str], found: Found, *, refreshable: bool
) -> tuple[str, ...]:
    """Choose what to ask for at first: what was set and what the challenge names, else all that the resource lists.

    ``wanted``: what the user set. ``refreshable``: whether this grant may give a refresh token; ``offline_access`` is
    added where the authorization server knows it.
    """
    chosen = union(wanted or (), challenged)
    if not chosen and wanted is None:
        chosen = union(found.scopes or ())
    if refreshable and OFFLINE in (found.server.scopes_supported or ()):
        chosen = union(chosen, (OFFLINE,))
    return chosen


def shown_scopes(scopes: Sequence[str]) -> str:
    """Write scopes for a message: those of a server may be long, many or unprintable."""
    text = " ".join(scopes)
    return "".join(one for one in text[:200] if one.isprintable()) or "none"
