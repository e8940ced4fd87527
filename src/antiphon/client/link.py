"""The connection of a client over its whole life: opened, reopened if the server has lost the session, closed.

Owns which connection is the current one (``targets`` connects), and the order of attempts when a session is opened: the
probe, then the handshake, then (over HTTP) the transport of the first revision.
Sources: 2026-07-28 basic/versioning and basic/transports, "Backward Compatibility".
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Generator, Sequence
from functools import partial
from types import CoroutineType
from typing import Any, Concatenate, ParamSpec, TypeVar, cast

from msgspec import Struct

from antiphon.channel import Channel
from antiphon.client.answers.answerers import Answers
from antiphon.client.client_middleware import ClientMiddlewareStack, ClientRequest
from antiphon.client.connection import targets
from antiphon.client.known_tools import KnownTools
from antiphon.client.notifications import ClientNotices
from antiphon.client.requests.attempts import PAUSES, RepeatingConnection, may_repeat, read_legacy, wait_for_turn
from antiphon.client.requests.request_calls import Calls, loose_origin
from antiphon.client.rounds.loop import PendingRound, RoundLimits
from antiphon.engine.connection import Connection
from antiphon.engine.request_telemetry import ConnectionWatch, make_watch
from antiphon.errors import (
    CallTimeout,
    ConfigError,
    ConnectionClosed,
    LocalProtocolError,
    PeerError,
    RemoteProtocolError,
)
from antiphon.machine.asyncio_tasks import stop_timeout, wait_at_most
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.transports.http.client import error_replies
from antiphon.wire.common import EmptyResult, Implementation, LoggingLevel
from antiphon.wire.envelope import read_data
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult
from antiphon.wire.logging import SetLevelRequestParams
from antiphon.wire.methods import MethodSpec
from antiphon.wire.origin import Launch, Origin
from antiphon.wire.revisions import REVISIONS, Revision, find_revision

log = logging.getLogger("antiphon.client")

PROBE_TIMEOUT = 5.0
"""Seconds a server has to answer the probe, which a legacy one may ignore (2026-07-28 basic/transports/stdio)."""


def choose_allowed_revisions(choice: str) -> tuple[Revision, ...]:
    """Return the revisions that a client's ``revision=`` allows; raises ``ConfigError`` for an unknown one."""
    if choice == "auto":
        return REVISIONS
    chosen = find_revision(choice)
    if chosen is None:
        names = ", ".join(one.name for one in REVISIONS)
        raise ConfigError(f'unknown protocol revision {choice!r}: choose "auto" or one of {names}')
    return (chosen,)


async def open_session(
    peer: Peer,
    allowed: tuple[Revision, ...],
    again: Callable[..., Awaitable[Peer]],
    too_old: Callable[[PeerError], bool],
) -> Peer:
    """Determine the server's era, and open the session in it; returns the connection it is open on.

    ``again`` opens a new connection: some legacy servers exit on the probe, some only speak the oldest transport
    (``oldest=True``), which ``too_old`` recognises by their answer to ``initialize``. Raises ``ConfigError`` if the
    server speaks none of the allowed revisions, ``RemoteProtocolError`` if its answer cannot be read or names a
    revision that we did not propose, and ``PeerError`` if it refused.
    """
    if any(one.modern for one in allowed):
        try:
            if await _probe_server(peer, allowed):
                return peer
        except ConnectionClosed:
            if all(one.modern for one in allowed):
                raise
            peer = await again()
    legacy = tuple(one for one in allowed if not one.modern)
    if not legacy:
        raise ConfigError(f"the server does not speak {allowed[-1].name}; it wants a handshake of an earlier revision")
    try:
        await _shake_hands(peer, legacy)
    except PeerError as error:
        # A server that starts slowly may answer the probe after its deadline, and be in the modern era then:
        # probe again.
        if is_modern_error(error) and legacy != allowed and await _probe_server(peer, allowed):
            return peer
        if not too_old(error):
            raise
        try:
            peer = await again(oldest=True)
        except ConnectionClosed:
            raise error from None
        await _shake_hands(peer, legacy)
    return peer


async def _shake_hands(peer: Peer, legacy: tuple[Revision, ...]) -> None:
    try:
        raw = await peer.request(peer.session.initialize(legacy[-1]), timeout=None)
    except PeerError as error:
        if error.code != error_replies.BROKEN:
            raise
        # The server may have closed the connection on which it answered the probe. Opening two sessions does no harm.
        raw = await peer.request(peer.session.initialize(legacy[-1]), timeout=None)
    agreed = read_legacy(raw, "initialize", InitializeResult)
    wait = peer.send(peer.session.handle_initialized(agreed, legacy))
    if wait is not None:
        await wait


async def _probe_server(peer: Peer, allowed: tuple[Revision, ...], *, again: bool = True) -> bool:
    """Probe the server; return whether it is modern and the session is open.

    After a refusal with -32022 that names a revision we speak (2026-07-28 basic/versioning), and after a failure that
    may pass, it probes once more.
    """
    only_modern = all(one.modern for one in allowed)
    try:
        raw = await peer.request(peer.session.probe(allowed[-1]), timeout=None if only_modern else PROBE_TIMEOUT)
        found = read_legacy(raw, "server/discover", DiscoverResult)
    except (CallTimeout, RemoteProtocolError):
        # Silence, or an answer that no modern server gives.
        return False
    except PeerError as error:
        if error_replies.is_refused_outright(error):
            # The handshake would fail too, and an error about revisions would be a guess.
            raise
        if error_replies.is_passing(error) and (again or only_modern):
            if not again:
                raise
            # A modern server would refuse the handshake of a client that takes it for a legacy one.
            return await _probe_server(peer, allowed, again=False)
        if not is_modern_error(error):
            return False
        if again and _offers_era(error, allowed, modern=True):
            return await _probe_server(peer, allowed, again=False)
        if _offers_era(error, allowed, modern=False):
            return False
        raise
    return peer.session.handle_discovery(found, allowed) is not None


def _offers_era(error: PeerError, allowed: tuple[Revision, ...], *, modern: bool) -> bool:
    """Return whether a server that refuses our revision names one of this era that we speak (2026-07-28 versioning)."""
    offered = read_data(error, "supported")
    return isinstance(offered, list) and any(one.name in offered for one in allowed if one.modern is modern)


P = ParamSpec("P")
T = TypeVar("T")
Peer = Connection[ClientSession]

_LAST_ANSWERS = 1.0
"""Seconds that a connection whose session is lost has to end by itself before another one is opened."""


class LinkSettings(Struct, frozen=True, kw_only=True):
    """The options with which a connection is opened. See ``Client``."""

    where: targets.Serves | targets.Command | targets.Address
    allowed: tuple[Revision, ...]
    answers: Answers
    limits: RoundLimits
    info: Implementation
    log_level: LoggingLevel | None
    timeout: float | None
    notices: ClientNotices
    tools: KnownTools
    errlog: Callable[[str], object] | None
    inherit_env: bool
    wrap: Callable[[Channel], Channel] | None


class ServerLink:
    """The connection to one server. See ``Client.connect`` for what opening raises."""

    def __init__(self, settings: LinkSettings) -> None:
        self._settings = settings
        self._is_on_network = isinstance(settings.where, targets.Address)
        settings.notices.on_tools_changed = settings.tools.forget
        self._opened: targets.Opened | None = None
        self._reached: Calls | None = None
        """Calls of the newest connection, whose session may not be open yet."""
        self._calls: Calls | None = None
        """Calls of the newest open session; ``None`` if the client is closed."""
        self._log_level: LoggingLevel | None = None
        self._watch: ConnectionWatch | None = None
        """Reports the calls on the newest connection to the telemetry, if that is configured."""
        self._gate = asyncio.Lock()
        self._opening: asyncio.Timeout | None = None
        """The deadline of the session that is being opened; ``None`` at other times."""

    @property
    def is_open(self) -> bool:
        """Whether it was opened and not closed since. The connection may be lost nevertheless."""
        return self._calls is not None

    @property
    def is_usable(self) -> bool:
        """Whether it is open, and its connection has not ended."""
        return self._calls is not None and not self._calls.peer.is_over

    @property
    def session(self) -> ClientSession:
        """The rules of the current connection."""
        return self.calls.session

    @property
    def calls(self) -> Calls:
        """The calls of the current connection."""
        if self._calls is None:
            raise LocalProtocolError("Not connected: use the client inside `async with`")
        return self._calls

    @property
    def is_http(self) -> bool:
        """Whether the server is reached by an HTTP URL."""
        where = self._settings.where
        return isinstance(where, targets.Address) and where.url.startswith("http")

    def run(
        self, call: Callable[Concatenate[Calls, P], CoroutineType[Any, Any, T]], *args: P.args, **options: P.kwargs
    ) -> CoroutineType[Any, Any, T]:
        """Make a call. On a network, a lost connection or session is opened again, and the call repeated.

        2025-11-25 basic/transports, Session Management: on 404 a client "MUST start a new session". A call is repeated
        if it was certainly not carried out, or if it may be carried out twice (``attempts``). Otherwise its error is
        raised, and the next call opens a new connection.
        """
        made = self._run(call, *args, **options) if self._is_on_network else call(self.calls, *args, **options)
        return made if self._watch is None else self._watch.call(made, *_get_subject(args), self._revision)

    async def _run(self, call: Callable[Concatenate[Calls, P], Awaitable[T]], *args: P.args, **options: P.kwargs) -> T:
        time = cast("TimeLeft", options["timeout"])
        stale = None
        for pause in (0.0, *PAUSES, None):
            try:
                calls = self.calls
                if calls is stale or calls.peer.is_over:
                    async with time.limit(_get_subject(args)[0]):
                        calls = await self._open_anew()
            except (PeerError, ConnectionClosed) as error:
                # Nothing was sent. Before the first attempt this is final; after it the server may be
                # restarting.
                is_final = isinstance(error, PeerError) and error.code != error_replies.UNREACHABLE
                if stale is None or pause is None or is_final:
                    raise
                lost = error
            else:
                try:
                    result = await call(calls, *args, **options)
                except (PeerError, ConnectionClosed) as error:
                    if pause is None or not self._is_worth_another(error, args):
                        raise
                    stale, lost = calls, error
                else:
                    # ``isinstance`` takes six times as long to say that something is not a struct of a class.
                    if len(args) > 1 and type(args[1]) is SetLevelRequestParams:
                        self._log_level = args[1].level
                    return result
            await wait_for_turn(time, pause, lost)
        raise AssertionError("the last attempt has returned or raised")

    def _is_worth_another(self, error: PeerError | ConnectionClosed, args: tuple[object, ...]) -> bool:
        if isinstance(error, PeerError):
            return error_replies.has_session_gone(error)
        # If the owner has closed the client, nothing must be opened again. The next step of a call by hand may not be
        # carried out twice.
        is_by_hand = bool(args) and isinstance(args[0], PendingRound)
        return self._calls is not None and not is_by_hand and may_repeat(*_get_subject(args), self._settings.tools)

    def _revision(self) -> Revision | None:
        return self._calls.session.revision if self._calls is not None else None

    async def _open_anew(self) -> Calls:
        """Replace the connection; concurrent calls that find the old one lost share the new one."""
        calls = self.calls
        async with self._gate:
            if self.calls is calls:
                await self._renew(calls)
        return self.calls

    async def _renew(self, old: Calls) -> None:
        # Concurrent calls on it are still finding out whether they were carried out.
        await wait_at_most(_LAST_ANSWERS, old.peer.wait_ended())
        await self._open()
        offered = self.session.server_capabilities.logging is not None
        if self._log_level is not None and offered and not self.calls.is_modern:
            level, time = SetLevelRequestParams(level=self._log_level), TimeLeft(self._settings.timeout)
            with self.tolerate_refused_level():
                await self.calls.plain("logging/setLevel", level, EmptyResult, timeout=time)

    @contextlib.contextmanager
    def tolerate_refused_level(self) -> Generator[None]:
        """Go on if a server declares logging and refuses ``logging/setLevel``: it sends the messages it likes."""
        try:
            yield
        except (PeerError, RemoteProtocolError) as error:
            if isinstance(error, PeerError) and (
                not error.remote or error_replies.is_passing(error) or error_replies.is_refused_outright(error)
            ):
                raise
            log.warning("the server declares logging, but does not set its level: %s", error)

    async def open(self) -> None:
        """Reach the server and open a session. See ``Client.connect``."""
        async with self._gate:
            await self._open()

    async def _open(self) -> None:
        limit = self._settings.timeout
        try:
            async with asyncio.timeout(limit) as self._opening:
                too_old = targets.speaks_oldest(self._settings.where)
                await open_session(await self._reach(), self._settings.allowed, self._reach, too_old)
            self._calls = self._reached
        except BaseException as error:
            cause = _failure_of(self._opened) if isinstance(error, ConnectionClosed) else None
            # A wrapper of the channel may run into a deadline of its own.
            if isinstance(error, TimeoutError) and self._opening is not None and self._opening.expired():
                cause = self._too_late()
            await self._leave()
            if cause is not None:
                raise cause from None
            raise
        finally:
            self._opening = None

    @contextlib.contextmanager
    def _standing_still(self) -> Generator[None]:
        """Let every deadline stand still: a person is signing in."""
        peer = None if self._reached is None else self._reached.peer
        waiters = () if peer is None else peer.waiting.pause()
        try:
            with contextlib.nullcontext() if self._opening is None else stop_timeout(self._opening):
                yield
        finally:
            if peer is not None:
                peer.waiting.resume(waiters)

    async def _reach(self, *, oldest: bool = False) -> Peer:
        if (cause := _failure_of(self._opened)) is not None:
            # A server in memory has failed: starting it again would hide the reason.
            raise cause
        await self._leave()
        wanted = self._settings
        target = targets.describe_location(wanted.where)
        self._opened = await targets.open_channel(
            wanted.where,
            errlog=wanted.errlog,
            inherit_env=wanted.inherit_env,
            oldest=oldest,
            pause=self._standing_still,
            param_headers=wanted.tools.headers,
            equip=partial(wanted.answers.equip, partial(self._origin, target)),
        )
        channel = wanted.wrap(self._opened.channel) if wanted.wrap is not None else self._opened.channel
        session = ClientSession(wanted.info, wanted.answers.capabilities())
        session.passes_on = wanted.answers.extension is not None
        session.set_log_level(wanted.log_level)
        calls = Calls(session, wanted.answers, target, wanted.limits)
        where = wanted.where
        over = "tcp" if isinstance(where, targets.Address) else "pipe" if isinstance(where, targets.Command) else None
        url = where.url if isinstance(where, targets.Address) else None
        calls.watch = self._watch = told = make_watch(channel, over=over, url=url)
        if told is not None:
            session.carries = told.carries
        handlers = calls.handlers() if told is None else told.serving(calls.handlers())
        kind = RepeatingConnection if self.is_http else Connection[ClientSession]
        notices = wanted.notices
        peer = kind(channel, session, handlers, on_notified=notices.take, on_end=notices.ended, stops_clock=True)
        if isinstance(peer, RepeatingConnection):
            peer.tools = wanted.tools
        calls.peer = peer
        self._reached = calls
        peer.start()
        return peer

    def _origin(self, target: str | Sequence[str] | Launch) -> Origin:
        """Return the origin of an ask through the model API, which may come before the session is open."""
        calls = self._reached
        return loose_origin(target) if calls is None else calls.loose_origin()

    async def close(self) -> None:
        """End the session and, if it is a child process, the server."""
        if self._reached is not None and self._reached.peer.loop is not asyncio.get_running_loop():
            raise LocalProtocolError("It was opened on another event loop: close it there")
        self._calls, opened = None, self._opened
        await self._leave()
        await self._settings.answers.wait_reported()
        if (failure := _failure_of(opened)) is not None:
            log.error("the server failed when it ended", exc_info=failure)

    async def _leave(self) -> None:
        """Close the newest connection."""
        reached, self._reached = self._reached, None
        opened, self._opened = self._opened, None
        if reached is not None:
            await reached.peer.close()
        elif opened is not None:
            # No session was opened on it, for example because ``wrap=`` failed.
            await opened.channel.close()
        if opened is not None and opened.serving is not None:
            await asyncio.wait([opened.serving])

    def _too_late(self) -> CallTimeout:
        channel = self._opened.channel if self._opened is not None else None
        said = channel.closed_error().stderr if channel is not None else ""
        text = f"The server did not open a session within {self._settings.timeout:g} s"
        if noise := getattr(channel, "noise_tail", None):
            text += f"; on stdout, where only messages belong, it wrote {noise[-1]!r}"
        if "http://" in said:
            text += "; its output names an address: if it serves HTTP, that is the target"
        return CallTimeout(f"{text}\n--- stderr of the server ---\n{said}" if said else text)


class LinkWithMiddleware(ServerLink):
    """A link whose calls pass through middleware: once each, also if the call is repeated.

    Tool calls and forwarded requests have passed it already, before anybody was asked for consent (``ToolCalls``,
    ``Client.forward``). The opening of a session, ``ping`` and the next step of a call by hand do not pass it.
    """

    def __init__(self, settings: LinkSettings, middleware: ClientMiddlewareStack) -> None:
        super().__init__(settings)
        self._middleware = middleware

    def run(
        self, call: Callable[Concatenate[Calls, P], CoroutineType[Any, Any, T]], *args: P.args, **options: P.kwargs
    ) -> CoroutineType[Any, Any, T]:
        """Make a call, through the middleware."""
        method, params = _get_subject(args)
        made: Any = super().run
        if method in ("ping", "tools/call") or not isinstance(args[0], str):
            return made(call, *args, **options)
        # ``Calls.page`` also returns a size, ``Calls.counted`` a number of rounds; 0 if the middleware answered.
        beside: tuple[int, ...] = (0,) if call in (Calls.page, Calls.counted) else ()

        async def last(request: ClientRequest) -> Any:
            nonlocal beside
            result = await made(call, method, request.params, *args[2:], **options)
            if not beside:
                return result
            beside = (result[1],)
            return result[0]

        async def run_call() -> Any:
            result = await self._middleware.run(ClientRequest(method, params), last)
            return (result, *beside) if beside else result

        return run_call()


def _failure_of(opened: targets.Opened | None) -> BaseException | None:
    """Return the exception that ended a server in memory; the channel only knows that the server is gone."""
    serving = opened.serving if opened is not None else None
    if serving is None or not serving.done() or serving.cancelled():
        return None
    return serving.exception()


def _get_subject(args: tuple[object, ...]) -> tuple[str, object]:
    """Return the method and the params of a call. All calls but ``ping`` have both, or a pending round."""
    if args and isinstance(args[0], MethodSpec):
        return args[0].name, args[1]
    if not args or not isinstance(args[0], str | PendingRound):
        return "ping", None
    if isinstance(args[0], PendingRound):
        return args[0].method, args[0].params
    return args[0], args[1]
