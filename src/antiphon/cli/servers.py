"""Servers as they are named on the command line, as the host knows them: by their identity.

Owns how a name becomes an identity, and an identity a name again. What a target means is ``targets``'.
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
    """Return the identity of a server that is named as for ``antiphon call``; an identity, or its beginning, stays.

    ``servers``: the one file to look names up in.

    Raises:
        ConfigError: it means nothing.
    """
    return identities_of(target, servers)[0]


def identities_of(target: str, servers: Path | None = None) -> tuple[str, ...]:
    """Return the identity of a server and those coarser than it, in the order of ``Origin.identities``.

    Raises:
        ConfigError: it means nothing.
    """
    return origin_at(target, servers).identities


def origin_at(target: str, servers: Path | None = None) -> Origin:
    """Return what a host would know of a server before anything is said.

    Raises:
        ConfigError: it means nothing.
    """
    if _IDENTITY.fullmatch(target):
        return Origin(id="named", identity=target, target=target)
    found = located(resolve(resolve_target(target, servers)))
    return Origin(id="named", identity=identify(found), coarser=coarser(found), target=describe_target(found))


def names_of(config: Config) -> Mapping[str, str]:
    """Name the servers that are configured, by identity."""
    return {entry.known_as: said for entry in config.servers if (said := entry.described) is not None}
