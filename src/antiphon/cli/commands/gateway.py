"""``antiphon gateway``: the configured servers as one, for any host; what they ask is answered here."""

from __future__ import annotations

import ipaddress
import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from antiphon.auth.client.oauth import Auth
from antiphon.cli.commands.serve import address_of
from antiphon.cli.host_options import choose_host
from antiphon.cli.logins import auth_for
from antiphon.cli.options import Deny, ModelName, Provider, ReviewAt, Yes
from antiphon.cli.watched_servers import WatchedServers
from antiphon.client.connection.targets import Address, resolve
from antiphon.errors import ConfigError
from antiphon.gateway.asks import Answered
from antiphon.gateway.gateway import Gateway
from antiphon.gateway.names import Style
from antiphon.gateway.terms import IDLE_TIMEOUT, MAX_PROCESSES, SignIn, Start
from antiphon.host.store.location import state_folder

__all__ = ["command"]

Files = Annotated[
    list[Path] | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="Take the servers of this file (mcpServers, of any host); repeat. By default those of the files in which "
        "names are looked up. One that ends in .toml and has no servers configures the host.",
        show_default=False,
    ),
]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="NAME", help="Take this server and no other; repeat.", show_default=False),
]
Http = Annotated[
    str | None,
    typer.Option(
        "--http", metavar="HOST:PORT", help="Serve Streamable HTTP at /mcp, on this machine only.", show_default=False
    ),
]
Names = Annotated[
    Style,
    typer.Option(
        "--names", metavar="prefix|none", help="Call a tool server__tool, or as its server does where that is unique."
    ),
]
Asks = Annotated[
    Answered,
    typer.Option(
        "--asks",
        metavar="host|relay",
        help="Answer what the servers ask here, or have the client answer it, where it can.",
    ),
]
Review = Annotated[
    ReviewAt,
    typer.Option(
        "--review",
        metavar="page|queue|terminal",
        help="Ask on a page in the browser, leave questions in the store for antiphon review, or ask at this terminal "
        "(with --http).",
    ),
]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="PLACE", help="Where the host keeps what outlives it.", show_default=False),
]

StartWhen = Annotated[
    Start,
    typer.Option(
        "--start",
        metavar="first-use|eager",
        help="Start a server when something of it is wanted, or with the gateway. One that was never listed starts "
        "with the gateway.",
    ),
]
Idle = Annotated[
    float,
    typer.Option(
        "--idle", metavar="SECONDS", min=0, help="Stop a server that nobody has used for so long; 0 for never."
    ),
]
MaxProcesses = Annotated[
    int,
    typer.Option(
        "--max-processes", metavar="N", min=1, help="Most servers that run at once; the longest unused makes room."
    ),
]


def command(
    *,
    config: Files = None,
    only: Only = None,
    http: Http = None,
    names: Names = "prefix",
    asks: Asks = "host",
    review: Review = "page",
    yes: Yes = False,
    deny: Deny = False,
    provider: Provider = None,
    model: ModelName = None,
    store: Store = None,
    start: StartWhen = "first-use",
    idle: Idle = IDLE_TIMEOUT,
    max_processes: MaxProcesses = MAX_PROCESSES,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Show what the servers write.")] = False,
) -> int:
    """Serve all configured servers as one.

    Over stdio, for the configuration of a host; or over HTTP on this machine. What the servers ask (sampling,
    elicitation) and every call of a tool is decided by a person, by the rules of antiphon.toml and by its budgets,
    whatever the host itself can do.
    """
    if review == "terminal" and http is None and not (yes or deny):
        raise ConfigError("over stdio the terminal is the protocol's: --review page or queue")
    listens = _listens(http) if http is not None else None
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format="%(message)s", stream=sys.stderr)
    files = [path for path in config or [] if path.suffix != ".toml" or _has_servers(path)]
    settings = next((path for path in config or [] if path not in files), None)
    servers = WatchedServers(files, only or [])
    host = choose_host(
        yes=yes, deny=deny, provider=provider, model=model, config=settings, store=store, review=review, soon=True
    )
    gateway = Gateway(
        servers.targets,
        host,
        asks=asks,
        names=names,
        starts=start,
        idle_timeout=idle or None,
        max_processes=max_processes,
        lists=state_folder(os.environ) / "lists",
        reloads=servers.changes,
        sign_in=_logins(servers),
        closes_host=True,
    )
    where = "stdio" if listens is None else f"http://{listens[0]}:{listens[1]}/mcp"
    print(f"Serving {', '.join(servers.targets)} over {where}. Ctrl-C ends it.", file=sys.stderr)
    if listens is None:
        gateway.run()
    else:
        gateway.run("http", host=listens[0], port=listens[1])
    return 0


def _logins(servers: WatchedServers) -> SignIn:
    async def sign_in(name: str) -> Auth | None:
        where = resolve(servers.targets[name])
        return await auth_for(where, None) if isinstance(where, Address) else None

    return sign_in


def _listens(http: str) -> tuple[str, int]:
    """Read the address to serve on, which must be local, because everybody who reaches it may call the tools."""
    host, port = address_of(http)
    try:
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_here = False
    if not is_here:
        raise ConfigError(f"--http {http}: a gateway serves this machine only: write 127.0.0.1:{port}")
    return host, port


def _has_servers(path: Path) -> bool:
    """Tell whether a TOML file is another program's, with servers in it (Codex), and not one of our settings."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
    return "[mcp_servers" in text or "[mcpServers" in text
