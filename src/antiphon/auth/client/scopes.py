"""Which scopes to request (2026-07-28 basic/authorization, "Scope Selection Strategy", "Step-Up Flow")."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.auth.client.addresses import printable
from antiphon.auth.client.discovery import Found

__all__ = ["OFFLINE", "first_scopes", "shown_scopes", "union"]

OFFLINE = "offline_access"
"""The scope that requests a refresh token, if the authorization server supports it."""

MAX_SCOPES = 256
"""Scopes that are requested at most, however many a server names."""


def union(*scopes: Sequence[str]) -> tuple[str, ...]:
    """Return all of these scopes in order, without duplicates, at most ``MAX_SCOPES``."""
    return tuple(dict.fromkeys(one for some in scopes for one in some))[:MAX_SCOPES]


def first_scopes(
    wanted: Sequence[str] | None, challenged: Sequence[str], found: Found, *, refreshable: bool
) -> tuple[str, ...]:
    """Choose the scopes of the first request: the user's and the challenge's, otherwise all in the resource's metadata.

    Args:
        wanted: the scopes in the user's settings.
        challenged: the scopes in the challenge.
        found: the resource and its authorization server.
        refreshable: whether the grant may return a refresh token; if so, ``offline_access`` is added when the
            authorization server supports it.
    """
    chosen = union(wanted or (), challenged)
    if not chosen and wanted is None:
        chosen = union(found.scopes or ())
    if refreshable and OFFLINE in (found.server.scopes_supported or ()):
        chosen = union(chosen, (OFFLINE,))
    return chosen


def shown_scopes(scopes: Sequence[str]) -> str:
    """Format scopes for a message: those from a server may be long, many or unprintable."""
    return printable(" ".join(scopes)) or "none"
