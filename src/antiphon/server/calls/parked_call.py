"""One modern call that may ask: its body, the open asks, and the requests that it serves one after another.

The body runs in one task from start to end. When it waits for answers and a few passes of the event loop have brought
no further ask (``Quiescence``), the request is answered with all questions at once (``input_required``); the retry,
which is another request, delivers the answers. If the handler's result or error has no JSON form (half a surrogate pair
in a text, an object in an error's data), the waiting requests still get an error (``replace_unsendable``).
``call_states`` has the table of the call's states, ``rounds`` the table of calls and the sealed states,
``replayed_call`` what is needed to continue in another process.

Source: 2026-07-28 basic/patterns/mrtr. The design: docs/topics/eras-and-rounds.md.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Sequence
from types import CoroutineType
from typing import Any, NoReturn, Protocol

import msgspec
from msgspec import Raw, Struct

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, InternalError, LocalProtocolError
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import CallAnswer, Handled, HandlerCall, read_answer, read_given
from antiphon.server.calls.call_states import ASKING, ENDS, TRANSITIONS, CallEvent, CallState, find_next_state
from antiphon.server.core import Core
from antiphon.server.state.request_state import make_refusal
from antiphon.wire.common import Wire
from antiphon.wire.envelope import encode_value, to_wire
from antiphon.wire.methods import MethodSpec
from antiphon.wire.rounds import ANSWER_WITHIN, InputRequest, InputRequiredResult

# Looked up once, because in Python 3.11 a look at a member of an enumeration costs as much as a call.
_NEW, _PARKED = CallState.NEW, CallState.PARKED
_SEAL, _ROUND, _RETRY, _RETURN = CallEvent.SEAL, CallEvent.ROUND, CallEvent.RETRY, CallEvent.RETURN

PASSES = 8
"""Passes of the event loop without a new ask after which a round is sent. Measured: ``gather`` nested four deep needs
4, five ``sleep(0)`` need 5; each pass takes about 1.5 microseconds."""

_DIRECT_PASSES = 0
"""The same if only the body's own task has asked: it waits for the answers now, and tasks that it made earlier have run
in the one pass that always comes first."""


Send = Callable[[], bool]
"""Sends a round, and tells whether there was one to send. Must not raise, because the event loop calls it."""


class Quiescence(Struct, gc=False):
    """Counts the passes of the event loop since the last ask of one call."""

    _passes: int = _DIRECT_PASSES
    _quiet: int = 0
    _is_counting: bool = False

    def count(self, then: Send, *, is_direct: bool = True) -> None:
        """Start counting again after an ask, or when sending is possible again; call ``then`` when no more has come.

        ``is_direct``: only the body's task has asked. ``then`` is passed in each time, because a reference kept here
        would form a cycle with the call that only the garbage collector frees.
        """
        self._quiet = 0
        if not is_direct:
            self._passes = PASSES
        if not self._is_counting:
            self._is_counting = True
            asyncio.get_running_loop().call_soon(self._tick, then)

    def look_again(self, seconds: float, then: Send) -> None:
        """Call ``then`` again after some seconds, because the last call was too early."""
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
"""Exceptions of the encoder for a value without a JSON form."""


def replace_unsendable(outcome: Wire | Raw | BaseException, error: Exception) -> tuple[BaseException, Raw]:
    """Return what to deliver for an outcome that cannot be encoded, and the bytes to keep for a retry.

    An error is delivered unchanged, for the session to log and refuse; for a result, the encoding error is
    delivered.
    """
    kept = Raw(encode_value(to_wire(InternalError("Internal error"))))
    return outcome if isinstance(outcome, BaseException) else error, kept


MAX_LEGS = 8
"""Most requests that may wait for the same round of one call: retries of a client that lost the reply."""

_ANOTHER_TRY = 0.01
"""Seconds before an ask of a call that has ended raises, because a body that repeats the ask whatever is raised must
not block the event loop."""

Leg = tuple[Connection[ServerSession], Request]


class _ParkedAsk(Struct, frozen=True):
    spec: MethodSpec
    params: Raw
    answer: asyncio.Future[CallAnswer]
    ends: float = math.inf
    """Time until which the body waits for the answer, in seconds since the epoch."""


async def _at_once(answer: CallAnswer) -> CallAnswer:
    return answer


class Keeper(Protocol):
    """Keeps a call between requests; see ``rounds.Rounds``."""

    core: Core
    closed: bool

    def seal(self, call: RoundCall) -> str:
        """Return the sealed state that the client must send back."""
        ...

    def park(self, call: RoundCall) -> None:
        """Keep a call until its retry."""

    def ended(self, call: RoundCall, reply: Raw, *, is_error: bool) -> None:
        """Note that a body has ended, with this reply."""


class RoundCall(HandlerCall):
    """A call that may be parked. It can continue only in this process."""

    __slots__ = (
        "_asked", "_held", "_keeper", "_legs", "_pending", "_quiescence", "_why_cancelled", "bound_to", "expires",
        "generation", "given", "handled", "id", "last", "owner", "state", "task",
    )  # fmt: skip

    run: bytes = b""
    """Id of this run of the body, if there may be several."""
    replayed_from: bytes = b""
    """Id of the run that made the state with which this run began."""

    def __init__(
        self, keeper: Keeper, connection: Connection[ServerSession], request: Request, handled: Handled
    ) -> None:
        super().__init__(keeper.core, connection, request)
        self.handled = handled
        self.state = _NEW
        self.id = b""
        """Set by the keeper when it first has to distinguish the call from others."""
        self.owner = connection.principal
        """The principal whose limits the call counts towards while it is kept."""
        self.bound_to = b""
        self.generation = 0
        """Number of rounds sent so far."""
        self.expires = 0.0
        """Time until which the state of the last round is accepted, in seconds since the epoch; set by the keeper."""
        self.given: dict[str, Raw] = dict(request.params.input_responses or {})
        """Answers that came with the first request, by the author's keys."""
        self.last: InputRequiredResult | None = None
        """The round that is out, or was sent last."""
        self.task: asyncio.Task[None] | None = None
        self._keeper = keeper
        self._legs: list[Leg] = [(connection, request)]
        """The requests that wait for the next round or the result."""
        self._pending: dict[str, _ParkedAsk] = {}
        """Open asks, by their names on the wire."""
        self._quiescence = Quiescence()
        self._asked = 0
        self._held: int | None = None
        """Bytes of the call itself, its input, and the values decoded from it; computed on first use."""
        self._why_cancelled: str | None = None

    def start(self, event: CallEvent = CallEvent.START) -> None:
        """Run the body, in a task of its own that lives from the first round to the last."""
        self.state = find_next_state(self.state, event)
        task = self._task_of(self._run())
        if self.state not in ENDS:
            # A loop with eager tasks may have finished it already.
            self.task = task
            task.add_done_callback(self._failed)

    def _task_of(self, work: CoroutineType[Any, Any, None]) -> asyncio.Task[None]:
        return asyncio.get_running_loop().create_task(work)

    async def _run(self) -> None:
        result = await self.handled.body(self)
        if self.task is not None:
            # A callback would run one pass of the event loop later, which would delay the client.
            self.task.remove_done_callback(self._failed)
        self._finish(result, _RETURN)

    @property
    def weight(self) -> int:
        """Bytes that it holds, approximately: the first request, its answers, the last request, and the asks."""
        if self._held is None:
            # Computed at the first round, because most calls are never kept; no other request has come
            # before.
            raw = self.first.raw or b""
            self._held = OVERHEAD + (2 * len(raw) if len(raw) <= SMALL else weight_of(raw))
        weight = self._held
        if self.generation > 1:
            weight += len(self.first.raw or b"")
        for ask in self._pending.values():
            weight += 2 * len(ask.params)
        return weight

    # --- asking -------------------------------------------------------------------------------------------------

    def _send_ask(
        self, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> CoroutineType[Any, Any, CallAnswer]:
        """Add an ask to the next round, and wait for its answer."""
        self.check_outside_steps(spec)
        if self._is_lost():
            return self._raise_lost()
        if key is not None and (given := self._take_given(key, spec)) is not None:
            return _at_once(given)
        return self._answer_to(self._name(spec, key), spec, params, timeout)

    def _is_lost(self) -> bool:
        """Return whether an answer is impossible, because the call has ended or diverged."""
        return self.state not in ASKING or self._keeper.closed or (self.task is not None and self.task.done())

    async def _raise_lost(self) -> NoReturn:
        await asyncio.sleep(_ANOTHER_TRY)
        raise self._loss()

    def _loss(self) -> BaseException:
        return LocalProtocolError("The call has ended: nobody can answer any more; await every ask in it")

    def _take_given(self, key: str, spec: MethodSpec) -> CallAnswer | None:
        """Return an answer that came with the first request, once; if it cannot be used, the question is asked."""
        given = self.given.pop(key, None)
        return read_given(given, spec) if given is not None else None

    def _name(self, spec: MethodSpec, key: str | None) -> str:
        self._asked += 1
        name = key or f"{spec.name.rpartition('/')[0]}-{self._asked}"
        if name in self._pending:
            raise LocalProtocolError(f"Two asks of one call have the key {name!r}: give each its own key=")
        return name

    async def _answer_to(self, name: str, spec: MethodSpec, params: Wire | Raw, timeout: float | None) -> CallAnswer:
        # Encoded now, so that an error is raised at the author's own ``await``.
        ends = math.inf if timeout is None else time.time() + timeout
        ask = _ParkedAsk(spec, Raw(encode_value(params)), asyncio.get_running_loop().create_future(), ends)
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
        """Return whether there are open asks that the body waits for, and the call's state allows to send them."""
        if not self._pending or event not in TRANSITIONS[self.state]:
            return False
        return self.task is not None and not self.task.done()

    def _send_round(self) -> bool:
        """Send a round with the open asks, as no further ask is coming; return whether there was one to send."""
        if not self._is_wanted(_SEAL):
            return False
        asks = self._next_round()
        self._send(asks, self._keeper.seal(self))
        return True

    def _send_or_fail(self) -> bool:
        """Send a round from the event loop, where an error would be lost: it ends the call instead."""
        legs = self._legs
        try:
            return self._send_round()
        except Exception as error:
            self._legs = legs
            self._deliver(error)
            self.end("its round could not be sent")
            return False

    def _next_round(self) -> dict[str, InputRequest]:
        self.state = find_next_state(self.state, _SEAL)
        self.generation += 1
        return {key: InputRequest(method=ask.spec.name, params=ask.params) for key, ask in self._pending.items()}

    def _send(self, asks: dict[str, InputRequest], state: str) -> None:
        now = time.time()
        # Rounded down, so that the client never waits for a person longer than the state is accepted.
        within = {key: max(0, int(min(self.expires, ask.ends) - now)) for key, ask in self._pending.items()}
        self.last = InputRequiredResult(input_requests=asks, request_state=state, meta={ANSWER_WITHIN: within})
        self._keeper.park(self)
        self.state = find_next_state(self.state, _ROUND)
        self._deliver(self.last)

    def resume(self, connection: Connection[ServerSession], request: Request, generation: int) -> bool:
        """Deliver the answers of a retry, or repeat the round that it missed; return whether the request waits."""
        is_parked = self.state is _PARKED
        if is_parked and self.last is not None and generation < self.generation:
            self.state = find_next_state(self.state, CallEvent.REPEAT)
            connection.reply(request, self.last)
            return False
        # Every answer is checked before any is delivered, so that an invalid one leaves the call unchanged.
        given: dict[str, Raw] = (request.params.input_responses or {}) if is_parked else {}
        pending = self._pending
        answers = {key: read_answer(key, raw, pending[key].spec) for key, raw in given.items() if key in pending}
        for key, answer in answers.items():
            ask = self._pending.pop(key)
            if not ask.answer.done():
                size = len(answer.raw)
                self._held = (self._held or OVERHEAD) + (2 * size if size <= SMALL else weight_of(answer.raw))
                ask.answer.set_result(answer)
        self.attach(connection, request)
        return True

    # --- legs: the requests served one after another ------------------------------------------------------------

    def attach(self, connection: Connection[ServerSession], request: Request) -> None:
        """Let a retry wait for the next round or the result."""
        if len(self._legs) >= MAX_LEGS:
            raise make_refusal()
        self.state = find_next_state(self.state, _RETRY)
        self.connection, self.request, self.first = connection, request, request
        self.headers = connection.headers
        self._legs.append((connection, request))
        request.on_cancel = lambda _reason: self.detach(request)
        if self._pending:
            self._quiescence.count(self._send_or_fail)

    def detach(self, request: Request) -> None:
        """Remove a request that was cancelled; without any request left, the handler is cancelled."""
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
            # ``on_cancel`` refers to this call, which refers to the request: a cycle that only the garbage collector
            # would free. ``on_wait`` refers to an HTTP request that is over.
            request.on_cancel = request.on_wait = None

    # --- the end ------------------------------------------------------------------------------------------------

    def end(self, reason: str) -> None:
        """Cancel the body, and only once: a second cancellation would interrupt its ``finally`` blocks."""
        before, self.state = self.state, find_next_state(self.state, CallEvent.CANCEL)
        if before is not self.state and self.task is not None:
            self._why_cancelled = reason
            self.task.cancel(reason)

    def _failed(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if error is None:
            is_refused = self.state is CallState.CANCELLED and not self._keeper.closed
            why = "The server is closing" if self._keeper.closed else "The request was abandoned"
            self._finish(make_refusal() if is_refused else InternalError(why), CallEvent.UNWIND)
        else:
            self._finish(error, _RETURN)

    def _encode_outcome(self, result: Wire) -> Raw:
        facts = self.request or self.first
        lowered, original = facts.revision.lower(result), facts.original
        is_passed_on = original is not None and type(result) is type(original.read)
        return original.carrying(lowered) if original is not None and is_passed_on else Raw(encode_value(lowered))

    def _finish(self, outcome: Wire | BaseException, event: CallEvent) -> None:
        """Deliver the outcome of the call to the requests that wait."""
        self.state = find_next_state(self.state, event)
        for ask in self._pending.values():
            ask.answer.cancel()
        reply: Wire | Raw | BaseException = outcome
        kept = Raw()
        try:
            if isinstance(outcome, BaseException):
                kept = Raw(encode_value(to_wire(outcome)))
            elif self.generation:
                reply = kept = self._encode_outcome(outcome)
        except UNSENDABLE as error:
            reply, kept = replace_unsendable(outcome, error)
        self._deliver(reply)
        self._keeper.ended(self, kept, is_error=isinstance(reply, BaseException))
        # Each of these leads back here, and would keep the call and all its data alive until the garbage
        # collector runs.
        self.first.on_cancel, self.last, self.task = None, None, None


OVERHEAD = 10 * 1024
"""Bytes of a parked call itself: its task, the frames of its handler, its request, its place in the tables. Measured
over HTTP with a handler that only asks; memory that a handler allocates itself cannot be counted."""

SMALL = 4096
"""Bytes up to which nothing is counted, since the overhead of a call includes that much."""

_CONTAINER = 200
"""Bytes of an object or an array with few members: a dict has 184, a list 56 and its members."""

_ITEM = 40
"""Bytes of a member: its slot in the container, and the header of a number."""

_STRING = 56
"""Bytes of a string in addition to its characters, and of its slot in the container."""

_CONTINUED = bytes(range(0x80, 0xC0))
"""UTF-8 continuation bytes."""

_FOUR_BYTES = bytes(range(0xF0, 0x100))
"""Bytes that begin a character beyond U+FFFF, one of which makes its whole string four bytes wide."""

_COUNTED = 1024 * 1024
"""Bytes up to which all are counted, which takes 3 ms of the event loop. Of longer messages, as many are sampled."""

_STRETCHES = 64
"""Number of stretches of a longer message that are sampled. The position in each is random, so that a peer cannot hide
heavy data between the samples."""

_PIECE = 256 * 1024
"""Bytes examined at once, because a copy of a large message would itself take as much memory."""


def weight_of(data: bytes | Raw) -> int:
    """Return the bytes that JSON and its decoded values take together; beyond 1 MiB from a sample."""
    size = len(data)
    if size <= SMALL:
        return 2 * size
    view = memoryview(data)
    if size <= _COUNTED:
        return size + _values_of([bytes(view[at : at + _PIECE]) for at in range(0, size, _PIECE)])
    # Imported here, since few messages are as large.
    from secrets import randbelow

    stretch, drawn = size // _STRETCHES, _COUNTED // _STRETCHES
    starts = (n * stretch + randbelow(stretch - drawn + 1) for n in range(_STRETCHES))
    # The largest width that any character may have, since one wide character widens its string.
    pieces = (bytes(view[at : at + _PIECE]) for at in range(0, size, _PIECE))
    width = 1 if all(piece.isascii() and b"\\" not in piece for piece in pieces) else 4
    weight = _values_of([bytes(view[at : at + drawn]) for at in starts], width=width)
    return size + weight * size // _COUNTED


def _values_of(pieces: Sequence[bytes], width: int = 1) -> int:
    """Return the bytes of the values in these pieces, whose characters take at least ``width`` bytes."""
    weight = characters = 0
    for piece in pieces:
        weight += _STRING * (piece.count(b'"') // 2) + _ITEM * (piece.count(b",") + piece.count(b":"))
        weight += _CONTAINER * (piece.count(b"{") + piece.count(b"["))
        characters += len(piece) if piece.isascii() else len(piece.translate(None, _CONTINUED))
        width = max(width, _find_width(piece))
    return weight + width * characters


def _find_width(piece: bytes) -> int:
    """Return the bytes per character of a string that contains all of these."""
    if b"\\u" in piece or (not piece.isascii() and len(piece.translate(None, _FOUR_BYTES)) < len(piece)):
        return 4
    return 1 if piece.isascii() else 2
