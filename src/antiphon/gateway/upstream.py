"""One server behind a gateway: started on first use, stopped when unused, and never started twice at the same time.

Owns the client of that server, its offer and its state. ``requests`` sends it the requests of clients.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from functools import cached_property
from types import TracebackType
from typing import Any, Literal

from msgspec import Struct, field

from antiphon import errors
from antiphon.client.client import Client
from antiphon.client.connection.targets import Address, Command, Serves, Target, describe_location, locate_target
from antiphon.client.requests.request_calls import loose_origin
from antiphon.gateway.offer import KINDS, HeldSkills, KeptOffer, Kind, UpstreamOffer, fetch_offer, list_changes
from antiphon.gateway.relayed_asks import Answerers, During, LogsPassedOn, PassesOn
from antiphon.gateway.terms import Full, GatewayTerms, ProcessPlace
from antiphon.machine.asyncio_tasks import end_tasks, ignore_error, start_in
from antiphon.server.server_middleware import ServerRequest
from antiphon.wire.logging import LoggingLevel, is_loud_enough
from antiphon.wire.lossless import Received
from antiphon.wire.origin import Origin, identify_target
from antiphon.wire.revisions import find_revision

log = logging.getLogger("antiphon.gateway")

State = Literal["stopped", "starting", "running", "failed"]

_PAUSES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0)
"""Seconds until a failed server may be started again, so that a server that always fails does not cost much."""

MAX_HEARD = 20
"""Most lines of a server's standard error that are kept, to be shown with an error."""

MAX_LINE = 500
"""Most characters of such a line."""

_PACE = 1.0
"""Seconds between two listings of a server that reports changes all the time."""


class UpstreamUnavailable(errors.AntiphonError):
    """A server behind the gateway cannot be used now; the message names it, the reason, and the next attempt."""


class _Run(Struct, eq=False):
    """One run of a server, from its start to its end."""

    client: Client
    place: ProcessPlace | None
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    """Set once its first lists are taken: what is listed again must not be replaced by them."""
    following: asyncio.Task[None] | None = None
    log_level: LoggingLevel | None = None
    """The log level that was set at the server, if its revision is up to 2025-11-25."""


class _Use:
    """See ``Upstream.use_for``. A class, because a generator takes ten times as long, in every call."""

    __slots__ = ("_client", "_during", "_request", "_upstream")

    _client: Client
    _during: During

    def __init__(self, upstream: Upstream, request: ServerRequest) -> None:
        self._upstream = upstream
        self._request = request

    async def __aenter__(self) -> Client:
        upstream = self._upstream
        upstream.take()
        try:
            client = self._client = upstream.client or await upstream.started()
            during = self._during = upstream.answerers.open.during(self._request, client)
            if during.turn is not None:
                await during.turn.acquire()
            during.begin()
        except BaseException:
            upstream.let_go()
            raise
        return client

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        upstream = self._upstream
        try:
            self._during.end()
            if error is None:
                # Reset after a call, not after a start: a server that ends in every call must not be started for each.
                upstream.failures = 0
            elif (told := upstream.unusable(self._client, error)) is not None:
                raise told from error
        finally:
            upstream.let_go()


class Upstream(Struct, eq=False, dict=True, weakref=True):
    """A server behind a gateway."""

    name: str
    """The configured name."""
    target: Target
    answerers: Answerers
    """Answer what the server asks."""
    _terms: GatewayTerms
    """How it is run."""
    _changed: Callable[[Kind], object]
    """Called with the kind of list that has changed."""
    _kept: KeptOffer | None = None
    """Keeps its offer for the next gateway; ``None`` to keep none."""
    offer: UpstreamOffer = field(default_factory=UpstreamOffer)
    is_listed: bool = False
    """Whether ``offer`` is known, from the server or from an earlier gateway."""
    was_late: bool = False
    """Whether it has failed or was late, in this gateway or an earlier one, so that no list waits for it."""
    state: State = "stopped"
    since: float = field(default_factory=time.time)
    """When it entered this state, in seconds since the epoch."""
    error: str | None = None
    """The reason of its last failure."""
    failures: int = 0
    """Number of failures in a row."""
    process: int | None = None
    """The id of its process on this machine; ``None`` without one."""
    heard: deque[str] = field(default_factory=lambda: deque(maxlen=MAX_HEARD))
    """The last lines that it wrote to standard error."""
    resting_since: float | None = None
    """Since when nobody uses it, in the event loop's time; ``None`` while it is used or has no process."""
    skills: HeldSkills = field(default_factory=HeldSkills)
    """The entries of its skills, and those that were approved."""
    _run: _Run | None = None
    _starting: asyncio.Task[Client] | None = None
    _leaving: set[asyncio.Task[None]] = set()
    _users: int = 0
    _rest: asyncio.TimerHandle | None = None
    _again_at: float = 0.0
    _is_closed: bool = False

    def use_for(self, request: ServerRequest) -> AbstractAsyncContextManager[Client]:
        """Use the server for a request of a client; it is started if it is not running.

        Raises ``UpstreamUnavailable``: it cannot be started, failed a moment ago, ended during the request, or sent an
        invalid answer.
        """
        return _Use(self, request)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[Client]:
        """Use the server for work of the gateway itself; it is started if it is not running.

        Raises ``UpstreamUnavailable``: it cannot be started, or failed a moment ago.
        """
        self.take()
        try:
            yield await self.started()
        finally:
            self.let_go()

    def take(self) -> None:
        """Keep the server from being stopped as unused until ``let_go`` is called."""
        self._users += 1
        self.resting_since = None

    def let_go(self) -> None:
        """End one ``take``."""
        self._users -= 1
        self._begin_rest()

    @cached_property
    def identity(self) -> str:
        """Its identity, as in ``origin.identity``; empty if its target cannot be used."""
        try:
            return identify_target(describe_location(locate_target(self.target)))
        except errors.ConfigError:
            return ""

    def make_origin(self) -> Origin:
        """Make the origin of what is asked about it, outside of any call that it knows."""
        return loose_origin(describe_location(locate_target(self.target)))

    def notify(self, method: str, params: Received) -> None:
        """Send the server a notification of a client, if it is running."""
        if self._run is not None and self._run.client.is_open:
            self._run.client.notify(method, params)

    async def want_logs(self, client: Client, level: LoggingLevel) -> None:
        """Ask the server for messages of a level, unless it sends them already; newer servers are asked by request.

        It is asked for the least severe level that any client wants; each client's session leaves out what is below its
        own. Source: 2025-11-25 server/utilities/logging.
        """
        run, spoken = self._run, find_revision(client.revision)
        if run is None or run.client is not client or spoken is None or spoken.modern:
            return
        is_set = run.log_level is not None and is_loud_enough(level, run.log_level)
        if client.server_capabilities.logging is not None and not is_set:
            run.log_level = level
            with suppress(errors.PeerError):
                # A server that refuses the level, or lacks the method that it declares, costs nobody the call.
                await client.set_log_level(level)

    @property
    def client(self) -> Client | None:
        """The client of the server, if it runs. The caller must hold the server: see ``take``."""
        run = self._run
        # While others use it, the client of a server on the network may be about to connect again.
        may_be_lost = self._users > 1 and run is not None and run.place is None
        return run.client if run is not None and (may_be_lost or run.client.is_open) else None

    @property
    def is_used(self) -> bool:
        """Whether the server is in use."""
        return self._users > 0

    @property
    def pause(self) -> float:
        """Seconds until it may be started again after a failure."""
        return max(0.0, self._again_at - asyncio.get_running_loop().time())

    def describe_start(self) -> str | None:
        """Describe how far the server has come, with the last line of its standard error, while it starts."""
        if self.state != "starting":
            return None
        return f"Starting {self.name}" + (f": {self.heard[-1]}" if self.heard else "")

    def recall(self) -> None:
        """Load the offer that an earlier gateway has kept, if there is one."""
        if self._kept is None:
            return
        if (offer := self._kept.load()) is not None:
            self.offer, self.is_listed = offer, True
            self.skills.renew(offer.skills)
        self.was_late = self._kept.was_late

    async def note_late(self) -> None:
        """Remember, also for later gateways, that no list waits for this server until it has been listed."""
        if not self.is_listed and not self.was_late:
            self.was_late = True
            if self._kept is not None:
                await self._kept.keep(None)

    def unusable(self, client: Client, error: BaseException) -> errors.AntiphonError | None:
        """Note how a request has failed. Returns the error for the gateway's client, if the server is at fault."""
        if isinstance(error, errors.ConnectionClosed):
            if self._run is not None and self._run.client is client:
                self._note_failure(str(error))
                self._end(self._run)
            return self._unavailable(f"it ended during the request, and may have done what it was asked: {error}")
        if isinstance(error, errors.RemoteProtocolError | errors.CallTimeout):
            return UpstreamUnavailable(
                f"{self.name!r} may have done this, but gave no answer that can be used: {error}"
            )
        return None

    async def start(self) -> None:
        """Start the server if it is not running. See ``running``."""
        async with self.running():
            pass

    async def close(self) -> None:
        """Stop the server for good."""
        self._is_closed = True
        self._forget_rest()
        await end_tasks(self._starting)
        if self._run is not None:
            self._end(self._run)
        if self._leaving:
            await asyncio.wait(self._leaving)
        self._enter("stopped")

    # --- starting -----------------------------------------------------------------------------------------------

    async def started(self) -> Client:
        """Return the client of the server, once it runs. The caller must hold the server. See ``running``."""
        if (client := self.client) is not None:
            return client
        if self._run is not None:
            self._end(self._run)
        if self._is_closed:
            raise self._unavailable("it was taken out of the configuration, or the gateway is closing")
        if self._starting is None and self.pause > 0:
            raise self._unavailable(f"{self.error}; it is tried again in {max(1, round(self.pause))} s")
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_task(self._start())
            self._starting.add_done_callback(self._start_ended)
            self._starting.add_done_callback(ignore_error)
        # All callers wait for the same start; cancelling one of them must not cancel it.
        return await asyncio.shield(self._starting)

    def _start_ended(self, _starting: asyncio.Task[Client]) -> None:
        self._starting = None
        self._begin_rest()

    async def _start(self) -> Client:
        self._enter("starting")
        run: _Run | None = None
        limit = 0.0
        try:
            where = locate_target(self.target)
            limit = self._terms.time_to_start(self.name, where)
            run = await self._connect_client(where)
            async with asyncio.timeout(limit):
                await run.client.connect()
                # Follow changes before the offer is listed, so that no change is missed.
                subscribed = asyncio.Event()
                run.following = asyncio.get_running_loop().create_task(self._follow(run, subscribed))
                await subscribed.wait()
                offer = await fetch_offer(run.client, self.offer, server=self.name)
        except BaseException as error:
            self._enter("failed")
            if run is not None:
                await self._leave(run)
            if isinstance(error, TimeoutError) and not isinstance(error, errors.CallTimeout):
                error = TimeoutError(f"it did not open a session within {limit:g} s")
            if not isinstance(error, (errors.AntiphonError, OSError, TimeoutError)):
                raise
            if not isinstance(error, Full):
                self._note_failure(str(error))
                await self.note_late()
            raise self._unavailable(str(error)) from None
        self._run, self.error = run, None
        self._enter("running")
        await self._take(offer)
        run.listed.set()
        return run.client

    async def _connect_client(self, where: Serves | Command | Address) -> _Run:
        """Connect a client to the server, once there is a place for its process."""
        terms = self._terms
        place = await terms.processes.enter(self) if isinstance(where, Command) else None
        try:
            client = Client(
                self.target,
                auth=await terms.sign_in(self.name, terms.principal) if terms.sign_in is not None else None,
                sampling=self.answerers.sampling,
                elicitation=self.answerers.elicitation,
                roots=self.answerers.roots,
                confirm=terms.confirmer,
                timeout=terms.timeout,
                errlog=self._heard,
                inherit_env=terms.inherit_env,
                on_log=LogsPassedOn(self.answerers.open),
                extension=PassesOn(self.answerers),
                wrap=self._note_process,
            )
        except BaseException:
            if place is not None:
                place.give_back()
            raise
        return _Run(client, place)

    def _note_process(self, channel: Any) -> Any:
        self.process = getattr(channel, "pid", None)
        return channel

    def _enter(self, state: State) -> None:
        self.state, self.since = state, time.time()

    def _note_failure(self, why: str) -> None:
        if why != self.error:
            log.warning("%s failed: %s", self.name, why)
        self.error = why
        pause = _PAUSES[min(self.failures, len(_PAUSES) - 1)]
        self.failures += 1
        self._again_at = asyncio.get_running_loop().time() + pause

    def _unavailable(self, why: str) -> UpstreamUnavailable:
        return UpstreamUnavailable(f"The server {self.name!r} is not available: {why}")

    def _heard(self, line: str) -> None:
        self.heard.append(line[:MAX_LINE])
        log.info("%s: %s", self.name, line)

    # --- running ------------------------------------------------------------------------------------------------

    async def _follow(self, run: _Run, subscribed: asyncio.Event) -> None:
        """Follow changes until the connection ends; ``subscribed`` is set once they are subscribed to."""
        has = run.client.server_capabilities
        tools, prompts, resources = has.tools is not None, has.prompts is not None, has.resources is not None
        changed: set[Kind] = set()
        relisting: asyncio.Task[None] | None = None
        try:
            while tools or prompts or resources:
                async with run.client.listen(tools=tools, prompts=prompts, resources=resources) as news:
                    subscribed.set()
                    async for change in news:
                        if change.kind != "resource":
                            # Collected, so that a thousand changes in a row cost one listing.
                            changed.add(change.kind)
                        if changed and (relisting is None or relisting.done()):
                            relisting = asyncio.get_running_loop().create_task(self._relist(run, changed))
                if self._run is run and not run.client.is_open and not self._users:
                    # The server has ended by itself, and is started again on next use.
                    return self._end(run)
                await asyncio.sleep(_PACE)
                # Only the subscription has ended, or the client has connected again: anything may have changed.
                changed.update(KINDS)
        except errors.AntiphonError as error:
            log.debug("%s reports no more changes: %s", self.name, error)
        finally:
            subscribed.set()
            await end_tasks(relisting)

    async def _relist(self, run: _Run, changed: set[Kind]) -> None:
        """List the kinds that have changed, until nothing changes any more; at most once in ``_PACE`` seconds."""
        await run.listed.wait()
        while changed:
            kinds = frozenset(changed)
            changed.clear()
            try:
                await self._take(await fetch_offer(run.client, self.offer, kinds, self.name))
            except errors.AntiphonError as error:
                log.warning("%s: the changed lists cannot be fetched: %s", self.name, error)
            await asyncio.sleep(_PACE)

    async def _take(self, offer: UpstreamOffer) -> None:
        """Set the present offer, and report the differences to the last one."""
        different, self.offer = list_changes(self.offer, offer), offer
        self.skills.renew(offer.skills)
        was_listed, self.is_listed = self.is_listed, True
        for kind in different if was_listed else KINDS:
            self._changed(kind)
        if self._kept is not None:
            await self._kept.keep(offer)

    # --- stopping -----------------------------------------------------------------------------------------------

    def stop_resting(self) -> bool:
        run = self._run
        if self.resting_since is None or run is None:
            return False
        if run.client.is_answering:
            # The server has asked something outside of any call, and a person may be about to answer.
            self._rest_on()
            return False
        self._end(run)
        return True

    def _begin_rest(self) -> None:
        run = self._run
        if run is None or self._users or self.resting_since is not None:
            return
        self.resting_since = asyncio.get_running_loop().time()
        if self._rest is None:
            self._rest_on()
        if run.place is not None:
            self._terms.processes.make_room()

    def _rest_on(self, since: float | None = None) -> None:
        """Set a timer to stop the server if it is unused for long enough; counted from ``since``, by default from now.

        The timer runs on while the server is used: to reset it in each call would cost more than to let it run out.
        """
        loop, limit = asyncio.get_running_loop(), self._terms.idle_timeout
        if self._rest is not None:
            self._rest.cancel()
        if limit is not None:
            self._rest = loop.call_at((loop.time() if since is None else since) + limit, self._has_rested)

    def _has_rested(self) -> None:
        self._rest = None
        since, limit = self.resting_since, self._terms.idle_timeout
        if since is None or limit is None:
            return
        if asyncio.get_running_loop().time() < since + limit:
            self._rest_on(since)
        else:
            self.stop_resting()

    def _forget_rest(self) -> None:
        self.resting_since = None
        if self._rest is not None:
            self._rest.cancel()
            self._rest = None

    def _end(self, run: _Run) -> None:
        """Give this run up at once, and close its client in the background."""
        self._run = None
        self._forget_rest()
        self._enter("stopped")
        start_in(self._leaving, self._leave(run))

    async def _leave(self, run: _Run) -> None:
        if run.following is not asyncio.current_task():
            await end_tasks(run.following)
        try:
            with suppress(errors.AntiphonError):
                await run.client.close()
        finally:
            if self._run is None and self._starting is None:
                self.process = None
            if run.place is not None:
                run.place.give_back()
