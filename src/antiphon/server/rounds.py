"""Modern calls that ask: parked between rounds, woken exactly where they stood.

A handler's body runs once, in one task for life. When it waits for answers and a few passes of the event loop bring no
further ask, the live request is answered with all questions at once (``input_required``); the retry, which is another
request, delivers the answers. Owns the table of parked calls and its bounds. How an ask is put is ``ask``'s business.

Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any

from msgspec import DecodeError, Raw

from antiphon.engine.connection import LATER, Connection, Later
from antiphon.errors import CallTimeout, InvalidParams, LocalProtocolError
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.call import Call
from antiphon.server.sealed_state import Seal, State, binding, refusal
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import encode
from antiphon.wire.methods import MethodSpec
from antiphon.wire.rounds import InputRequest, InputRequiredResult
from antiphon.wire.unknown import decode

if TYPE_CHECKING:
    from antiphon.server.app import Server

__all__ = ["RoundCall", "Rounds"]

PASSES = 8
"""Passes of the event loop without a new ask before a round is sent. Measured: ``gather`` nested four deep needs 4,
five ``sleep(0)`` need 5; each pass costs about 1.5 microseconds."""

MAX_LEGS = 8
"""Most requests that may wait for the same round of one call: retries of a client that lost the reply."""

Body = Callable[["RoundCall"], "CoroutineType[Any, Any, Wire]"]
Leg = tuple[Connection[ServerSession], Request]


class _Ask:
    __slots__ = ("future", "given_key", "params", "spec")

    def __init__(self, spec: MethodSpec, params: Raw, future: asyncio.Future[Raw]) -> None:
        self.spec = spec
        self.params = params
        self.future = future


class RoundCall(Call):
    """A call that may be parked."""

    __slots__ = (
        "_asked",
        "_ending",
        "_generation",
        "_legs",
        "_pending",
        "_quiet",
        "_rounds",
        "_ticking",
        "bound_to",
        "expiry",
        "given",
        "id",
        "last",
        "task",
    )

    def __init__(self, rounds: Rounds, server: Server, connection: Connection[ServerSession], request: Request) -> None:
        super().__init__(server, connection, request)
        self.id = b""
        self.bound_to = b""
        self.given: dict[str, Raw] = dict(request.params.input_responses or {})
        """Answers that came with the first request, for keys that the author named."""
        self.last: Wire | BaseException | None = None
        """The round that is out, or the end of the call."""
        self.expiry: asyncio.TimerHandle | None = None
        self._rounds = rounds
        self._legs: list[Leg] = [(connection, request)]
        self._pending: dict[str, _Ask] = {}
        self._asked = 0
        self._generation = 0
        self._quiet = 0
        self._ticking = False
        self._ending = False
        self.task: asyncio.Task[Wire] | None = None

    def start(self, body: CoroutineType[Any, Any, Wire]) -> None:
        """Run the body, in a task of its own that lives from the first round to the last."""
        self.task = asyncio.get_running_loop().create_task(body)
        self.task.add_done_callback(self._finished)

    @property
    def is_done(self) -> bool:
        """Whether the body has ended."""
        return self.task is None or self.task.done()

    @property
    def is_parked(self) -> bool:
        """Whether no request is live."""
        return not self._legs

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(self, spec: MethodSpec, params: Wire, key: str | None, timeout: float | None) -> Raw:
        """Put an ask into the next round and wait for its answer."""
        if key is not None and (given := self.given.pop(key, None)) is not None and _is_readable(given, spec):
            return given
        if self.is_done or self._ending or self._rounds.closed:
            await asyncio.sleep(0.01)
            raise LocalProtocolError("The call has ended: nobody can answer any more")
        self._asked += 1
        name = key or f"{spec.name.rpartition('/')[0]}-{self._asked}"
        if name in self._pending:
            raise LocalProtocolError(f"Two asks of one call have the key {name!r}")
        # Encoded now: what cannot be sent is the author's to know, at the very await.
        encoded = Raw(encode(self.facts.revision.lower(params)))
        ask = _Ask(spec, encoded, asyncio.get_running_loop().create_future())
        self._pending[name] = ask
        self._touch()
        with self.human_time():
            try:
                async with asyncio.timeout(timeout):
                    return await ask.future
            except TimeoutError:
                raise CallTimeout(f"{spec.name} was not answered within {timeout:g} s") from None
            finally:
                self._pending.pop(name, None)

    def _touch(self) -> None:
        self._quiet = 0
        if self._legs and not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        if not self._legs or not self._pending or self.is_done:
            self._ticking = False
            return
        self._quiet += 1
        if self._quiet <= PASSES:
            asyncio.get_running_loop().call_soon(self._tick)
            return
        self._ticking = False
        self._send_round()

    def _send_round(self) -> None:
        self._generation += 1
        asks = {key: InputRequest(method=ask.spec.name, params=ask.params) for key, ask in self._pending.items()}
        state = self._rounds.park(self, self._generation)
        self.last = InputRequiredResult(input_requests=asks, request_state=state)
        self._deliver(self.last)

    # --- legs: the requests served one after another ------------------------------------------------------------

    def _deliver(self, outcome: Wire | BaseException) -> None:
        legs, self._legs, self.request = self._legs, [], None
        for connection, request in legs:
            _reply(connection, request, outcome)

    def _finished(self, task: asyncio.Task[Wire]) -> None:
        for ask in self._pending.values():
            ask.future.cancel()
        if task.cancelled():
            self.last = refusal()
        else:
            self.last = task.exception() or task.result()
        self._deliver(self.last)
        self._rounds.ended(self)

    def attach(self, connection: Connection[ServerSession], request: Request) -> None:
        """Let a retry wait for what comes next: the end of the call or another round."""
        if len(self._legs) >= MAX_LEGS:
            raise refusal()
        self.connection, self.request, self.first = connection, request, request
        self._legs.append((connection, request))
        request.on_cancel = lambda _reason: self.detach(request)
        if self._pending:
            self._touch()

    def detach(self, request: Request) -> None:
        """Let go of a request that was withdrawn; the last one takes the handler with it."""
        self._legs = [leg for leg in self._legs if leg[1] is not request]
        if not self._legs:
            self.request = None
            self.end("the client withdrew the request")
        else:
            self.connection, self.request = self._legs[-1]

    def end(self, reason: str) -> None:
        """Cancel the body; its ``finally`` blocks run, and asks in them raise."""
        self._ending = True
        if self.task is not None:
            self.task.cancel(reason)

    def resume(self, connection: Connection[ServerSession], request: Request, generation: int) -> None:
        """Take a retry: deliver its answers and wait for what comes next, or repeat what it missed."""
        if self.is_parked and self.last is not None and (self.is_done or generation < self._generation):
            _reply(connection, request, self.last)
            return
        answers = self._read_answers(request.params) if self.is_parked else {}
        for key, raw in answers.items():
            ask = self._pending.pop(key)
            if not ask.future.done():
                ask.future.set_result(raw)
        self.attach(connection, request)

    def _read_answers(self, params: RoundParams) -> dict[str, Raw]:
        """Check every answer before any is delivered, so that a bad one leaves the call as it was."""
        answers: dict[str, Raw] = {}
        for key, raw in (params.input_responses or {}).items():
            ask = self._pending.get(key)
            if ask is None or ask.spec.result is None:
                continue
            try:
                decode(raw, ask.spec.result)
            except DecodeError as error:
                raise InvalidParams(f"Invalid params: inputResponses.{key}: {error}") from None
            answers[key] = raw
        return answers


def _is_readable(answer: Raw, spec: MethodSpec) -> bool:
    """Tell whether an answer that came unasked can be used; one that cannot is asked for."""
    try:
        decode(answer, spec.result or Wire)
    except DecodeError:
        return False
    return True


def _reply(connection: Connection[ServerSession], request: Request, outcome: Wire | BaseException) -> None:
    if isinstance(outcome, BaseException):
        connection.reply_error(request, outcome)
    else:
        connection.reply(request, outcome)


class Rounds:
    """The parked calls of one server.

    ``ttl``: seconds a parked call waits for its retry. ``limit``: most parked calls; beyond it the oldest ends.
    """

    def __init__(self, server: Server, seal: Seal, *, ttl: float, limit: int) -> None:
        self.closed = False
        self._server = server
        self._seal = seal
        self._ttl = ttl
        self._limit = limit
        self._parked: dict[bytes, RoundCall] = {}
        self._running: set[RoundCall] = set()

    @property
    def parked(self) -> int:
        """How many calls are kept: those between rounds, and those whose result may still be asked for."""
        return len(self._parked)

    def serve(self, connection: Connection[ServerSession], request: Request, body: Body, name: str) -> Later:
        """Begin a call, or go on with the one that the request's state names."""
        params: RoundParams = request.params
        if params.request_state is not None:
            self._retry(connection, request, name, params.request_state)
            return LATER
        call = RoundCall(self, self._server, connection, request)
        request.on_cancel = lambda _reason: call.detach(request)
        self._running.add(call)
        call.start(body(call))
        return LATER

    def _retry(self, connection: Connection[ServerSession], request: Request, name: str, text: str) -> None:
        state = self._seal.open(text, self._binding(connection, request, name), time.time())
        call = self._parked.get(state.call)
        if call is None:
            raise refusal()
        if call.expiry is not None:
            call.expiry.cancel()
        try:
            call.resume(connection, request, state.generation)
        finally:
            if call.is_parked:
                self._start_clock(call)

    def park(self, call: RoundCall, generation: int) -> str:
        """Keep a call until its retry; return the sealed state the client is to bring back."""
        if not call.id:
            call.id = os.urandom(16)
            call.bound_to = self._binding(call.connection, call.first, self._server.name_of(call.first))
            self._make_room()
            self._parked[call.id] = call
        self._start_clock(call)
        return self._seal.seal(State(call.id, generation, time.time() + self._ttl), call.bound_to)

    def ended(self, call: RoundCall) -> None:
        """Note that a body has ended. What a parked call came to is kept for its retry; others leave no trace."""
        self._running.discard(call)
        if call.id in self._parked:
            self._start_clock(call)

    def close(self) -> list[asyncio.Task[Any]]:
        """End every call; return the tasks that still have to finish."""
        self.closed = True
        for call in list(self._running):
            call.end("the server is closing")
        for call in list(self._parked.values()):
            self._forget(call)
        return [call.task for call in self._running if call.task is not None]

    def _binding(self, connection: Connection[ServerSession], request: Request, name: str) -> bytes:
        arguments = self._server.arguments_of(request)
        return binding(connection.principal, request.method.name, name, arguments, self._server.name)

    def _start_clock(self, call: RoundCall) -> None:
        if call.expiry is not None:
            call.expiry.cancel()
        call.expiry = asyncio.get_running_loop().call_later(self._ttl, self._expire, call)

    def _expire(self, call: RoundCall) -> None:
        self._forget(call)
        call.end("no retry came in time")

    def _forget(self, call: RoundCall) -> None:
        self._parked.pop(call.id, None)
        if call.expiry is not None:
            call.expiry.cancel()
            call.expiry = None

    def _make_room(self) -> None:
        while len(self._parked) >= self._limit:
            oldest = next((call for call in self._parked.values() if call.is_parked), None)
            if oldest is None:
                return
            self._expire(oldest)
