"""``antiphon install``: put the gateway before the servers of a host, or list the hosts of this machine."""

from __future__ import annotations

import difflib
import hashlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import click

from antiphon.cli.config_files import ask_for_trust, describe_servers, read_config
from antiphon.cli.options import Json
from antiphon.cli.output.formats import print_list
from antiphon.client.connection.server_files import find_project, substitute_variables
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.installation import KNOWN, FileChange, Installation, place_of
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import make_inert
from antiphon.host.config.toml_files import Trust, load_config
from antiphon.host.models.selection import USUAL
from antiphon.host.providers.base import key_variables
from antiphon.host.store.store_location import config_folder, state_folder
from antiphon.machine.files import find_home
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.web.page_reviewer import load_opener


def _complete_host(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in KNOWN if name.startswith(incomplete)]


_HOST_HELP = f"One of {', '.join(KNOWN)}."
File = Annotated[Path | None, "--file PATH: The host's configuration file, if it is not in the usual place."]
_OF_THE_DESKTOP = (
    *("DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "BROWSER", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"),
    *("XDG_CONFIG_HOME", "XDG_STATE_HOME"),
)
"""Variables with which the gateway shows its page and finds its own files."""


def command(
    host: Annotated[str | None, f"[HOST]: {_HOST_HELP}", _complete_host] = None,
    *,
    file: File = None,
    keep: bool = False,
    dry_run: bool = False,
    trust: bool = False,
    as_json: Json = False,
) -> None:
    """Put the gateway before a host's servers, or list the hosts.

    Without HOST, the hosts found here are listed. With one, its servers are moved behind one entry, antiphon gateway,
    which has what they ask answered on the review page. A backup is kept; antiphon uninstall gives the file back.

    Usage:
        --keep: Leave the host's servers where they are, and only add the gateway.
        --dry-run: Show what would change, and change nothing.
        --trust: Trust the servers of a project's file as they are, without being asked.
    """
    if host is None:
        _print_hosts(as_json=as_json)
        return
    # The gateway serves the page, and without its packages would leave the host without any tool.
    load_opener()
    place = find_installation(host, file)
    change = place.plan(_find_program(), keep=keep, variables=_list_variables())
    if not change.served and not keep:
        own = config_folder(os.environ) / "servers.json"
        if not own.is_file() or not read_config(own):
            first = f"{KNOWN[host].title} has no servers that the gateway could serve: add one to it first, or to {own}"
            raise ConfigError("\n".join([first, *(f"{name}: {why}" for name, why in change.left.items())]))
    if dry_run:
        before, after = change.before.splitlines(keepends=True), change.after.splitlines(keepends=True)
        for line in difflib.unified_diff(before, after, str(place.path), str(place.path)):
            print(make_inert(mask_text(line.rstrip("\n"))))
        if not place.is_users:
            print(*describe_servers(change.servers), sep="\n")
    else:
        _install_gateway(place, change, trust=trust)
        undo = f"antiphon uninstall {host}" + (f" --file {shlex.quote(str(file))}" if file is not None else "")
        print(f"{place.path}: antiphon gateway added; {undo} undoes it.")
    for line in _report_change(place, change, KNOWN[host].title):
        print(make_inert(line))
    if not dry_run:
        print(f"Restart {KNOWN[host].title} to use it.")


def _install_gateway(place: Installation, change: FileChange, *, trust: bool) -> None:
    """Carry out a change; entries of a project's file are shown, and a person is asked whether to trust them."""
    if place.is_users or not change.moved:
        place.install(change)
        return
    data = change.before.encode()
    if trust:
        print(f"{place.path} is trusted as it is:", *describe_servers(change.servers), sep="\n")
    else:
        ask_for_trust(place.path, data, change.servers, option=", or install with --trust")
    place.install(change)
    # The file has changed now, and the gateway still needs the permission for what it was.
    record = Trust()
    record.add(place.path, data, environment=record.covers(place.path, data, environment=True), is_moved=True)


def _report_change(place: Installation, change: FileChange, title: str) -> Iterator[str]:
    """Say what has become of each server, and what a person still has to do."""
    if change.served:
        yield f"Served by the gateway: {', '.join(change.served)}."
    for name, members in change.kept.items():
        for member, why in members.items():
            yield f"Not taken over: {member} of {name} ({why})."
    for name, why in change.left.items():
        yield f"Left as it is: {name} ({why})."
    for name, entry in change.servers.items():
        try:
            substitute_variables(entry, os.environ, find_project(place.path), name)
        except ConfigError as error:
            yield f"Cannot start: {error}."
        if entry.url is not None and not any(header.lower() == "authorization" for header in entry.headers):
            login = f"antiphon login {shlex.quote(name)} --config {shlex.quote(str(place.servers))}"
            yield f"If {title} had signed in to {name}, sign in again: {login}"


def list_hosts() -> list[tuple[str, Installation]]:
    """Return the hosts that are on this machine: their file is there, or its folder, or the gateway is installed."""
    found = [(name, find_installation(name, None)) for name in KNOWN]
    own = Path(os.path.realpath(find_home()))
    return [
        (name, place)
        for name, place in found
        if place.is_installed or os.access(place.path if place.path.parent == own else place.path.parent, os.F_OK)
    ]


def _print_hosts(*, as_json: bool) -> None:
    rows = [
        {"host": name, "title": KNOWN[name].title, "file": str(place.path), "installed": place.is_installed}
        for name, place in list_hosts()
    ]
    print_list(
        rows,
        {
            "host": lambda row: str(row["host"]),
            "name": lambda row: str(row["title"]),
            "file": lambda row: str(row["file"]),
            "gateway": lambda row: "installed" if row["installed"] else "not installed",
        },
        as_json=as_json,
        nothing=f"None of the known hosts is here: {', '.join(KNOWN)}.",
    )


def find_installation(host: str, file: Path | None) -> Installation:
    """Find the configuration of a host."""
    if host not in KNOWN:
        raise ConfigError(f"{host!r} is not a known host; {suggest_similar(host, list(KNOWN))}")
    known = KNOWN[host]
    usual = place_of(known, os.environ)
    path = Path(os.path.realpath(file or usual))
    # Each file of a project counts as a separate installation.
    is_users = path == Path(os.path.realpath(usual))
    name = host if is_users else f"{host}-{hashlib.sha256(str(path).encode()).hexdigest()[:12]}"
    return Installation(
        name, known, path, home=config_folder(os.environ), state=state_folder(os.environ), is_users=is_users
    )


def _list_variables() -> Sequence[str]:
    """Return the variables that a gateway needs of its host: those of the desktop, and keys of the models."""
    configured = (name for model in load_config(os.environ).models for name in key_variables(model))
    usual = (name for vendor in USUAL.values() for name in (*vendor.keys, vendor.base_url, vendor.chosen))
    return list(dict.fromkeys((*_OF_THE_DESKTOP, *usual, *configured)))


def _find_program() -> str:
    """Return the full path of this program, because hosts have a PATH of their own."""
    beside = Path(sys.executable).with_name("antiphon")
    found = str(beside) if beside.is_file() else shutil.which("antiphon")
    if found is None:
        raise ConfigError("there is no program 'antiphon' beside this Python: install the package")
    return found


def uninstall(host: Annotated[str, f"HOST: {_HOST_HELP}", _complete_host], *, file: File = None) -> None:
    """Give a host its own servers back.

    The file becomes what it was, to the byte. If it was changed since, only the gateway's entry is taken out.
    """
    place = find_installation(host, file)
    done = place.uninstall()
    Trust().end_move(place.path)
    how = "as it was before" if done.exactly else "changed since: our entry taken out, all else left"
    print(f"{place.path}: {how}.")
    if done.edited is not None:
        print(f"What was changed in the gateway's list of servers is kept in {done.edited}.")
    if done.restored:
        print(make_inert(f"The host's own again: {', '.join(done.restored)}."))
