"""Requests to the server, and its asks, on one connection: typed, with deadlines, counted, and related to each other.

Owns making a call and finding the answerer of an ask. ``ownership`` has the open calls, ``loop`` the rounds,
``attempts`` the meaning of replies.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from types import CoroutineType
from typing import Any, TypeVar

from msgspec import Raw, structs

from antiphon import errors
from antiphon.client.answers.answerers import Answers, Extension, PutAside, shape_answers
from antiphon.client.answers.ownership import OpenCall, OpenCalls, answering
from antiphon.client.requests.attempts import BecameTask, Forwarding, Sending, read_legacy, read_modern
from antiphon.client.rounds import loop
from antiphon.engine.connection import OTHERS, Connection, Handler
from antiphon.engine.request_telemetry import ConnectionWatch
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Request
from antiphon.wire.common import RequestParams, Result, RoundParams, Wire
from antiphon.wire.envelope import encode_value
from antiphon.wire.lifecycle import DiscoverResult
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.lossless import Received, relay_object
from antiphon.wire.methods import METHODS, MethodSpec, unknown_notification
from antiphon.wire.origin import (
    Launch,
    Origin,
    OriginTask,
    Round,
    describe_target,
    identify_target,
    list_coarser,
    task_name,
)
from antiphon.wire.revisions import LATEST
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.task import TASKS
from antiphon.wire.tools import CallToolRequestParams, Tool

log = logging.getLogger("antiphon.client")

R = TypeVar("R", bound=Wire)

_ENDS: Mapping[type[BaseException], str | None] = {
    asyncio.CancelledError: "cancelled",
    errors.CallTimeout: "deadline",
    errors.ConnectionClosed: "closed",
    # 2026-07-28 basic/patterns/mrtr: the server refuses a state that it does not know (any more).
    errors.InvalidParams: "call-gone",
    errors.PeerError: None,
}
"""What became of the answers in a request, by how the request ended; ``None``: the server has them."""

_asks = count(1)
"""Numbers the asks on this side; never reused in this process."""


class Calls:
    """The calls of one connection. ``peer`` is set once the connection exists; ``target`` identifies the server."""

    def __init__(
        self, session: ClientSession, answers: Answers, target: str | Sequence[str] | Launch, limits: loop.RoundLimits
    ) -> None:
        self.session = session
        self.peer: Connection[ClientSession]
        self.watch: ConnectionWatch | None = None
        """Reports the asks to the telemetry, if that is configured."""
        self.open = OpenCalls(limits)
        """The calls that wait for their result."""
        self.answers = answers
        self._limits = limits
        self._server = loose_origin(target)

    @property
    def is_modern(self) -> bool:
        """Whether the agreed revision has no handshake."""
        return self.session.revision is not None and self.session.revision.modern

    # --- our requests -------------------------------------------------------------------------------------------

    async def plain(self, method: str, params: Wire, result: type[R], *, timeout: TimeLeft) -> R:
        """Make a request without rounds, and decode its result."""
        return (await self.page(method, params, result, timeout=timeout))[0]

    async def page(self, method: str, params: Wire, result: type[R], *, timeout: TimeLeft) -> tuple[R, int]:
        """Make a request without rounds, such as for a page of a list; return its result, and its number of bytes."""
        spec = METHODS[method]
        declared = self.session.for_tasks if spec.extension == TASKS else None
        try:
            raw = await self.peer.request(self.session.request(spec, params, extensions=declared), timeout=timeout)
        except errors.CallTimeout:
            raise timeout.too_late(method) from None
        finally:
            self.open.note_rest()
        done = read_modern(raw, method, result) if self.is_modern else read_legacy(raw, method, result)
        return _refuse_round(done, method), len(raw)

    def rounds(
        self,
        method: str,
        params: RoundParams,
        result: type[R],
        *,
        timeout: TimeLeft,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> CoroutineType[Any, Any, R]:
        """Make a request that may have rounds, and decode its result. Await it at once.

        ``timeout`` counts the time in which the server works, not the time for our answers. Raises
        ``BecameTask`` if a call of a tool goes on as a task.
        """
        declared = self.session.for_tasks if method == "tools/call" else None
        call = self.open.open(method, params, timeout)
        send = Sending(self.session, self.peer, call, result, timeout, progress, meta, declared)
        return self._make_requests(send, params)

    async def counted(self, method: str, params: RoundParams, result: type[R], *, timeout: TimeLeft) -> tuple[R, int]:
        """Make a request that may have rounds; return its result and the number of rounds."""
        call = self.open.open(method, params, timeout)
        send = Sending(self.session, self.peer, call, result, timeout)
        return await self._make_requests(send, params), send.rounds

    async def forward(
        self,
        spec: MethodSpec,
        params: Any,
        *,
        original: Received,
        timeout: TimeLeft,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
        log_level: LoggingLevel | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> Received:
        """Repeat a request of another peer, keeping unknown members of its params and of its result."""
        call = self.open.open(spec.name, params, timeout)
        options = Forwarding(spec, original, log_level)
        send: Sending[Any] = Sending(
            self.session, self.peer, call, spec.result or Result, timeout, progress, meta, extensions, options
        )
        if spec.rounds:
            try:
                done = await self._make_requests(send, params)
            except BecameTask as became:
                if TASKS not in (extensions or {}):
                    # Nobody would follow the task, and no rule about results would see what it returns.
                    raise errors.RemoteProtocolError("The server made a task of a call that allows none") from None
                done = became.task
        else:
            try:
                done = await self._make_requests(send, params, answers=False)
            finally:
                self.open.note_rest()
            done = _refuse_round(done, spec.name)
        return relay_object(options.result, done)

    async def _make_requests(self, send: Sending[Any], params: RoundParams, *, answers: bool = True) -> Any:
        """Make the requests of a call, and close it; return its result, or without ``answers`` perhaps a round."""
        call, given_up = send.call, True
        try:
            done = await (partial(self._send_and_report, send) if call.answered else send)(params)
            if answers and isinstance(done, InputRequiredResult):
                done = await self._answer_rounds(done, params, send)
            given_up = False
            return done
        except errors.PeerError:
            given_up = False
            raise
        finally:
            if call.answered:
                # Answers of a round that was never continued did not reach the server.
                self.report_answers(call, "call-gone")
            self.open.close(call, given_up=given_up)

    async def _answer_rounds(self, first: InputRequiredResult, params: RoundParams, send: Sending[R]) -> R:
        inspect = partial(self._inspect_round, send) if self.answers.on_round is not None else None
        sent = partial(self._send_and_report, send) if self.answers.reports else send
        answer = self._answerer(send.call)
        return await loop.answer_rounds(first, params, sent, answer, self._limits, admit=self._admit, inspect=inspect)

    async def _send_and_report(self, send: Sending[R], params: RoundParams) -> R | InputRequiredResult:
        """Send a request, and tell the answerers what became of their answers."""
        try:
            result = await send(params)
        except tuple(_ENDS) as error:
            self.report_answers(send.call, next(why for kind, why in _ENDS.items() if isinstance(error, kind)))
            raise
        self.report_answers(send.call, None)
        return result

    def report_answers(self, call: OpenCall, why: str | None) -> None:
        """Tell the answerers what became of the answers that a call has given."""
        for params, origin in call.answered:
            self.answers.report(params, origin, why)
        call.answered.clear()

    async def _inspect_round(
        self,
        send: Sending[Any],
        result: InputRequiredResult,
        asks: Mapping[str, loop.RoundAsk],
        this: Round,
        asked: int,
    ) -> None:
        on_round = self.answers.on_round
        outcome = on_round(self._pending(send, self._limits, result, asks, this.n, asked)) if on_round else None
        if inspect.isawaitable(outcome):
            await outcome

    async def ping(self, *, timeout: TimeLeft) -> None:
        """See ``Client.ping``."""
        method = "server/discover" if self.is_modern else "ping"
        await self.plain(method, RequestParams(), DiscoverResult if self.is_modern else Result, timeout=timeout)

    def notify(self, method: str, params: Wire) -> None:
        """Send a notification."""
        self.peer.send(self.session.notify(METHODS[method], params))

    def pass_on(self, method: str, params: Received) -> None:
        """Send a notification of another peer, if the revision has it."""
        with suppress(errors.NotInRevision):
            spec = METHODS.get(method) or unknown_notification(method)
            self.peer.send(self.session.notify(spec, params.read, None, params))

    # --- rounds by hand -----------------------------------------------------------------------------------------

    async def start(
        self,
        method: str,
        params: RoundParams,
        result: type[R],
        *,
        timeout: TimeLeft,
        progress: Callable[..., object] | None = None,
        meta: dict[str, Any] | None = None,
    ) -> R | loop.PendingRound[R]:
        """Make a request that may have rounds; return its result, or its first round unanswered."""
        call = self.open.open(method, params, timeout)
        send = Sending(self.session, self.peer, call, result, timeout, progress, meta)
        return await self._step(send, params, self._limits, 1, 0)

    async def resume(
        self,
        pending: loop.PendingRound[R],
        answers: Mapping[str, object],
        *,
        timeout: TimeLeft,
        progress: Callable[..., object] | None = None,
    ) -> R | loop.PendingRound[R]:
        """Continue a call; return its result, or its next round.

        Raises ``LocalProtocolError``, and sends nothing, if the call is another server's, or an answer fits no
        ask.
        """
        if not self.is_modern:
            raise errors.LocalProtocolError(
                "The revision agreed on has no rounds: go on with this call through a client that has agreed on one"
            )
        if pending.identity != self._server.identity:
            # "They MUST NOT be used for any other request"; and another server's state must not be sent
            # to this one.
            raise errors.LocalProtocolError(f"This call was made to another server, not to {self._server.target}")
        params = pending.round_params
        again = loop.make_retry(params, shape_answers(pending, answers), pending.request_state)
        kind: Any = METHODS[pending.method].result
        call = self.open.open(pending.method, params, timeout, pending.call)
        send: Sending[R] = Sending(self.session, self.peer, call, kind, timeout, progress, pending.meta)
        call.answered = self.answers.take_up_asks(pending, answers)
        return await self._step(send, again, pending.limits, pending.number + 1, pending.asked)

    async def answer(self, pending: loop.PendingRound[Any]) -> dict[str, Any]:
        """Have this client's answerers answer the asks of a round."""
        call = OpenCall(pending.method, pending.round_params, given_name=pending.call)
        asks = {key: loop.RoundAsk(METHODS[ask.method], ask.params, ask.raw, key) for key, ask in pending.asks.items()}
        this = Round(n=pending.number, max=pending.limits.rounds)
        answers: dict[str, Any] = await loop.answer_all(asks, self._answerer(call), this, pending.limits.at_once)
        origins = {id(params): origin for params, origin in call.answered}
        given = {key: (ask.params, origins.get(id(ask.params))) for key, ask in asks.items()}
        aside = {key: PutAside(answers[key], params, origin) for key, (params, origin) in given.items() if origin}
        if aside:
            self.answers.put_aside(pending, aside)
        return answers

    async def _step(
        self, send: Sending[R], params: RoundParams, limits: loop.RoundLimits, number: int, asked: int
    ) -> R | loop.PendingRound[R]:
        done = await self._make_requests(send, params, answers=False)
        if not isinstance(done, InputRequiredResult):
            return done
        asked += len(done.input_requests or ())
        asks = loop.read_round(done, number, asked, limits, self._admit)
        return self._pending(send, limits, done, asks, number, asked)

    def _pending(
        self,
        send: Sending[R],
        limits: loop.RoundLimits,
        result: InputRequiredResult,
        asks: Mapping[str, loop.RoundAsk],
        number: int,
        asked: int,
    ) -> loop.PendingRound[R]:
        call = send.call
        params = structs.replace(call.params, meta=None, input_responses=None, request_state=None)
        return loop.PendingRound(
            method=call.method,
            params=Raw(encode_value(params)),
            asks={key: loop.Ask(method=ask.spec.name, raw=ask.raw) for key, ask in asks.items()},
            request_state=result.request_state,
            number=number,
            asked=asked,
            limits=limits,
            remaining=send.time.seconds,
            call=call.name,
            identity=self._server.identity,
            meta=send.meta,
        )

    # --- asks of tasks ------------------------------------------------------------------------------------------

    def asks_of_task(self, requests: dict[str, InputRequest], number: int, asked: int) -> dict[str, loop.RoundAsk]:
        """Read asks of a task, by the same rules and limits as those of a round; see ``read_round``."""
        return loop.read_round(InputRequiredResult(input_requests=requests), number, asked, self._limits, self._admit)

    async def answer_for_task(
        self, call: OpenCall, ask: loop.RoundAsk, this: Round, *, id: str, started: float | None, says: str
    ) -> Wire | Raw:
        """Have an ask answered; ``OriginTask`` is what its answerer learns about the task."""
        identity = self._server.identity
        name, key = task_name(identity, id), task_name(identity, id, ask.key)
        call.task = OriginTask(name=name, ask=key, started=started, says=says)
        return await self._answerer(call)(ask, this)

    # --- asks of the server -------------------------------------------------------------------------------------

    def handlers(self) -> Mapping[str, Handler]:
        """Return the handlers of asks that may come as requests (up to 2025-11-25)."""
        handlers: dict[str, Handler] = dict.fromkeys(
            ("sampling/createMessage", "elicitation/create", "roots/list"), self._answer_ask
        )
        if self.answers.extension is not None:
            handlers[OTHERS] = partial(self._answer_extension_request, self.answers.extension)
        return handlers

    async def _answer_extension_request(
        self, extension: Extension, request: Request, peer: Connection[ClientSession]
    ) -> Raw:
        """Have a request of an extension answered, which counts as an ask."""
        owner = self._owner(request)
        if len(self.open):
            self._charge(request, owner, peer)
        params = relay_object(request.raw, request.params)
        return (await extension.requested(request.method.name, params, self._origin_of(request, owner))).raw

    def _owner(self, ask: Request) -> OpenCall | None:
        """Return the call an ask belongs to; ``None`` if it belongs to no call, or to an unknown one.

        Raises ``InvalidRequest`` if it came on the stream of a request that has ended.
        """
        if ask.related_to is None:
            return self.open.only_call()
        if ask.related_to not in self.session.outgoing:
            raise errors.InvalidRequest("The request that this belongs to has ended")
        return self.open.call_of(ask.related_to)

    def _origin_of(self, ask: Request, owner: OpenCall | None) -> Origin:
        return self._origin(owner, None, unclear=owner is None and ask.related_to is None and self.open.may_ask)

    async def _answer_ask(self, request: Request, peer: Connection[ClientSession]) -> Wire:
        owner = self._owner(request)
        # Roots belong to no call: a server may ask for them at any time (2025-11-25 client/roots).
        is_roots = request.method.name == "roots/list"
        if len(self.open) or not is_roots:
            self._charge(request, owner, peer)
        params = self.answers.admit(request.params)
        bound = None if is_roots else self.open.bind(request, owner)
        try:
            if (turn := self.open.take_turn(owner)) is not None:
                await turn
            try:
                origin = self._origin_of(request, owner)
                with answering(owner):
                    result = await self.answers.answer(params, origin, raw=request.raw, before=request.params)
            finally:
                self.open.end_turn(owner)
            if self.answers.reports:
                # The reply is sent as soon as this returns.
                asyncio.get_running_loop().call_soon(self._handle_reply, request, params, origin, peer)
            if isinstance(result, Received):
                request.original = result
                return result.read
            return result
        finally:
            if bound is not None:
                bound.discard(request)

    def _handle_reply(self, request: Request, params: Wire, origin: Origin, peer: Connection[ClientSession]) -> None:
        why = "closed" if peer.is_over else "cancelled" if request.cancelled else None
        self.answers.report(params, origin, why)

    def _charge(self, ask: Request, owner: OpenCall | None, peer: Connection[ClientSession]) -> None:
        """Count an ask. One too many ends its call, or all calls that it may belong to."""
        if self.open.charge(owner, is_certain=ask.related_to is not None):
            return
        reason = f"The server asked for more than {self._limits.asks} answers in one call"
        calls = [owner] if owner is not None else self.open
        ids = [call.request for call in calls if call.request in self.session.outgoing]
        # A repeated request has another id now, so all waiting requests are given up.
        for id in ids or list(self.session.outgoing):
            peer.abandon(id, errors.RemoteProtocolError(reason))
        raise errors.InvalidRequest(f"More than {self._limits.asks} asks in one call")

    def _answerer(self, call: OpenCall) -> Callable[[loop.RoundAsk, Round], Awaitable[Wire | Raw]]:
        async def answer(ask: loop.RoundAsk, this: Round) -> Wire | Raw:
            origin = self._origin(call, this, within=ask.within)
            with answering(call):
                result = await self.answers.answer(ask.params, origin, raw=ask.raw, key=ask.key)
            if self.answers.reports:
                call.answered.append((ask.params, origin))
            return result.carrying(LATEST.lower(result.read)) if isinstance(result, Received) else result

        return answer if self.watch is None else self.watch.answering(answer, self.session.revision)

    def _admit(self, spec: MethodSpec, params: Wire) -> Wire:
        self.session.check_input_request(spec, params)
        notice = self.session.revision and self.session.deprecation(spec, self.session.revision)
        if notice:
            log.info("%s", notice)
        return self.answers.admit(params)

    def origin_of(self, params: CallToolRequestParams, tool: Tool | None) -> Origin:
        """Return the origin of a tool call, for the person who confirms it."""
        return self._origin(OpenCall("tools/call", params), None, tool)

    def loose_origin(self) -> Origin:
        """Return the origin of an ask through the model API: the only open tool call, if there is exactly one."""
        call = self.open.only_call("tools/call")
        return self._origin(call, None, unclear=call is None and self.open.may_ask)

    def _origin(
        self,
        call: OpenCall | None,
        this: Round | None,
        tool: Tool | None = None,
        *,
        unclear: bool = False,
        within: float | None = None,
    ) -> Origin:
        agreed, patience = self.session.revision, self.answers.timeout
        return structs.replace(
            self._server,
            id=str(next(_asks)),
            server=self.session.server_info,
            call=call.origin() if call is not None else None,
            round=this,
            task=None if call is None else call.task,
            tool=tool,
            revision=agreed.name if agreed is not None else None,
            patience=patience if within is None else min(within, within if patience is None else patience),
            unclear=unclear,
        )


def _refuse_round(done: R | InputRequiredResult, method: str) -> R:
    if isinstance(done, InputRequiredResult):
        raise errors.RemoteProtocolError(f"The server asked for input in {method}, which has no rounds")
    return done


def loose_origin(target: str | Sequence[str] | Launch) -> Origin:
    """Return the origin of an ask of a server whose session is not open yet."""
    return Origin(
        id=str(next(_asks)),
        identity=identify_target(target),
        coarser=list_coarser(target),
        pinned=target.pinned if isinstance(target, Launch) else True,
        script=target.script if isinstance(target, Launch) else "",
        target=describe_target(target),
    )
