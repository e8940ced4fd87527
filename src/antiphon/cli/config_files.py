"""Configuration files with servers in them, as other hosts write them: ``{"mcpServers": {"name": {...}}}``.

Owns where they are looked for, their shape, and the ``${VARIABLES}`` in them. How a server is started is the client's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import msgspec
from msgspec import Struct

from antiphon.errors import ConfigError

__all__ = ["Entry", "Found", "config_paths", "find_entry", "read_config"]

_LARGEST = 1024 * 1024
"""Bytes; a file of a hundred servers has 50 kB."""
_VARIABLE = re.compile(r"\$\{(?P<name>\w+)(?::-(?P<default>[^}]*))?\}")


class Entry(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One server: a command with its arguments, or an address. Other members are other hosts' and ignored."""

    command: str | None = None
    args: list[str] = []
    env: dict[str, str] = {}
    cwd: str | None = None
    url: str | None = None


class _File(Struct, frozen=True):
    servers: dict[str, Entry] = msgspec.field(name="mcpServers")


class Found(NamedTuple):
    """An entry, and the file it is in."""

    entry: Entry
    path: Path


def config_paths() -> list[Path]:
    """List the files that are looked at, whether they exist or not, the first to win first.

    The user's own comes first: a project's came with the project, perhaps from a stranger, and a name that the user
    knows must not become another program in it.
    """
    home = Path(os.environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    return [home / "antiphon" / "servers.json", Path(".mcp.json")]


def read_config(path: Path) -> Mapping[str, Entry]:
    """Read the servers of a file.

    Raises:
        ConfigError: it cannot be read, or has not the shape; the message names file and member.
    """
    try:
        with path.open("rb") as file:
            data = file.read(_LARGEST + 1)
        if len(data) > _LARGEST:
            raise ConfigError(f"{path}: larger than {_LARGEST} bytes")
        return msgspec.json.decode(data, type=_File).servers
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: {error}") from None


def find_entry(name: str, config: Path | None) -> Found | None:
    """Look a name up in the file given, or else in those of ``config_paths``. Variables are filled in.

    Raises:
        ConfigError: a file cannot be read, a variable is not set, or the file given has no such name.
    """
    for path in config_paths() if config is None else [config]:
        if config is None and not path.is_file():
            continue
        servers = read_config(path)
        if name in servers:
            return Found(_filled(servers[name], f"{path}: mcpServers.{name}"), path)
        if config is not None:
            known = ", ".join(servers) or "none"
            raise ConfigError(f"{path}: there is no server {name!r} in it; there are: {known}")
    return None


def _filled(entry: Entry, place: str) -> Entry:
    """Fill in ``${NAME}`` and ``${NAME:-default}``."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match["name"]) or match["default"]
        if found is None:
            raise ConfigError(f"{place}: the environment has no variable {match['name']}")
        return found

    def fill(text: str) -> str:
        return _VARIABLE.sub(value, text)

    return Entry(
        command=fill(entry.command) if entry.command is not None else None,
        args=[fill(argument) for argument in entry.args],
        env={name: fill(text) for name, text in entry.env.items()},
        cwd=fill(entry.cwd) if entry.cwd is not None else None,
        url=fill(entry.url) if entry.url is not None else None,
    )
