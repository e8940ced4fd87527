"""On which terms servers behind a gateway are run: how long each may take, how many there may be, when they stop."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Literal, TypedDict

from msgspec import Struct, field

from antiphon.auth.client.oauth import Auth
from antiphon.errors import ConfigError
from antiphon.gateway.kept_lists import KeptLists
from antiphon.gateway.processes import Processes
from antiphon.host.configured_host import Configured
from antiphon.host.host import Host
from antiphon.server.calls.request_state import Seal

__all__ = ["IDLE_TIMEOUT", "MAX_PROCESSES", "RunOptions", "SignIn", "Start", "Terms", "terms_of"]

START_TIMEOUT = 30.0
"""Seconds: a package runner fetches a package meanwhile. Most hosts wait no longer."""

IDLE_TIMEOUT = 600.0
"""Seconds: as long as somebody may read an answer before the next question."""

MAX_PROCESSES = 64
"""About 5 GB, if each server is a small program in Node or Python."""

Start = Literal["first-use", "eager"]
"""When servers start whose lists are known: when something of them is wanted, or with the gateway."""

SignIn = Callable[[str, str | None], Awaitable[Auth | None]]
"""Called with the name of a server and the principal of the client, ``None`` if clients have none; returns what
``Client(auth=)`` takes, ``None`` for a server without a login."""


class RunOptions(TypedDict, total=False):
    """Options of a ``Gateway`` that say how its servers are run."""

    timeout: float | None
    """Seconds for each request to a server, without the time a person takes; ``None``, the default, waits as long as
    the client does."""
    start_timeout: float
    """Seconds in which a server must open its session and list what it has, and those for which one waits while all
    processes are used; 30 by default."""
    starts: Start
    """When servers start whose lists are known: ``"first-use"``, the default, or ``"eager"``, with the gateway. One of
    which nothing is known starts when the gateway does."""
    idle_timeout: float | None
    """Seconds after which a server is stopped that nobody uses; ``None`` for never, 600 by default."""
    max_processes: int
    """Most processes at once, 64 by default; at the limit, that which nobody has used for longest is stopped."""
    lists: Path
    """Folder in which the lists of the servers are kept, so that the next gateway has them at once; by default they are
    not kept."""
    sign_in: SignIn | None
    """Called with the name of a server, and the principal it is connected to for, before it is connected to; returns
    what ``Client(auth=)`` takes, or ``None``. By default nobody is signed in."""


class Terms(Struct, frozen=True, kw_only=True):
    """What holds for all servers behind a gateway. See ``RunOptions``."""

    host: Host | Configured | None
    """Who decides which tools may be called; ``None`` if every call is passed on."""
    processes: Processes
    timeout: float | None = None
    start_timeout: float = START_TIMEOUT
    idle_timeout: float | None = IDLE_TIMEOUT
    starts: Start = "first-use"
    lists: KeptLists | None = None
    sign_in: SignIn | None = None
    seal: Seal = field(default_factory=Seal)
    """Seals the ids of tasks."""
    principal: str | None = None
    """Whom the servers are run for."""


def terms_of(host: Host | Configured | None, options: RunOptions) -> Terms:
    """Read the options.

    Raises:
        ConfigError: there may be no process at all.
    """
    limit = options.get("max_processes", MAX_PROCESSES)
    if limit < 1:
        raise ConfigError(f"max_processes={limit}: a gateway needs at least one process")
    start_timeout = options.get("start_timeout", START_TIMEOUT)
    folder = options.get("lists")
    return Terms(
        host=host,
        processes=Processes(limit, start_timeout),
        timeout=options.get("timeout"),
        start_timeout=start_timeout,
        idle_timeout=options.get("idle_timeout", IDLE_TIMEOUT),
        starts=options.get("starts", "first-use"),
        lists=None if folder is None else KeptLists(folder),
        sign_in=options.get("sign_in"),
    )
