"""``antiphon gateway``: the configured servers as one, for any host; what they ask is answered here."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterable
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Unpack

import click
from msgspec import structs

from antiphon.auth.client.oauth import Auth
from antiphon.cli.config_files import WatchedServers, WatchedSettings
from antiphon.cli.host_options import choose_host, read_configuration
from antiphon.cli.network_options import ListenOptions, ListenPlace
from antiphon.cli.options import ModelApi, PageAnswers, complete_server
from antiphon.client.connection.server_files import MAX_FILE
from antiphon.client.connection.targets import Address, locate_target
from antiphon.errors import ConfigError
from antiphon.gateway import terms
from antiphon.gateway.names import Filters, Style
from antiphon.host.config.settings import GatewaySettings, Profile
from antiphon.host.config.toml_files import config_paths
from antiphon.host.store.store_location import state_folder
from antiphon.machine.files import name_errors, read_file
from antiphon.server.serving.network import ServeOptions
from antiphon.transports.stdio.reaper import REAPER

if TYPE_CHECKING:
    from antiphon.gateway.gateway import Gateway

_Listening = tuple[ListenPlace, ServeOptions]
"""Where a gateway serves, and to whom."""


Files = Annotated[
    list[Path] | None,
    "--config FILE: Take the servers of this file (mcpServers, of any host); repeat. By default those of the "
    "files in which names are looked up. One that ends in .toml and has no servers configures the host.",
]


def command(
    *,
    config: Files = None,
    only: Annotated[list[str] | None, complete_server] = None,
    listening: ListenOptions,
    names: Style | None = None,
    profile: str | None = None,
    search: bool | None = None,
    asks: terms.Answered = "host",
    elicit_in: terms.ElicitsIn = "auto",
    answers: PageAnswers,
    model_api: ModelApi = False,
    start: terms.Start = "first-use",
    idle: Annotated[float, click.FloatRange(0)] = terms.IDLE_TIMEOUT,
    max_processes: Annotated[int, click.IntRange(1)] = terms.MAX_PROCESSES,
    verbose: bool = False,
) -> None:
    """Serve all configured servers as one.

    Over stdio, for the configuration of a host; or over HTTP, beyond this machine only for clients that sign in. What
    the servers ask (sampling, elicitation) and every call of a tool is decided by a person, by the rules of
    antiphon.toml and by its budgets, whatever the host itself can do.

    Usage:
        --only NAME: Serve this server only; may be repeated for several.
        --names prefix|none: How tools are called: server__tool, or by the tool's own name unless another tool's looks
            like it. Default: prefix.
        --profile NAME: Serve what [gateway.profiles.NAME] of antiphon.toml chooses of the servers and their tools.
        --search/--no-search: List two tools only, find_tools and call_tool: a model finds all other tools by words, and
            calls them through these.
        --asks host|relay: Who answers what the servers ask: the gateway's host, or the client (relay), as far as it
            can.
        --elicit-in auto|client|host: Have forms and addresses shown by clients that are known to show them, by all that
            offer it, or here. Policy and audit are the same.
        --start first-use|eager: Start a server when something of it is wanted, or with the gateway. One that was never
            listed starts with the gateway.
        --idle SECONDS: Seconds without use after which a server is stopped; 0 means never.
        --max-processes N: Most servers that run at the same time; for one more, the one that was not used for longest
            is stopped.
        --verbose, -v: Show the servers' standard error.
    """
    # Imported here, so that the help and a shell's completion do not load it.
    from antiphon.gateway.gateway import Gateway

    if answers.review == "terminal" and listening.place is None and not (answers.yes or answers.deny):
        raise ConfigError("over stdio the terminal is the protocol's: --review page or queue")
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    files = [path for path in config or () if path.suffix != ".toml" or _has_servers(path)]
    settings = next((path for path in config or () if path not in files), None)
    listens = _read_listening(listening, settings)
    wanted = _read_settings(settings, names, search)
    selected = wanted.profile(profile)
    servers = WatchedServers(files, only or [], selected.only or [])
    # The reaper must begin before the host is made, because the host starts a thread.
    with REAPER.running():
        host = choose_host(answers, config=settings, soon=True, model_api=model_api or wanted.model_api)
        running = _choose_run_options(
            servers,
            listens,
            wanted,
            starts=start,
            idle_timeout=idle or None,
            max_processes=max_processes,
            pending_for=read_configuration(settings, os.environ).review_timeout or terms.PENDING_FOR,
        )
        gateway = Gateway(
            servers.targets, host, asks=asks, elicits_in=elicit_in, quick_cancel=wanted.quick_cancel,
            search=bool(wanted.search), as_tools=wanted.as_tools, reloads=servers.changes, closes_host=True, **running,
        )  # fmt: skip
        _expose_tools(gateway, wanted, selected, servers)
        servers.settings = WatchedSettings(
            [settings] if settings is not None else config_paths(os.environ),
            partial(read_configuration, settings, os.environ),
            profile,
            lambda said, chosen: _expose_tools(
                gateway, structs.replace(said, names=names or said.names), chosen, servers
            ),
        )
        _serve_gateway(gateway, servers.targets, listens)


def _read_settings(settings: Path | None, names: Style | None, search: bool | None) -> GatewaySettings:
    """Return the gateway's settings: those of the configuration, overridden by the options."""
    said = read_configuration(settings, os.environ).gateway
    return structs.replace(said, names=names or said.names, search=said.search if search is None else search)


def _expose_tools(gateway: Gateway, wanted: GatewaySettings, selected: Profile, servers: WatchedServers) -> None:
    """Show the tools that the options, a profile of the configuration and the servers' own entries describe."""
    servers.log_unknown(wanted)
    gateway.expose(
        names=wanted.names or "prefix",
        tools=reduce(Filters.with_more, [*wanted.tool_lists(selected), servers.tools], Filters()),
        prefixes=wanted.prefixes(selected),
        rename=wanted.renamed(selected),
        owns=wanted.owned(selected),
    )


def _choose_run_options(
    servers: WatchedServers, listens: _Listening | None, wanted: GatewaySettings, **chosen: Unpack[terms.RunOptions]
) -> terms.RunOptions:
    """Return how the servers are run: as the options say, with the lists and the logins of this user."""
    # A single shared token does not tell clients apart, so all of them use the logins of this user.
    own = listens is not None and "auth" in listens[1]
    if wanted.list_timeout is not None:
        chosen["list_timeout"] = wanted.list_timeout
    if wanted.answer_within is not None:
        chosen["answer_within"] = wanted.answer_within
    return {
        **chosen,
        "start_timeouts": wanted.start_timeouts,
        "inherit_env": wanted.environment == "host",
        "lists": state_folder(os.environ) / "lists",
        "sign_in": _choose_logins(servers, own=own),
    }


def _choose_logins(servers: WatchedServers, *, own: bool) -> terms.SignIn:
    """Return the logins of servers. ``own``: each client uses its own logins; otherwise all use this user's."""

    async def sign_in(name: str, principal: str | None) -> Auth | None:
        where = locate_target(servers.targets[name])
        if not isinstance(where, Address):
            return None
        from antiphon.cli.login_access import auth_for, auth_of_client

        return await (auth_of_client(where, principal) if own and principal is not None else auth_for(where, None))

    return sign_in


def _read_listening(listening: ListenOptions, settings: Path | None) -> _Listening | None:
    """Read where to serve, and who may connect. Without a check of tokens only this machine can be served."""
    place = listening.place
    if place is None:
        if listening.given:
            raise ConfigError(f"{listening.given}: for a network only; add --http HOST:PORT, --sse or --ws")
        return None
    options = listening.options(read_configuration(settings, os.environ).auth)
    if not place.is_local and "auth" not in options and "check_token" not in options:
        raise ConfigError(
            f"{place.option}: whoever reaches this address could call every tool. Say who may connect: --issuer URL "
            "--public-url URL (OAuth), [auth] in antiphon.toml, or ANTIPHON_TOKEN for one shared token; or serve this "
            f"machine only: 127.0.0.1:{place.port}"
        )
    return place, options


def _serve_gateway(gateway: Gateway, names: Iterable[str], listens: _Listening | None) -> None:
    def tell(where: str) -> None:
        print(f"Serving {', '.join(names)} over {where}. Ctrl-C ends it.", file=sys.stderr)

    if listens is None:
        tell("stdio")
        gateway.run()
    else:
        place, options = listens
        options["on_listening"] = lambda port: tell(place.url(options, port))
        gateway.run(place.kind, host=place.host, port=place.port, **options)


def _has_servers(path: Path) -> bool:
    """Return whether a TOML file is another program's list of servers (Codex), and not our settings."""
    with name_errors(path):
        text = read_file(path, MAX_FILE).decode("utf-8", "replace")
    return "[mcp_servers" in text or "[mcpServers" in text
