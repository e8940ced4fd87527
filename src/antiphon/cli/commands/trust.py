"""``antiphon trust``: which projects' files with servers may be used, each bound to its content."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from antiphon.cli.config_files import describe_servers, read_bytes
from antiphon.cli.options import CommandGroup, Json
from antiphon.cli.output.formats import FAILED, print_list, print_text
from antiphon.cli.output.formats import format_time as moment
from antiphon.client.connection.server_files import read_servers
from antiphon.errors import ConfigError
from antiphon.host.config.toml_files import Trust, Trusted
from antiphon.machine.files import is_there

commands = CommandGroup(
    help="Decide which server files of projects may be used.\n\n"
    "A file such as .mcp.json came with a project: nothing of it is started, and no variable is filled in, before you "
    "trust it as it is. When it changes, you are asked again."
)

Files = Annotated[list[Path], "FILE...: The files, such as .mcp.json."]


@commands.command("list")
def list_(*, as_json: Json = False) -> None:
    """List the files that are trusted; the usual command."""
    print_list(
        Trust().all(),
        {
            "file": lambda one: one.path,
            "since": lambda one: moment(one.since),
            "environment": lambda one: "whole" if one.environment else "minimal",
            "state": _describe_state,
        },
        as_json=as_json,
        nothing="No project's file is trusted.",
    )


@commands.command()
def add(files: Files, *, environment: bool = False) -> None:
    """Trust files as they are now, and show what they may start and what they are given.

    Usage:
        --environment: Also let a gateway give their servers your whole environment, with the keys in it.
    """
    for path in files:
        data = read_bytes(path)
        servers = read_servers(data, path)
        for line in describe_servers(servers):
            print_text(line)
        Trust().add(path, data, environment=environment)
        given = "with your whole environment" if environment else "with a minimal environment"
        print_text(f"{path}: trusted {given}, until it changes")


@commands.command()
def revoke(files: Files) -> int:
    """Stop trusting files: you are asked again before they are used."""
    unknown = 0
    for path in files:
        if Trust().revoke(path):
            print_text(f"{path}: trusted no longer")
        else:
            unknown += 1
            print_text(f"{path}: was not trusted")
    return FAILED if unknown else 0


def _describe_state(one: Trusted) -> str:
    if one.is_moved:
        return "its servers are behind the gateway"
    path = Path(one.path)
    try:
        if not is_there(path):
            return "is gone"
        return "as it was" if Trust().covers(path, read_bytes(path)) else "has changed: asks again"
    except ConfigError:
        return "cannot be read"
