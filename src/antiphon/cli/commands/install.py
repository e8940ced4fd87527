"""``antiphon install``: put the gateway before the servers of a host."""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer

from antiphon.cli.config_files import home, read_config
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.installation import Installation
from antiphon.gateway.hosts.known_hosts import KNOWN, place_of
from antiphon.host.checks.redact import mask
from antiphon.host.checks.visible import inert
from antiphon.host.store.location import state_folder

__all__ = ["File", "HostName", "command", "installation"]

HostName = Annotated[str, typer.Argument(metavar="HOST", help=f"One of {', '.join(KNOWN)}.", show_default=False)]
File = Annotated[
    Path | None,
    typer.Option(
        "--file",
        metavar="PATH",
        help="The host's configuration file, if it is not in the usual place.",
        show_default=False,
    ),
]


def command(
    host: HostName,
    *,
    file: File = None,
    keep: Annotated[
        bool, typer.Option("--keep", help="Leave the host's servers where they are, and only add the gateway.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would change, and change nothing.")] = False,
) -> int:
    """Put the gateway in front of the servers of a host.

    Its servers are moved behind one entry, antiphon gateway, which has what they ask answered on the review page. A
    backup is kept; antiphon uninstall gives the file back.
    """
    place = installation(host, file)
    change = place.plan(_program(), keep=keep)
    if not change.moved and not keep:
        _check_own_servers(KNOWN[host].title)
    if dry_run:
        before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        for line in difflib.unified_diff(before, after, str(place.path), str(place.path)):
            print(inert(mask(line.rstrip("\n"))))
    else:
        place.install(change)
        undo = f"antiphon uninstall {host}" + (f" --file {shlex.quote(str(file))}" if file is not None else "")
        print(f"{place.path}: antiphon gateway added; {undo} undoes it.")
    if change.moved:
        print(f"Served by the gateway: {inert(', '.join(change.moved))}.")
    for name, why in change.left.items():
        print(inert(f"Left as it is: {name} ({why})."))
    if not dry_run:
        print(f"Restart {KNOWN[host].title} to use it.")
    return 0


def installation(host: str, file: Path | None) -> Installation:
    """Find the configuration of a host.

    Raises:
        ConfigError: there is no such host.
    """
    if host not in KNOWN:
        raise ConfigError(f"{host!r} is not a known host; known are: {', '.join(KNOWN)}")
    known = KNOWN[host]
    usual = place_of(known, os.environ)
    path = Path(os.path.realpath(file or usual))
    # Each file of a project counts as a separate installation.
    own = path != Path(os.path.realpath(usual))
    name = f"{host}-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}" if own else host
    return Installation(name, known, path, home=home(), state=state_folder(os.environ))


def _check_own_servers(title: str) -> None:
    """Refuse an entry that the host could not start, because there is nothing to serve.

    Raises:
        ConfigError: the user's own configuration has no servers, either.
    """
    own = home() / "servers.json"
    if not own.is_file() or not read_config(own):
        raise ConfigError(f"{title} has no servers that the gateway could serve: add one to it first, or to {own}")


def _program() -> str:
    """Return the full path of this program, because hosts have a PATH of their own."""
    beside = Path(sys.executable).with_name("antiphon")
    found = str(beside) if beside.is_file() else shutil.which("antiphon")
    if found is None:
        raise ConfigError("there is no program 'antiphon' beside this Python: install the package")
    return found
