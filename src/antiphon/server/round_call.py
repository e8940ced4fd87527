"""One modern call that may ask: its body, the asks that are out, and the requests that are served by it in turn.

The body runs in one task for life. When it waits for answers and a few passes of the event loop bring no further ask,
the live request is answered with all questions at once (``input_required``); the retry, which is another request,
delivers the answers. Where calls may go on in other processes, it also keeps the call's journal. Which calls there are,
and what their states say, is ``rounds``' business.

Source: 2026-07-28 basic/patterns/mrtr.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import CallDiverged, CallTimeout, InternalError, LocalProtocolError
from antiphon.protocol.events import Request
from antiphon.protocol.journal import Entry, Journal, Place, digest_of
from antiphon.protocol.server_session import ServerSession
from antiphon.server.answers import check_readable, is_readable
from antiphon.server.call import Call, CallAbandoned, Handled
from antiphon.server.lanes import lane_here, run_in_lane
from antiphon.server.sealed_state import OpenAsk, State, refusal
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import encode
from antiphon.wire.failure import to_wire
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.rounds import InputRequest, InputRequiredResult

if TYPE_CHECKING:
    from antiphon.server.app import Server

__all__ = ["RoundCall"]

PASSES = 8
"""Passes of the event loop without a new ask before a round is sent. Measured: ``gather`` nested four deep needs 4,
five ``sleep(0)`` need 5; each pass costs about 1.5 microseconds."""

_DIRECT_PASSES = 1
"""The same where every ask comes from the body's own task: it waits for them, so at most a task it made can add one."""

MAX_LEGS = 8
"""Most requests that may wait for the same round of one call: retries of a client that lost the reply."""

_GRACE = 5.0
"""Seconds that a replayed handler has to come to every answered ask before its new asks count as others: long enough
for what it does in between, and no answer is lost by waiting."""

_LOOK_AGAIN = 0.01

log = logging.getLogger("antiphon.server")

Leg = tuple[Connection[ServerSession], Request]


class _Ask:
    __slots__ = ("deadline", "future", "params", "place", "spec")

    def __init__(self, spec: MethodSpec, params: Raw, place: Place | None, timeout: float | None) -> None:
        self.spec = spec
        self.params = params
        self.future: asyncio.Future[Raw] = asyncio.get_running_loop().create_future()
        self.place = place
        self.deadline = time.time() + timeout if timeout is not None else None


class Keeper(Protocol):
    """Who keeps a call between requests: ``rounds.Rounds``."""

    server: Server
    is_shared: bool
    """Whether other processes may go on with the call."""
    closed: bool

    def park(self, call: RoundCall, asked: int, open_asks: tuple[OpenAsk, ...]) -> str | Awaitable[str]:
        """Keep a call until its retry; return the sealed state the client is to bring back."""
        ...

    def ended(self, call: RoundCall, reply: Raw, *, is_error: bool) -> None:
        """Note that a body has ended, and with which reply."""
        ...

    async def check_not_overtaken(self, call: RoundCall) -> None:
        """Raise ``CallAbandoned`` if another process is known to have gone on with a call."""
        ...


class RoundCall(Call):
    """A call that may be parked."""

    __slots__ = (
        "_asked", "_began", "_diverged", "_ending", "_gates", "_held", "_holds", "_legs", "_passes", "_pending",
        "_quiet", "_rounds", "_sending", "_ticking", "_waiting_for", "bound_to", "generation", "given", "handled", "id",
        "journal", "last", "owner", "replayed_from", "run", "task",
    )  # fmt: skip

    def __init__(
        self, rounds: Keeper, connection: Connection[ServerSession], request: Request, handled: Handled
    ) -> None:
        super().__init__(rounds.server, connection, request)
        self.handled = handled
        self.id = b""
        self.run = b""
        self.replayed_from = b""
        """The run that made the state which this one began with."""
        self.owner = connection.principal
        """The principal that the call counts against while it is kept."""
        self.bound_to = b""
        self.generation = 0
        self.journal = Journal() if rounds.is_shared else None
        """What another process needs to go on; ``None`` where none can."""
        self.given: dict[str, Raw] = dict(request.params.input_responses or {})
        """Answers that came with the first request, for keys that the author named."""
        self.last: InputRequiredResult | None = None
        """The round that is out, or was sent last."""
        self.task: asyncio.Task[Wire] | None = None
        self._rounds = rounds
        self._legs: list[Leg] = [(connection, request)]
        self._pending: dict[str, _Ask] = {}
        self._waiting_for: dict[str, OpenAsk] = {}
        """In a replay: by place, the asks that were out and have no answer yet."""
        self._asked = 0
        self._held = len(request.raw or b"")
        self._quiet = 0
        self._passes = _DIRECT_PASSES
        self._holds = 0
        self._began = 0.0
        self._gates: list[asyncio.Future[None]] = []
        self._ticking = False
        self._ending: str | None = None
        self._diverged: CallDiverged | None = None
        self._sending: asyncio.Task[None] | None = None

    def start(self, body: CoroutineType[Any, Any, Wire]) -> None:
        """Run the body, in a task of its own that lives from the first round to the last."""
        if self.journal is None:
            self.task = asyncio.get_running_loop().create_task(body)
        else:
            self.identify()
            self.task = run_in_lane(body)
        self.task.add_done_callback(self._finished)

    def identify(self) -> None:
        """Give the call its names."""
        if not self.id:
            self.id, self.run = os.urandom(16), os.urandom(8) if self.journal is not None else b""

    def replay(self, state: State, journal: Journal, run: bytes) -> None:
        """Take over what a state tells, before ``start``: the answers that came with it are added to the journal.

        Raises:
            InvalidParams: an answer cannot be read; the place is named.
        """
        self.id, self.run, self.replayed_from, self.generation = state.call, run, state.run, state.generation
        self.journal, self._asked, self.given = journal, state.asked, {}
        self._began = asyncio.get_running_loop().time()
        params: RoundParams = self.first.params
        answers = params.input_responses or {}
        for ask in state.open:
            if ask.deadline is not None and ask.deadline <= time.time():
                journal.record(ask.place, Entry("timeout", ask.digest))
            elif (answer := answers.get(ask.key)) is not None:
                check_readable(ask.key, answer, METHODS[ask.method])
                journal.record(ask.place, Entry("answer", ask.digest, bytes(answer)))
            else:
                self._waiting_for[ask.place] = ask

    @property
    def weight(self) -> int:
        """Bytes of requests that it holds, nearly: the first, the answers since, and the one served last."""
        return self._held + len(self.first.raw or b"")

    @property
    def is_done(self) -> bool:
        """Whether the body has ended."""
        return self.task is not None and self.task.done()

    @property
    def is_parked(self) -> bool:
        """Whether no request is live."""
        return not self._legs

    # --- asking -------------------------------------------------------------------------------------------------

    async def ask(self, spec: MethodSpec, params: Wire, key: str | None, timeout: float | None) -> Raw:
        """Put an ask into the next round and wait for its answer; in a replay, know it already."""
        self.check_outside_steps(spec)
        if self._is_lost():
            await self._raise_lost()
        place = self._place(self.journal, spec, params, key) if self.journal is not None else None
        if place is not None and (known := self._known(place)) is not None:
            return await _recall(known, spec)
        if key is not None and (given := self.given.pop(key, None)) is not None and is_readable(given, spec):
            self._note(place, "answer", given)
            return given
        name, timeout = self._name(spec, place, key, timeout)
        # Encoded now: what cannot be sent is the author's to know, at the very await.
        ask = _Ask(spec, Raw(encode(params)), place, timeout)
        self._pending[name] = ask
        if asyncio.current_task() is not self.task:
            self._passes = PASSES
        self._touch()
        with self.out(spec):
            try:
                if timeout is None:
                    return await ask.future
                async with asyncio.timeout(timeout):
                    return await ask.future
            except TimeoutError:
                self._note(place, "timeout")
                raise CallTimeout(f"{spec.name} was not answered within {timeout:g} s") from None
            except asyncio.CancelledError:
                if self._ending is None:
                    self._note(place, "withdrawn")
                raise
            finally:
                self._pending.pop(name, None)

    def _is_lost(self) -> bool:
        return self._ending is not None or self._diverged is not None or self._rounds.closed or self.is_done

    async def _raise_lost(self) -> None:
        # A body that asks again whatever is raised must not block the loop.
        await asyncio.sleep(_LOOK_AGAIN)
        if self._diverged is not None:
            raise self._diverged
        if self.journal is not None:
            raise CallAbandoned(self._ending or "the call has ended")
        raise LocalProtocolError("The call has ended: nobody can answer any more")

    @staticmethod
    def _place(journal: Journal, spec: MethodSpec, params: Wire, key: str | None) -> Place:
        lane = "" if key is not None else _lane(spec.name, "give the ask a key=")
        return journal.place(lane, spec.name, digest_of(spec.name, params), key)

    def _name(
        self, spec: MethodSpec, place: Place | None, key: str | None, timeout: float | None
    ) -> tuple[str, float | None]:
        """Return an ask's name on the wire and the seconds it has: those it had before a replay, if it was out."""
        before = self._waiting_for.pop(place.name, None) if place is not None else None
        if before is not None:
            left = before.deadline - time.time() if before.deadline is not None else None
            return before.key, max(0.0, left) if left is not None else None
        self._asked += 1
        name = key or f"{spec.name.rpartition('/')[0]}-{self._asked}"
        if name in self._pending:
            raise LocalProtocolError(f"Two asks of one call have the key {name!r}")
        return name, timeout

    def _known(self, place: Place) -> Entry | None:
        try:
            return self.journal.take(place) if self.journal is not None else None
        except CallDiverged as error:
            self._diverged = error
            raise

    def _note(self, place: Place | None, kind: Any, value: bytes | Raw = b"", *, secret: bool = False) -> None:
        if place is not None and self.journal is not None:
            self.journal.note(place, kind, bytes(value), secret=secret)

    # --- steps --------------------------------------------------------------------------------------------------

    async def step(self, name: str, work: Callable[[str], Awaitable[bytes]], *, secret: bool = False) -> bytes:
        """Do something once: a replay gets its result from the journal. ``work`` is given an idempotency key."""
        if self.journal is None:
            return await super().step(name, work)
        if self._is_lost():
            await self._raise_lost()
        place = self.journal.place(_lane(f"the step {name!r}", "create it with asyncio"), f"step/{name}", b"")
        known = self.journal.take(place)
        if known is not None:
            return known.value
        await self._until_live()
        await self._rounds.check_not_overtaken(self)
        self._holds += 1
        try:
            value = await self.taken(name, work, f"{self.id.hex()}/{place.name}")
        finally:
            self._holds -= 1
            if self._pending:
                self._touch()
        self._note(place, "step", value, secret=secret)
        return value

    async def _until_live(self) -> None:
        """Wait for a live request: only through its reply does a client learn that a step was taken."""
        while not self._legs:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._gates.append(gate)
            await gate

    # --- rounds -------------------------------------------------------------------------------------------------

    def _touch(self) -> None:
        self._quiet = 0
        if self._legs and not self._ticking:
            self._ticking = True
            asyncio.get_running_loop().call_soon(self._tick)

    def _tick(self) -> None:
        if not self._legs or not self._pending or self._holds or self._sending is not None:
            self._ticking = False
            return
        self._quiet += 1
        if self._quiet <= self._passes:
            asyncio.get_running_loop().call_soon(self._tick)
        elif self.is_done:
            self._ticking = False
        elif self._began and self.journal is not None and (missing := list(self.journal.unclaimed())):
            self._wait_for_claims(missing)
        else:
            self._ticking = False
            self._send_round()

    def _wait_for_claims(self, missing: list[str]) -> None:
        loop = asyncio.get_running_loop()
        if loop.time() - self._began < _GRACE:
            loop.call_later(_LOOK_AGAIN, self._tick)
            return
        self._ticking = False
        asked = [ask.place.name if ask.place is not None else name for name, ask in self._pending.items()]
        self._diverged = CallDiverged(
            f"Run again, the handler asks for {', '.join(asked)}, and within {_GRACE:g} s it did not ask for what was "
            f"answered before: {', '.join(missing)}"
        )
        for ask in self._pending.values():
            if not ask.future.done():
                ask.future.set_exception(self._diverged)

    def _send_round(self) -> None:
        self.generation += 1
        self._passes = _DIRECT_PASSES
        asks = {key: InputRequest(method=ask.spec.name, params=ask.params) for key, ask in self._pending.items()}
        open_asks: tuple[OpenAsk, ...] = ()
        if self.journal is not None:
            open_asks = tuple(
                OpenAsk(key, ask.spec.name, ask.place.name, ask.place.digest, ask.deadline)
                for key, ask in self._pending.items()
                if ask.place is not None
            )
        state = self._rounds.park(self, self._asked, open_asks)
        if isinstance(state, str):
            self._send(asks, state)
        else:
            self._sending = asyncio.get_running_loop().create_task(self._send_when_stored(asks, state))

    async def _send_when_stored(self, asks: dict[str, InputRequest], storing: Awaitable[str]) -> None:
        try:
            state = await storing
            if not self.is_done:
                self._send(asks, state)
        except Exception as error:
            self._fail(error)
        finally:
            self._sending = None

    def _fail(self, error: Exception) -> None:
        for connection, request in self._legs:
            connection.reply_error(request, error)
        self._legs, self.request = [], None
        self.end("its journal could not be stored")

    def _send(self, asks: dict[str, InputRequest], state: str) -> None:
        self.last = InputRequiredResult(input_requests=asks, request_state=state)
        self._deliver(self.last)

    # --- legs: the requests served one after another ------------------------------------------------------------

    def _deliver(self, outcome: Wire | Raw | BaseException) -> None:
        legs, self._legs, self.request = self._legs, [], None
        for connection, request in legs:
            _reply(connection, request, outcome)
            # It leads here, and we to the request: without this both would be garbage that only a collection finds.
            request.on_cancel = None

    def _finished(self, task: asyncio.Task[Wire]) -> None:
        for ask in self._pending.values():
            ask.future.cancel()
        for gate in self._gates:
            gate.cancel()
        outcome = self._outcome(task)
        if isinstance(outcome, BaseException):
            self._rounds.ended(self, Raw(encode(to_wire(outcome))), is_error=True)
        elif self.generation:
            outcome = Raw(encode(outcome))
            self._rounds.ended(self, outcome, is_error=False)
        else:
            self._rounds.ended(self, Raw(), is_error=False)
        self._deliver(outcome)
        self.first.on_cancel, self.last = None, None

    def _outcome(self, task: asyncio.Task[Wire]) -> Wire | BaseException:
        if self._diverged is not None:
            # Also where the body has caught it: what it made of the wrong branch is worth nothing.
            log.error("%s: %s", self.handled.name, self._diverged)
            return InternalError(f"CallDiverged: {self._diverged}")
        if task.cancelled():
            return InternalError("The server is closing") if self._rounds.closed else refusal()
        return task.exception() or task.result()

    def attach(self, connection: Connection[ServerSession], request: Request) -> None:
        """Let a retry wait for what comes next: the end of the call or another round."""
        if len(self._legs) >= MAX_LEGS:
            raise refusal()
        self.connection, self.request, self.first = connection, request, request
        self.headers = connection.headers
        self._legs.append((connection, request))
        request.on_cancel = lambda _reason: self.detach(request)
        gates, self._gates = self._gates, []
        for gate in gates:
            if not gate.done():
                gate.set_result(None)
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
        """Cancel the body; its ``finally`` blocks run, and asks in them raise.

        Where another process may go on with the call, steps raise too: what the other does must not be undone here.
        A second cancellation would cut short the cleanup that the first one began: the body gets one.
        """
        if self._ending is None and self.task is not None:
            self.task.cancel(reason)
        self._ending = self._ending or reason

    def resume(self, connection: Connection[ServerSession], request: Request, generation: int) -> None:
        """Take a retry: deliver its answers and wait for what comes next, or repeat what it missed."""
        if (is_parked := self.is_parked) and self.last is not None and generation < self.generation:
            _reply(connection, request, self.last)
            return
        answers = self._read_answers(request.params) if is_parked else {}
        for key, raw in answers.items():
            ask = self._pending.pop(key)
            if not ask.future.done():
                self._held += len(raw)
                if ask.place is not None:
                    self._note(ask.place, "answer", raw)
                ask.future.set_result(raw)
        self.attach(connection, request)

    def _read_answers(self, params: RoundParams) -> dict[str, Raw]:
        """Check every answer before any is delivered, so that a bad one leaves the call as it was."""
        answers: dict[str, Raw] = {}
        for key, raw in (params.input_responses or {}).items():
            ask = self._pending.get(key)
            if ask is None:
                continue
            check_readable(key, raw, ask.spec)
            answers[key] = raw
        return answers

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See ``Call.progress``; raises in a call that another process may have gone on with."""
        if self._ending is not None and self.journal is not None:
            raise CallAbandoned(self._ending)
        await super().progress(progress, total, message)


def _lane(what: str, remedy: str) -> str:
    lane = lane_here()
    if lane is None:
        raise LocalProtocolError(
            f"{what} comes from a task that its event loop's task factory did not make: run again, the call could not "
            f"tell whose answer is whose; {remedy}"
        )
    return lane


async def _recall(known: Entry, spec: MethodSpec) -> Raw:
    """Let a replayed ask end as it did."""
    if known.kind == "timeout":
        raise CallTimeout(f"{spec.name} was not answered in time")
    if known.kind == "withdrawn":
        # Whatever withdrew it, a timeout or a sibling that failed, will do so again.
        await asyncio.get_running_loop().create_future()
    return Raw(known.value)


def _reply(connection: Connection[ServerSession], request: Request, outcome: Wire | Raw | BaseException) -> None:
    if isinstance(outcome, BaseException):
        connection.reply_error(request, outcome)
    else:
        connection.reply(request, outcome)
