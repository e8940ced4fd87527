"""Servers named on the command line, as identities.

Owns the conversion between names and identities. ``targets`` interprets targets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from antiphon.cli.targets import resolve_target
from antiphon.client.connection.targets import located, resolve
from antiphon.host.config import Config
from antiphon.wire.origin import Origin, coarser, describe_target, identify

__all__ = ["identities_of", "identity_of", "names_of", "origin_at"]

_IDENTITY = re.compile(r"(?:url|command|memory|coarse):[\w.]*")


def identity_of(target: str, servers: Path | None = None) -> str:
    """Return the identity of a server that is named as for ``antiphon call``; an identity, or its prefix, is unchanged.

    ``servers``: the only file to look names up in.

    Raises:
        ConfigError: it names no server.
    """
    return identities_of(target, servers)[0]


def identities_of(target: str, servers: Path | None = None) -> tuple[str, ...]:
    """Return the identity of a server and the coarser ones, in the order of ``Origin.identities``.

    Raises:
        ConfigError: it names no server.
    """
    return origin_at(target, servers).identities


def origin_at(target: str, servers: Path | None = None) -> Origin:
    """Return what a host knows about a server before it is connected.

    Raises:
        ConfigError: it names no server.
    """
    if _IDENTITY.fullmatch(target):
        return Origin(id="named", identity=target, target=target)
    found = located(resolve(resolve_target(target, servers)))
    return Origin(id="named", identity=identify(found), coarser=coarser(found), target=describe_target(found))


def names_of(config: Config) -> Mapping[str, str]:
    """Return the names of the configured servers, by identity."""
    return {entry.known_as: said for entry in config.servers if (said := entry.described) is not None}
