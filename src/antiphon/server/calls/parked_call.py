"""One modern call that may ask: its body, the asks that are out, and the requests that are served by it in turn.

The body runs in one task for life. When it waits for answers and a few passes of the event loop have brought no further
ask (``Quiescence``), the live request is answered with all questions at once (``input_required``); the retry, which is
another request, delivers the answers. Whoever waits for a call hears of its end also where the handler gave what JSON
has no form for (``unsendable``): half a surrogate pair in a text, an object in an error's data. What a call goes
through, and in which order, is the table in ``call_states``. Which calls there are, and what their sealed states say,
is ``rounds``' business; what it takes for a call to go on in another process, ``replayed_call``'s.

Source: 2026-07-28 basic/patterns/mrtr. The design: docs/topics/eras-and-rounds.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import CoroutineType
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec import Raw, Struct

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, InternalError, LocalProtocolError
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Answer, Call, Handled, read_answer, read_given
from antiphon.server.calls.call_states import ASKING, ENDS, TRANSITIONS, CallEvent, CallState, after
from antiphon.server.calls.call_weight import OVERHEAD, SMALL, weight_of
from antiphon.server.calls.request_state import refusal
from antiphon.server.core import Core
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import encode
from antiphon.wire.failure import to_wire
from antiphon.wire.methods import MethodSpec
from antiphon.wire.rounds import InputRequest, InputRequiredResult

__all__ = ["PASSES", "UNSENDABLE", "Keeper", "Quiescence", "RoundCall", "unsendable"]

PASSES = 8
"""Passes of the event loop without a new ask before a round is sent. Measured: ``gather`` nested four deep needs 4,
five ``sleep(0)`` need 5; each pass costs about 1.5 microseconds."""

_DIRECT_PASSES = 0
"""The same where every ask comes from the body's own task: it waits for them, and a task that it made before has its
turn in the pass that is waited for anyway."""


Send = Callable[[], bool]
"""Sends a round; tells whether there was one to send. Raises nothing: the event loop calls it, for nobody."""


class Quiescence(Struct, gc=False):
    """The passes of the event loop since the last ask of one call."""

    _passes: int = _DIRECT_PASSES
    _quiet: int = 0
    _is_counting: bool = False

    def count(self, then: Send, *, is_direct: bool = True) -> None:
        """Count anew, since something was asked or can be sent again; call ``then`` when nothing more has come.

        ``is_direct``: no other task than the body's has asked. ``then`` is handed in each time: kept here, it would be
        garbage together with its call that only a collection finds.
        """
        self._quiet = 0
        if not is_direct:
            self._passes = PASSES
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._tick, then)

    def look_again(self, seconds: float, then: Send) -> None:
        """Call ``then`` once more after so many seconds: when it was called, it was too early."""
        self._is_counting = True
        asyncio.get_running_loop().call_later(seconds, self._tick, then)

    def _tick(self, then: Send) -> None:
        self._quiet += 1
        if self._quiet <= self._passes:
            asyncio.get_running_loop().call_soon(self._tick, then)
        else:
            self._is_counting = False
            if then():
                self._passes = _DIRECT_PASSES


UNSENDABLE = (TypeError, ValueError, RecursionError, msgspec.EncodeError)
"""What encoding raises for a value without a JSON form."""


def unsendable(outcome: Wire | Raw | BaseException, error: Exception) -> tuple[BaseException, Raw]:
    """Return what to deliver of an outcome that could not be encoded, and the bytes to keep for a retry.

    An error is delivered as it is, for the session to log and to refuse; of a result, what was wrong with it.
    """
    kept = Raw(encode(to_wire(InternalError("Internal error"))))
    return outcome if isinstance(outcome, BaseException) else error, kept


MAX_LEGS = 8
"""Most requests that may wait for the same round of one call: retries of a client that lost the reply."""

_ANOTHER_TRY = 0.01
"""Seconds before an ask of a call that has ended raises: a body that asks again whatever is raised must not block the
loop."""

Leg = tuple[Connection[ServerSession], Request]


class _Ask(Struct, frozen=True):
    """A question that is out."""

    spec: MethodSpec
    params: Raw
    answer: asyncio.Future[Answer]


class Keeper(Protocol):
    """Who keeps a call between requests: ``rounds.Rounds``."""

    core: Core
    closed: bool

    def seal(self, call: RoundCall) -> str:
        """Return the sealed state that the client is to bring back."""
        ...

    def park(self, call: RoundCall) -> None:
        """Keep a call until its retry."""
        ...

    def ended(self, call: RoundCall, reply: Raw, *, is_error: bool) -> None:
        """Note that a body has ended, and with which reply."""
        ...


class RoundCall(Call):
    """A call that may be parked. It goes on where it is, or not at all."""

    __slots__ = (
        "_asked", "_held", "_keeper", "_legs", "_pending", "_quiescence", "_why_cancelled", "bound_to", "expires",
        "generation", "given", "handled", "id", "last", "owner", "state", "task",
    )  # fmt: skip

    run: bytes = b""
    """Which run of the body this is, where there may be several."""
    replayed_from: bytes = b""
    """The run that made the state which this one began with."""

    def __init__(
        self, keeper: Keeper, connection: Connection[ServerSession], request: Request, handled: Handled
    ) -> None:
        super().__init__(keeper.core, connection, request)
        self.handled = handled
        self.state = CallState.NEW
        self.id = b""
        """Given by the keeper when it first has to tell the call from others."""
        self.owner = connection.principal
        """The principal that the call counts against while it is kept."""
        self.bound_to = b""
        self.generation = 0
        """How many rounds it has sent."""
        self.expires = 0.0
        """Until when the state of the last one is good, in seconds since the epoch; set by the keeper."""
        self.given: dict[str, Raw] = dict(request.params.input_responses or {})
        """Answers that came with the first request, for keys that the author named."""
        self.last: InputRequiredResult | None = None
        """The round that is out, or was sent last."""
        self.task: asyncio.Task[None] | None = None
        self._keeper = keeper
        self._legs: list[Leg] = [(connection, request)]
        """The requests that wait for what comes next."""
        self._pending: dict[str, _Ask] = {}
        """What waits for an answer, by its name on the wire."""
        self._quiescence = Quiescence()
        self._asked = 0
        self._held: int | None = None
        """Bytes of what came, and of what was read from it; not counted until somebody asks."""
        self._why_cancelled: str | None = None

    def start(self, event: CallEvent = CallEvent.START) -> None:
        """Run the body, in a task of its own that lives from the first round to the last."""
        self.state = after(self.state, event)
        task = self._task_of(self._run())
        if self.state not in ENDS:
            # A loop that runs a new task at once may have brought it to its end.
            self.task = task
            task.add_done_callback(self._failed)

    def _task_of(self, work: CoroutineType[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def _run(self) -> None:
        result = await self.handled.body(self)
        if self.task is not None:
            # A callback would be told a pass of the event loop later, and the client with it.
            self.task.remove_done_callback(self._failed)
        self._finish(result, CallEvent.RETURN)

    @property
    def weight(self) -> int:
        """Bytes that it holds, nearly: what came with the first request and as answers, the last request, the asks."""
        if self._held is None:
            # The first round: no other request has come. Not sooner, since most calls are never kept.
            raw = self.first.raw or b""
            self._held = 2 * len(raw) if len(raw) <= SMALL else weight_of(raw)
        weight = OVERHEAD + self._held
        if self.generation > 1:
            weight += len(self.first.raw or b"")
        for ask in self._pending.values():
            weight += 2 * len(ask.params)
        return weight

    # --- asking -------------------------------------------------------------------------------------------------

    async def _put(self, spec: MethodSpec, params: Wire, key: str | None, timeout: float | None) -> Wire:
        """Put an ask into the next round and wait for its answer."""
        self.check_outside_steps(spec)
        if self._is_lost():
            await self._raise_lost()
        if key is not None and (given := self._take_given(key, spec)) is not None:
            return given.value
        return (await self._answer_to(self._name(spec, key), spec, params, timeout)).value

    def _is_lost(self) -> bool:
        """Tell whether nobody can answer any more."""
        return self.state not in ASKING or self._keeper.closed or (self.task is not None and self.task.done())

    async def _raise_lost(self) -> NoReturn:
        await asyncio.sleep(_ANOTHER_TRY)
        raise self._loss()

    def _loss(self) -> BaseException:
        return LocalProtocolError("The call has ended: nobody can answer any more; await every ask in it")

    def _take_given(self, key: str, spec: MethodSpec) -> Answer | None:
        """Return the answer that came with the first request, once; one that cannot be used is asked for."""
        given = self.given.pop(key, None)
        return read_given(given, spec) if given is not None else None

    def _name(self, spec: MethodSpec, key: str | None) -> str:
        self._asked += 1
        name = key or f"{spec.name.rpartition('/')[0]}-{self._asked}"
        if name in self._pending:
            raise LocalProtocolError(f"Two asks of one call have the key {name!r}: give each its own key=")
        return name

    async def _answer_to(self, name: str, spec: MethodSpec, params: Wire, timeout: float | None) -> Answer:
        # Encoded now: what cannot be sent is the author's to know, at the very await.
        ask = _Ask(spec, Raw(encode(params)), asyncio.get_running_loop().create_future())
        self._pending[name] = ask
        self._quiescence.count(self._send_or_fail, is_direct=asyncio.current_task() is self.task)
        try:
            if timeout is None and not self.is_told:
                return await ask.answer
            with self.out(spec):
                async with asyncio.timeout(timeout):
                    return await ask.answer
        except TimeoutError:
            raise CallTimeout(f"{spec.name} was not answered within {timeout:g} s") from None
        finally:
            self._pending.pop(name, None)

    # --- rounds -------------------------------------------------------------------------------------------------

    def _is_wanted(self, event: CallEvent) -> bool:
        """Tell whether something is asked, by a body that waits for it, and the call may go on to send it."""
        if not self._pending or event not in TRANSITIONS[self.state]:
            return False
        return self.task is not None and not self.task.done()

    def _send_round(self) -> bool:
        """Send what is asked, now that no further ask is coming; tell whether there was something to send."""
        if not self._is_wanted(CallEvent.SEAL):
            return False
        asks = self._next_round()
        self._send(asks, self._keeper.seal(self))
        return True

    def _send_or_fail(self) -> bool:
        """Send a round as ``_send_round`` does; if that raises, the call ends with the error.

        The event loop calls this: what it raised would be told to nobody, and the client would wait for ever.
        """
        legs = self._legs
        try:
            return self._send_round()
        except Exception as error:
            self._legs = legs
            self._deliver(error)
            self.end("its round could not be sent")
            return False

    def _next_round(self) -> dict[str, InputRequest]:
        self.state = after(self.state, CallEvent.SEAL)
        self.generation += 1
        return {key: InputRequest(method=ask.spec.name, params=ask.params) for key, ask in self._pending.items()}

    def _send(self, asks: dict[str, InputRequest], state: str) -> None:
        self.last = InputRequiredResult(input_requests=asks, request_state=state)
        self._keeper.park(self)
        self.state = after(self.state, CallEvent.ROUND)
        self._deliver(self.last)

    def resume(self, connection: Connection[ServerSession], request: Request, generation: int) -> bool:
        """Take a retry: deliver its answers and wait for what comes next, or repeat the round that it missed.

        Returns whether the request waits.
        """
        is_parked = self.state is CallState.PARKED
        if is_parked and self.last is not None and generation < self.generation:
            self.state = after(self.state, CallEvent.REPEAT)
            connection.reply(request, self.last)
            return False
        answers = self._read_answers(request.params) if is_parked else {}
        for key, answer in answers.items():
            ask = self._pending.pop(key)
            if not ask.answer.done():
                size = len(answer.raw)
                self._held = (self._held or 0) + (2 * size if size <= SMALL else weight_of(answer.raw))
                ask.answer.set_result(answer)
        self.attach(connection, request)
        return True

    def _read_answers(self, params: RoundParams) -> dict[str, Answer]:
        """Check every answer before any is delivered, so that a bad one leaves the call as it was."""
        answers: dict[str, Answer] = {}
        for key, raw in (params.input_responses or {}).items():
            ask = self._pending.get(key)
            if ask is not None:
                answers[key] = read_answer(key, raw, ask.spec)
        return answers

    # --- legs: the requests served one after another ------------------------------------------------------------

    def attach(self, connection: Connection[ServerSession], request: Request) -> None:
        """Let a retry wait for what comes next: the end of the call or another round."""
        if len(self._legs) >= MAX_LEGS:
            raise refusal()
        self.state = after(self.state, CallEvent.RETRY)
        self.connection, self.request, self.first = connection, request, request
        self.headers = connection.headers
        self._legs.append((connection, request))
        request.on_cancel = lambda _reason: self.detach(request)
        if self._pending:
            self._quiescence.count(self._send_or_fail)

    def detach(self, request: Request) -> None:
        """Let go of a request that was withdrawn; the last one takes the handler with it."""
        self._legs = [leg for leg in self._legs if leg[1] is not request]
        if not self._legs:
            self.request = None
            self.end("the client withdrew the request")
        else:
            self.connection, self.request = self._legs[-1]

    def _deliver(self, outcome: Wire | Raw | BaseException) -> None:
        legs, self._legs, self.request = self._legs, [], None
        for connection, request in legs:
            if isinstance(outcome, BaseException):
                connection.reply_error(request, outcome)
            else:
                connection.reply(request, outcome)
            # The one leads here, and we to the request: without this both would be garbage that only a collection
            # finds. The other leads to an HTTP request that is over.
            request.on_cancel = request.on_wait = None

    # --- the end ------------------------------------------------------------------------------------------------

    def end(self, reason: str) -> None:
        """Cancel the body; its ``finally`` blocks run, and asks in them raise.

        A second cancellation would cut short the cleanup that the first one began: the body gets one.
        """
        before, self.state = self.state, after(self.state, CallEvent.CANCEL)
        if before is not self.state and self.task is not None:
            self._why_cancelled = reason
            self.task.cancel(reason)

    def _failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            self._finish(self._cancellation(), CallEvent.UNWIND)
        else:
            self._finish(error, CallEvent.RETURN)

    def _cancellation(self) -> BaseException:
        if self._keeper.closed:
            return InternalError("The server is closing")
        return refusal() if self.state is CallState.CANCELLED else InternalError("The request was abandoned")

    def _finish(self, outcome: Wire | BaseException, event: CallEvent) -> None:
        """Tell whoever waits what the call came to."""
        self.state = after(self.state, event)
        for ask in self._pending.values():
            ask.answer.cancel()
        reply: Wire | Raw | BaseException = outcome
        kept = Raw()
        try:
            if isinstance(outcome, BaseException):
                kept = Raw(encode(to_wire(outcome)))
            elif self.generation:
                reply = kept = Raw(encode(outcome))
        except UNSENDABLE as error:
            reply, kept = unsendable(outcome, error)
        self._deliver(reply)
        self._keeper.ended(self, kept, is_error=isinstance(reply, BaseException))
        # Each of these leads back here: the call would be garbage that only a collection finds, with all it was given.
        self.first.on_cancel, self.last, self.task = None, None, None
