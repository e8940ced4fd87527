"""Servers as they are named on the command line, as the host knows them: by their identity.

Owns how a name becomes an identity, and an identity a name again. What a target means is ``targets``'.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from antiphon.cli.targets import resolve_target
from antiphon.client.connection.targets import Address, Command, resolve
from antiphon.errors import ConfigError
from antiphon.host.config import Config
from antiphon.wire.origin import describe_target, identify

__all__ = ["identity_of", "names_of"]

_IDENTITY = re.compile(r"(?:url|command):\w*")


def identity_of(target: str, servers: Path | None = None) -> str:
    """Return the identity of a server that is named as for ``antiphon call``; an identity, or its beginning, stays.

    ``servers``: the one file to look names up in.

    Raises:
        ConfigError: it means nothing.
    """
    if _IDENTITY.fullmatch(target):
        return target
    where = resolve(resolve_target(target, servers))
    if isinstance(where, Command):
        return identify(list(where.argv))
    if isinstance(where, Address):
        return identify(where.url)
    raise ConfigError(f"{target}: is no server that has an identity")


def names_of(config: Config) -> Mapping[str, str]:
    """Name the servers that are configured, by identity."""
    named = {entry.known_as: entry.target for entry in config.servers if entry.target is not None}
    return {identity: describe_target(target) for identity, target in named.items()}
