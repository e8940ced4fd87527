"""The meaning of a TARGET: a URL, a command line, a ``.py`` file, or the name of a configured server.

Owns also the conversion between names of servers and identities.
"""

from __future__ import annotations

import re
import shlex
import shutil
import sys
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from antiphon.cli.arguments import suggest_similar
from antiphon.cli.config_files import FoundEntry, config_paths, find_entry, list_names
from antiphon.client.connection.targets import Address, Target, describe_location, locate_target
from antiphon.errors import ConfigError
from antiphon.host.config import Config
from antiphon.identity import command_of
from antiphon.wire.origin import Origin, describe_target, identify_target, list_coarser

_URL = re.compile(r"(?:https?|wss?)://", re.IGNORECASE)
_OBJECT = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")

_IDENTITY = re.compile(r"(?:url|command|memory|coarse):[\w.]*")


def resolve_target(text: str, config: Path | None = None) -> str | list[str] | Mapping[str, object]:
    """Return the target for ``Client``. ``config``: the only file to look names up in."""
    if _URL.match(text):
        return text
    if text in list_names(config) and (found := find_entry(text, config)) is not None:
        # A name may have spaces, or be no command line at all, so the whole text is looked up first.
        return target_of(found, text)
    words = [text] if text.endswith(".py") and Path(text).is_file() else _split_words(text)
    named = _OBJECT.fullmatch(text)
    if named is not None and Path(named["file"]).is_file():
        # The path is absolute, because the same name in another folder is another server, with other grants. With -P
        # nothing is imported from the current folder, so the server is the same in every folder.
        return [sys.executable, "-P", "-m", "antiphon", "serve", f"{Path(named['file']).absolute()}:{named['name']}"]
    if words[0].endswith(".py"):
        return _find_program(words)
    if len(words) == 1:
        # Raises an error that names the unreadable file, or the given file without such a server.
        find_entry(text, config)
    if shutil.which(words[0]) is None and (len(words) == 1 or get_close_matches(text, list_names(config), n=1)):
        raise _report_unknown(text, config)
    return words


def address_of(target: Target) -> Address | None:
    """Return the address of a server; ``None`` for one that is started here."""
    found = locate_target(target)
    return found if isinstance(found, Address) else None


def _report_unknown(text: str, config: Path | None) -> ConfigError:
    """Name the files in which a server is not configured, and the name that was probably meant."""
    looked = ", ".join(map(str, config_paths() if config is None else [config]))
    address = "; an address begins with http, https, ws or wss" if "://" in text else ""
    known = list_names(config)
    meant = f"; {suggest_similar(text, known)}" if known else ""
    return ConfigError(f"{text!r} is no program, no .py file, and no server named in {looked}{address}{meant}")


def _split_words(text: str) -> list[str]:
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise ConfigError(f"cannot read the command line {text!r}: {error}") from None
    if not words:
        raise ConfigError("the target is empty: give a command line, a .py file or the name of a configured server")
    return words


def _find_program(words: list[str]) -> list[str]:
    if not Path(words[0]).is_file():
        raise ConfigError(f"no such file: {words[0]}")
    return [*command_of(words[0]), *words[1:]]


def target_of(found: FoundEntry, name: str) -> Mapping[str, object]:
    """Return the target for ``Client`` from an entry of this name."""
    if found.entry.fault is not None:
        raise ConfigError(found.entry.fault)
    if found.entry.command is None and found.entry.url is None:
        raise ConfigError(f'{found.path}: {name}: needs "command" or "url"')
    target = found.entry.target
    if found.entry.start_timeout is not None:
        target["start_timeout"] = found.entry.start_timeout
    if found.entry.command is not None and not found.may_inherit_env:
        target["may_inherit_env"] = False
    return target


def identities_of(target: str, servers: Path | None = None) -> tuple[str, ...]:
    """Return the identity of a server that is named as for ``antiphon call``, and the coarser ones."""
    return origin_at(target, servers).identities


def origin_at(target: str, servers: Path | None = None) -> Origin:
    """Return what a host knows about a server before it is connected."""
    if _IDENTITY.fullmatch(target):
        return Origin(id="named", identity=target, target=target)
    found = describe_location(locate_target(resolve_target(target, servers)))
    return Origin(
        id="named", identity=identify_target(found), coarser=list_coarser(found), target=describe_target(found)
    )


def names_of(config: Config) -> Mapping[str, str]:
    """Return the names of the configured servers, by identity."""
    return {entry.find_identity: said for entry in config.servers if (said := entry.described) is not None}
