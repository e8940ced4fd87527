"""How the servers behind a gateway are run: how long each may take, how many there may be, when they are stopped.

All servers share a limit of processes. If it is reached, the server that has been unused for longest is stopped to make
room for another one. If all are in use, the new one waits for a limited time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Literal, Protocol, TypedDict, get_args

from msgspec import Struct, field, structs

from antiphon.auth.client.oauth import Auth
from antiphon.client.connection.targets import Address, Command, Serves
from antiphon.errors import AntiphonError, ConfigError
from antiphon.gateway.offer import KeptLists
from antiphon.host.host import Host
from antiphon.identity import may_download
from antiphon.server.state.request_state import Seal
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

START_TIMEOUT = 30.0
"""Seconds for the start of a server."""

DOWNLOAD_TIMEOUT = 300.0
"""The same for a package runner, which may download a package first."""

LIST_TIMEOUT = 2.0
"""Seconds that lists wait for all servers that were never listed. Hosts give up a list after 10 to 30 seconds, and
start several servers one after the other."""

IDLE_TIMEOUT = 600.0
"""Seconds after which an unused server is stopped: longer than somebody reads an answer before the next question."""

ANSWER_WITHIN = 50.0
"""Seconds that a client waits for a person before it is told to ask again: most hosts give a call up after 60."""

PENDING_FOR = 86_400.0
"""Seconds that a call waits for a person after that: a day."""

MAX_PROCESSES = 64
"""Most processes: they take about 5 GB if each is a small program in Node or Python."""

Answered = Literal["host", "relay"]
"""``host``: the gateway's host answers, whatever the client offers; ``relay``: the client answers what it can."""

ElicitsIn = Literal["auto", "host", "client"]
"""Who shows an elicitation that the host answers. ``auto``: a client known to show it, else the host's reviewer;
``host``: always the host's reviewer; ``client``: any client that offers it, else the host's reviewer."""

Start = Literal["first-use", "eager"]
"""When a server starts whose lists are known: on first use, or with the gateway."""

SignIn = Callable[[str, str | None], Awaitable[Auth | None]]
"""Async function of the name of a server and the principal of the client (``None`` if clients have none). Returns what
``Client(auth=)`` takes; ``None`` for a server without a login."""


class Full(AntiphonError):
    """The limit of processes is reached, and all of them are in use."""


class Occupant(Protocol):
    """A server that may have a process."""

    @property
    def resting_since(self) -> float | None:
        """Since when nobody uses it, in the event loop's time; ``None`` while it is used, starting or ending."""
        ...

    def stop_resting(self) -> bool:
        """Begin to stop it, if it is unused. Returns whether it does; its place is free when the process has ended."""
        ...


class ProcessPlace:
    """The right to have one process. Call ``give_back`` when the process has ended; a second call does nothing."""

    def __init__(self, processes: Processes, occupant: Occupant) -> None:
        self.occupant = occupant
        self._processes: Processes | None = processes

    def give_back(self) -> None:
        """Give the place to the next server that waits."""
        processes, self._processes = self._processes, None
        if processes is not None:
            processes.take_back(self)


class Processes:
    """The places for processes."""

    def __init__(self, limit: int, patience: float) -> None:
        self.limit = limit
        self._patience = patience
        self._places: set[ProcessPlace] = set()
        self._turns = asyncio.Semaphore(limit)
        self._unmet: deque[object] = deque()
        """Those that wait, and for which no server is being stopped yet."""

    @property
    def running(self) -> int:
        """Number of processes, including those that are starting or ending."""
        return len(self._places)

    async def enter(self, occupant: Occupant) -> ProcessPlace:
        """Wait for a place. Raises ``Full``: none became free in time."""
        if self._turns.locked():
            waiting = object()
            self._unmet.append(waiting)
            self.make_room()
            try:
                async with asyncio.timeout(self._patience):
                    await self._turns.acquire()
            except TimeoutError:
                raise Full(f"all {self.limit} processes of this gateway are in use; try again later") from None
            finally:
                if waiting in self._unmet:
                    self._unmet.remove(waiting)
        else:
            await self._turns.acquire()
        place = ProcessPlace(self, occupant)
        self._places.add(place)
        return place

    def take_back(self, place: ProcessPlace) -> None:
        self._places.discard(place)
        self._turns.release()

    def make_room(self) -> None:
        """Give the place of an unused server to one that waits."""
        while self._unmet and self._stop_one():
            self._unmet.popleft()

    def _stop_one(self) -> bool:
        resting = [(since, place) for place in self._places if (since := place.occupant.resting_since) is not None]
        return any(place.occupant.stop_resting() for _, place in sorted(resting, key=lambda one: one[0]))


class RunOptions(TypedDict, total=False):
    """Options of a ``Gateway`` that say how its servers are run."""

    timeout: float | None
    """Seconds for each request to a server, not counting the time a person takes. ``None``, the default, waits as long
    as the client does."""
    start_timeout: float
    """Seconds in which a server must open its session and list what it offers; by default 30, and 300 for a package
    runner (``npx``, ``uvx``, ``docker run`` ...). Also the seconds that it waits for a process while all are in use, by
    default 30."""
    start_timeouts: Mapping[str, float]
    """The same for single servers, by their names."""
    list_timeout: float
    """Seconds that lists wait, from the start of the gateway, for all servers that were never listed; 2 by default. A
    server that was late or failed last time is not waited for. The lists of those that come later are reported as
    changed."""
    starts: Start
    """When a server starts whose lists are known: ``"first-use"``, the default, or ``"eager"``, with the gateway. A
    server that was never listed always starts with the gateway."""
    idle_timeout: float | None
    """Seconds after which an unused server is stopped; ``None`` for never, 600 by default."""
    max_processes: int
    """Most processes at once, 64 by default. At the limit the server that was unused for longest is stopped."""
    lists: Path
    """Folder in which the lists of the servers are kept, so that the next gateway has them at once. By default they are
    not kept."""
    inherit_env: bool
    """Whether servers that are started get the whole environment of this program, as ``Client(inherit_env=)``; by
    default a safe part of it. A configured entry that may not have it gets the safe part in any case."""
    answer_within: float | None
    """Seconds that a client waits for a person to decide about its call of a tool; 50 by default. It is then told to
    ask again, and the call runs when it does, if a person has allowed it. ``None``: it waits as long as the host's
    ``review_timeout``. Only if the host's questions are in its store (the page, a ``Queue``)."""
    pending_for: float
    """Seconds that such a call waits for a person after its client was answered, by default a day."""
    sign_in: SignIn | None
    """Called before the gateway connects to a server, with the name of the server and the principal of the client.
    Returns what ``Client(auth=)`` takes, or ``None``. By default the gateway signs in nowhere."""


class _ConfirmsFor:
    """A host that is told whose the calls are; all else is the host's own."""

    def __init__(self, host: Host, principal: str) -> None:
        self._host = host
        self._principal = principal

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall:
        return await self._host.confirm(params, structs.replace(origin, principal=self._principal))

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        return await self._host.examine(result, params, structs.replace(origin, principal=self._principal))


class GatewayTerms(Struct, frozen=True, kw_only=True):
    """The settings that all servers behind a gateway share. See ``RunOptions``."""

    host: Host | None
    """Who decides which tools may be called; ``None`` if every call is passed on."""
    processes: Processes
    timeout: float | None = None
    start_timeout: float | None = None
    start_timeouts: Mapping[str, float] = {}
    list_timeout: float = LIST_TIMEOUT
    idle_timeout: float | None = IDLE_TIMEOUT
    starts: Start = "first-use"
    lists: KeptLists | None = None
    inherit_env: bool = False
    answer_within: float | None = ANSWER_WITHIN
    pending_for: float = PENDING_FOR
    sign_in: SignIn | None = None
    seal: Seal = field(default_factory=Seal)
    """Seals the ids of tasks."""
    principal: str | None = None
    """The principal that the servers are run for; ``None`` if clients have none."""

    @property
    def confirmer(self) -> Host | _ConfirmsFor | None:
        """Who decides about calls of tools, knowing whose they are."""
        return self.host if self.host is None or self.principal is None else _ConfirmsFor(self.host, self.principal)

    def time_to_start(self, name: str, where: Serves | Command | Address) -> float:
        """Return the seconds that a server may take to start."""
        given = (self.start_timeouts.get(name), getattr(where, "start_timeout", None), self.start_timeout)
        may_fetch = isinstance(where, Command) and may_download(where.argv)
        usual = DOWNLOAD_TIMEOUT if may_fetch else START_TIMEOUT
        return next((seconds for seconds in given if seconds is not None), usual)


def terms_of(host: Host | None, options: RunOptions) -> GatewayTerms:
    """Read the options. Raises ``ConfigError``: ``max_processes`` is less than 1, or ``starts`` is no such word."""
    starts = options.get("starts", "first-use")
    if starts not in get_args(Start):
        raise ConfigError(f"Gateway(starts=) is one of {', '.join(get_args(Start))}, not {starts!r}")
    given: dict[str, Any] = {**options}
    limit, folder = given.pop("max_processes", MAX_PROCESSES), given.pop("lists", None)
    if limit < 1:
        raise ConfigError(f"max_processes={limit}: a gateway needs at least one process")
    patience = options.get("start_timeout")
    return GatewayTerms(
        host=host,
        processes=Processes(limit, START_TIMEOUT if patience is None else patience),
        lists=None if folder is None else KeptLists(folder),
        **given,
    )
