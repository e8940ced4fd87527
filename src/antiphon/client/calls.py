"""Requests to the server and its asks to us, on one connection: typed, timed, counted, and tied to each other.

Owns what a call of ours is while it is open, so that an ask can be shown with the call it belongs to.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, TypeVar

import msgspec
from msgspec import Struct

from antiphon.client.answer import Answers
from antiphon.client.connect import Address, Command, Serves
from antiphon.client.rounds import RoundLimits, run_rounds
from antiphon.engine.connection import Connection, Handler
from antiphon.engine.waiting import OnProgress
from antiphon.errors import CallTimeout, InvalidRequest, PeerError, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Request
from antiphon.wire.common import RequestParams, Result, RoundParams, Wire
from antiphon.wire.envelope import ErrorObject
from antiphon.wire.failure import from_wire
from antiphon.wire.lifecycle import DiscoverResult, ProgressNotificationParams
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.origin import Origin, OriginCall, Round, describe_target, identify
from antiphon.wire.revisions import LATEST
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.unknown import decode

__all__ = ["Calls"]

log = logging.getLogger("antiphon.client")

R = TypeVar("R", bound=Wire)

_numbers = count(1)
"""Names calls and asks on this side; never reused while the process lives."""


class _Open(Struct):
    """A call of ours that is open. The origin is made when the first ask needs it."""

    id: int
    method: str
    params: Wire

    def origin(self) -> OriginCall:
        arguments = getattr(self.params, "arguments", None)
        if isinstance(arguments, msgspec.Raw):
            arguments = msgspec.json.decode(arguments or b"{}")
        name = getattr(self.params, "name", None) or getattr(self.params, "uri", None)
        return OriginCall(id=str(self.id), method=self.method, name=name, arguments=arguments)


class Calls:
    """The calls of one connection. ``peer`` is set once the connection exists."""

    def __init__(
        self, session: ClientSession, answers: Answers, where: Serves | Command | Address, limits: RoundLimits
    ) -> None:
        self.session = session
        self.peer: Connection[ClientSession]
        self._answers = answers
        self._limits = limits
        self._open: dict[int, _Open] = {}
        self._ask_count = 0
        self._opened = 0
        target = _named(where)
        self._identity = identify(target)
        self._target = describe_target(target)

    @property
    def is_modern(self) -> bool:
        """Whether the agreed revision has no handshake."""
        return self.session.revision is not None and self.session.revision.modern

    # --- our requests -------------------------------------------------------------------------------------------

    async def plain(self, method: str, params: Wire, result: type[R], *, timeout: float | None) -> R:
        """Make a request that has no rounds, and decode its result."""
        raw = await self.peer.request(self.session.request(METHODS[method], params), timeout=timeout)
        if not self.is_modern:
            return _read(raw, method, result)
        done = _read_modern(raw, method, result)
        if isinstance(done, InputRequiredResult):
            raise RemoteProtocolError(f"The server asked for input in {method}, which has no rounds")
        return done

    async def rounds(
        self,
        method: str,
        params: RoundParams,
        result: type[R],
        *,
        timeout: float | None,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> R:
        """Make a request that may have rounds, and decode its result."""
        return (await self.counted(method, params, result, timeout=timeout, progress=progress, meta=meta))[0]

    async def counted(
        self,
        method: str,
        params: RoundParams,
        result: type[R],
        *,
        timeout: float | None,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> tuple[R, int]:
        """Make a request that may have rounds; return its result and how many rounds it had.

        ``timeout`` counts the time in which the server works, not that in which we answer.
        """
        call = _Open(next(_numbers), method, params)
        self._opened += 1
        self._open[call.id] = call
        on_progress = _reporter(progress) if progress is not None else None
        left = timeout
        loop = asyncio.get_running_loop()

        async def send(current: RoundParams) -> R | InputRequiredResult:
            nonlocal left
            outgoing = self.session.request(METHODS[method], current, wants_progress=progress is not None, meta=meta)
            began = loop.time()
            try:
                raw = await self.peer.request(outgoing, timeout=left, on_progress=on_progress)
            except CallTimeout:
                raise CallTimeout(f"{method} was not answered within {timeout:g} s") from None
            except PeerError as error:
                raise _lifted(method, error) from None
            if left is not None:
                left = max(0.0, left - (loop.time() - began))
            return _read(raw, method, result) if not self.is_modern else _read_modern(raw, method, result)

        try:
            if not self.is_modern:
                done = await send(params)
                if isinstance(done, InputRequiredResult):
                    raise RemoteProtocolError("The server asked for input in a revision without rounds")
                return done, 0
            return await run_rounds(
                send, lambda spec, ask, this: self._answer_round(call, spec, ask, this), params, self._limits
            )
        finally:
            del self._open[call.id]
            if not self._open:
                self._ask_count = self._opened = 0

    async def ping(self, timeout: float | None) -> None:
        """See ``Client.ping``."""
        method = "server/discover" if self.is_modern else "ping"
        await self.plain(method, RequestParams(), DiscoverResult if self.is_modern else Result, timeout=timeout)

    def notify(self, method: str, params: Wire) -> None:
        """Send a notification."""
        self.peer.send(self.session.notify(METHODS[method], params))

    # --- what the server asks -----------------------------------------------------------------------------------

    def handlers(self) -> Mapping[str, Handler]:
        """Return the function for each ask that may come as a request (up to 2025-11-25)."""
        return dict.fromkeys(("sampling/createMessage", "elicitation/create", "roots/list"), self._asked)

    async def _asked(self, request: Request, peer: Connection[ClientSession]) -> Wire:
        # Which of several open calls an ask belongs to is not said, so they are counted together. Roots are no
        # part of a call: a server may want them at any time (2025-11-25 client/roots).
        if self._open or request.method.name != "roots/list":
            self._ask_count += 1
        if self._ask_count > self._limits.asks * max(1, self._opened):
            self._give_up(peer)
            raise InvalidRequest(f"More than {self._limits.asks} asks in one call")
        return await self._answers.answer(request.params, self._origin(self._the_one_open_call(), None))

    def _the_one_open_call(self) -> _Open | None:
        """Find the call an ask belongs to. The protocol does not say, so it is known while only one is open."""
        return next(iter(self._open.values())) if len(self._open) == 1 else None

    def _give_up(self, peer: Connection[ClientSession]) -> None:
        reason = f"The server asked for more than {self._limits.asks} answers in one call"
        for id, outgoing in list(self.session.outgoing.items()):
            if outgoing.method.rounds:
                peer.abandon(id, RemoteProtocolError(reason))

    async def _answer_round(self, call: _Open, spec: MethodSpec, params: Wire, this: Round) -> Wire:
        self.session.check_input_request(spec, params)
        notice = self.session.revision and self.session.deprecation(spec, self.session.revision)
        if notice:
            log.info("%s", notice)
        return await self._answers.answer(params, self._origin(call, this))

    def _origin(self, call: _Open | None, this: Round | None) -> Origin:
        agreed = self.session.revision
        return Origin(
            id=str(next(_numbers)),
            identity=self._identity,
            target=self._target,
            server=self.session.server_info,
            call=call.origin() if call is not None else None,
            round=this,
            revision=agreed.name if agreed is not None else None,
        )


def _named(where: Serves | Command | Address) -> str | list[str]:
    """Return what the user configured: by it a host knows a server."""
    if isinstance(where, Address):
        return where.url
    return list(where.argv) if isinstance(where, Command) else ["memory:", str(getattr(where, "name", ""))]


def _reporter(progress: Callable[..., object]) -> OnProgress:
    def report(params: ProgressNotificationParams) -> object:
        outcome = progress(params.progress, params.total, params.message)
        return outcome if inspect.iscoroutine(outcome) else None

    return report


def _lifted(method: str, error: PeerError) -> PeerError:
    if method != "resources/read":
        return error
    # 2026-07-28 server/resources: not found is -32602 with the URI; before, it had a code of its own. Servers mix the
    # two up, so both are understood in every revision.
    sent = ErrorObject(code=error.code, message=error.message, data=error.data)
    return from_wire(LATEST.lift_error(sent))


def _read(raw: msgspec.Raw, method: str, result: type[R]) -> R:
    try:
        return decode(raw, result)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise RemoteProtocolError(f"The server's answer to {method} cannot be read: {error}") from None


def _read_modern(raw: msgspec.Raw, method: str, result: type[R]) -> R | InputRequiredResult:
    try:
        done = decode(raw, result)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if _result_type(raw) == "input_required":
            return _read(raw, method, InputRequiredResult)
        return _read(raw, method, result)
    kind = getattr(done, "result_type", None)
    if kind in (None, "complete"):
        return done
    if kind == "input_required":
        return _read(raw, method, InputRequiredResult)
    # 2026-07-28 basic: an absent resultType is complete, an unknown one is invalid.
    raise RemoteProtocolError(f"The server's answer to {method} has the unknown resultType {kind!r}")


def _result_type(raw: msgspec.Raw) -> str | None:
    try:
        return msgspec.json.decode(raw, type=Result).result_type
    except msgspec.DecodeError:
        return None
