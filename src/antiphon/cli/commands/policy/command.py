"""``antiphon policy``: show and explain what is allowed; list and withdraw what people allowed or blocked.

Owns the options.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable
from pathlib import Path
from typing import Annotated

from antiphon.cli.commands.policy.explain import judge_request, print_explanation, read_cases, tell_cases
from antiphon.cli.commands.policy.grants import lift_block, list_blocks, list_grants, revoke_grants
from antiphon.cli.commands.policy.show import find_effective_policy, show_policy
from antiphon.cli.groups import CommandGroup
from antiphon.cli.host_options import read_configuration
from antiphon.cli.options import ConfigFile, Json, complete_server
from antiphon.cli.store import StoreOptions, run_on_store
from antiphon.cli.target_text import identities_of, names_of

commands = CommandGroup(usual="show", help="See what servers may ask, and why.\n\nWithout a command: show.")
grants = CommandGroup(help="List and revoke what you allowed for more than once. Without a command: list.")
blocks = CommandGroup(help="List servers you blocked, and let them ask again. Without a command: list.")

Server = Annotated[
    str | None, "--server TARGET: The server: a target as for antiphon call, or an identity.", complete_server
]


@commands.command("show")
def show_(*, server: Server = None, as_json: Json = False, config: ConfigFile = None) -> int:
    """Show the rules and what holds for each server; the usual command."""
    show_policy(
        read_configuration(config, os.environ), () if server is None else identities_of(server), as_json=as_json
    )
    return 0


@commands.command()
def explain(
    request: Path,
    *,
    server: Server = None,
    background: bool = False,
    headless: bool = False,
    as_json: Json = False,
    config: ConfigFile = None,
) -> int:
    """Show, rule by rule, how a request would be decided. Nothing is sent anywhere.

    Exit code 1 if it would be denied.

    Usage:
        REQUEST.json: A file with the params of sampling/createMessage, or with a whole message of
            sampling/createMessage, elicitation/create or tools/call; - for standard input. Or a call as antiphon policy
            test has it: {"tool": "transfer", "arguments": {"amount": 500}}.
        --background: Judge it as a request that belongs to no call of yours.
        --headless: Judge it as if no person could be asked.
    """
    judged = judge_request(request, server, background=background, headless=headless)
    policy = find_effective_policy(read_configuration(config, os.environ), *judged.origin.identities)
    return print_explanation(policy, judged, as_json=as_json)


@commands.command("test")
def compare(cases: Path, *, as_json: Json = False, config: ConfigFile = None) -> int:
    """Decide calls of tools from a file, and compare with what is expected. Nothing is sent anywhere.

    Exit code 1 if one is decided otherwise.

    Usage:
        CASES.toml: Tables [[cases]]: tool and expect (allow, ask or deny); also arguments, annotations, server,
            principal, called (names of tools), at (a time), headless and name.
    """
    settings = read_configuration(config, os.environ)
    return tell_cases(
        read_cases(cases), lambda *identities: find_effective_policy(settings, *identities), as_json=as_json
    )


commands.add_command(grants, "grants")
commands.add_command(blocks, "blocks")


@grants.command("list")
def list_given(*, as_json: Json = False, where: StoreOptions) -> Awaitable[int | None]:
    """List your grants and their use; the usual command."""
    names = names_of(where.settings)
    return run_on_store(where, lambda store: list_grants(store, names, as_json=as_json))


@grants.command("revoke")
def revoke_(ids: list[str], *, where: StoreOptions) -> Awaitable[int | None]:
    """Revoke grants: you are asked again at the next request.

    Usage:
        ID...: IDs of grants, or as much of their beginnings as is unambiguous.
    """
    return run_on_store(where, lambda store: revoke_grants(store, ids))


@blocks.command("list")
def list_blocked(*, as_json: Json = False, where: StoreOptions) -> Awaitable[int | None]:
    """List the servers you blocked; the usual command."""
    return run_on_store(where, lambda store: list_blocks(store, as_json=as_json))


@blocks.command("lift")
def lift_(server: str, *, where: StoreOptions) -> Awaitable[int | None]:
    """Let a server ask again.

    Usage:
        SERVER: The server's identity, or as much of its beginning as is unambiguous.
    """
    return run_on_store(where, lambda store: lift_block(store, server))
