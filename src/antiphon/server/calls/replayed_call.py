"""A modern call that may continue in another process: it keeps a journal, and can be run again over one (*replay*).

The handler's asks and steps are looked up in the journal first: answered ones return at once, completed steps are not
repeated. Owns how a running handler uses its journal; ``journal`` has the journal itself, ``rounds`` its storage and
the choice between copies of a call.

``StoredCalls`` is what the processes of a server store about a call, in a ``StateStore``: the *owner* (the run of the
body that may do steps), the claims of calls that may continue only once, results of steps, and long journals.

The author's view: docs/how-to/several-processes.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections.abc import Awaitable, Callable
from types import CoroutineType
from typing import Any, Protocol, TypeVar

from msgspec import Raw

from antiphon.engine.connection import Connection
from antiphon.errors import (
    CallDiverged,
    CallTimeout,
    InternalError,
    LocalProtocolError,
    PeerError,
    TemporarilyUnavailable,
)
from antiphon.machine.asyncio_tasks import settle_future
from antiphon.machine.state_store import CompareAndSetStore, StateStore
from antiphon.protocol.events import Request
from antiphon.protocol.server_offer import declares_extension
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import CallAbandoned, CallAnswer, Handled, read_answer, read_reply
from antiphon.server.calls.call_states import ENDS, CallEvent, CallState, find_next_state
from antiphon.server.calls.journal import (
    CATCH_UP,
    MAX_JOURNAL,
    Journal,
    JournalEntry,
    JournalPlace,
    outside_lanes,
    run_in_lane,
    use_lanes,
)
from antiphon.server.calls.parked_call import Keeper, RoundCall
from antiphon.server.state.request_state import OpenAsk, Seal, State, make_refusal, outcome_unknown
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import ErrorObject, decode_wire, from_wire
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.rounds import InputRequest
from antiphon.wire.task import TASKS, CreateTaskResult

_GENERATION = 4
"""Bytes of the generation that follow the run in an owner's value."""

_TRIES = 4
"""How often a copy tries to take its call back while others do the same; each failure means that another succeeded."""

log = logging.getLogger("antiphon.server")

T = TypeVar("T")


class StoredPart(Protocol):
    """The part of a call that the store needs."""

    id: bytes
    key: bytes
    """The key under which its steps are recorded: the same in every run, and if the first request is sent again."""
    generation: int

    @property
    def run(self) -> bytes:
        """Id of this run of its body."""
        ...

    @property
    def bound_to(self) -> bytes:
        """What its records are bound to."""
        ...


class StoredCalls:
    """The calls of one server in a store. ``ttl``: seconds for which anything is kept."""

    def __init__(self, store: StateStore, seal: Seal, ttl: float) -> None:
        self._store = store
        self._seal = seal
        self._ttl = ttl
        self._comparing = store if isinstance(store, CompareAndSetStore) else None

    # --- ownership ----------------------------------------------------------------------------------------------

    @property
    def can_take_back(self) -> bool:
        """Whether a parked copy can take back a call that another process has taken over."""
        return self._comparing is not None

    async def _await_store(self, operation: Awaitable[T]) -> T:
        """Wait for the store; a failure is logged, and a peer sees only ``TemporarilyUnavailable``."""
        try:
            return await operation
        except Exception as error:
            # Its text may have the address with a password.
            log.warning("what this server stores cannot be reached: %s", type(error).__name__)
            raise TemporarilyUnavailable("What this server stores cannot be reached now; call again later") from None

    async def claim(self, state: State, run: bytes) -> None:
        """Let one run continue from a round, even twice if its client lost the reply; any other is refused."""
        key = f"antiphon/once/{state.call.hex()}/{state.generation}"
        added = await self._await_store(self._store.add(key, run, self._ttl))
        if not added and await self._await_store(self._store.get(key)) != run:
            raise outcome_unknown()

    async def take(self, state: State, run: bytes) -> None:
        """Make a run that begins at a state the owner of its call, replacing an earlier owner."""
        await self._await_store(
            self._store.put(_owner_key(state.call), _encode_owner(run, state.generation), self._ttl)
        )

    async def take_back(self, call: StoredPart, generation: int) -> bool:
        """Make the parked copy of a call the owner again, since a retry has come to it; return whether it was not.

        Another process that began from the same round or an earlier one loses the call, and raises at its next
        step. One that began from a later round keeps it, because this retry is older.
        """
        comparing = self._comparing
        if comparing is None:
            return False
        key, ours = _owner_key(call.id), _encode_owner(call.run, generation)
        for _ in range(_TRIES):
            owner = await self._await_store(comparing.get(key))
            if owner is None or owner.startswith(call.run):
                return False
            if int.from_bytes(owner[8:], "big") > generation:
                # The owner began at a later round.
                return False
            if await self._await_store(comparing.replace(key, ours, self._ttl, expected=owner)):
                return True
        raise make_refusal()

    async def check_not_overtaken(self, call: StoredPart) -> None:
        """Raise ``CallAbandoned`` if another run owns the call."""
        owner = await self._await_store(self._store.get(_owner_key(call.id)))
        if owner is not None and not owner.startswith(call.run):
            raise CallAbandoned("the call went on in another process")

    # --- steps --------------------------------------------------------------------------------------------------

    async def find_noted_step(self, call: StoredPart, place: str) -> bytes | None:
        """Return the result of a step from any run of a call; ``None`` if there is none."""
        blob = await self._await_store(self._store.get(_step_key(call, place)))
        return None if blob is None else self._seal.open_bytes(blob, call.bound_to + call.key)

    async def note_step(self, call: StoredPart, place: str, value: bytes) -> bytes:
        """Record the result of a step; return the one that was recorded first, because two runs may do the step."""
        if len(value) > MAX_JOURNAL:
            log.warning("a step's result of %d bytes is too long to be noted: a replay may take it again", len(value))
            return value
        blob = self._seal.seal_bytes(value, call.bound_to + call.key)
        if await self._await_store(self._store.add(_step_key(call, place), blob, self._ttl)):
            return value
        return await self.find_noted_step(call, place) or value

    async def note_effect(self, call: StoredPart, place: str, value: bytes) -> bytes:
        """Record a step just taken; ``OutcomeUnknown`` if that fails, because another process would repeat it."""
        try:
            return await self.note_step(call, place, value)
        except TemporarilyUnavailable:
            raise outcome_unknown() from None

    # --- legacy calls ---------------------------------------------------------------------------------------------

    async def begin_journal(self, call: StoredPart) -> None:
        """Record that a legacy call may be begun again, since what must not be repeated is recorded from now on."""
        blob = self._seal.seal_bytes(b"", call.bound_to + call.id)
        await self._await_store(self._store.put(_make_begun_key(call), blob, self._ttl))

    async def has_journal(self, call: StoredPart) -> bool | None:
        """Return whether a legacy call has a journal of this code and these arguments; ``None`` if it has none."""
        blob = await self._await_store(self._store.get(_make_begun_key(call)))
        if blob is None:
            return None
        try:
            self._seal.open_bytes(blob, call.bound_to + call.id)
        except PeerError:
            return False
        return True

    # --- journals -----------------------------------------------------------------------------------------------

    async def put_journal(self, call: StoredPart, generation: int, packed: bytes) -> None:
        """Store the journal of a call as it was when it sent a round."""
        blob = self._seal.seal_bytes(packed, call.bound_to + call.id)
        await self._await_store(self._store.put(_journal_key(call.id, generation, call.run), blob, self._ttl))

    async def journal(self, state: State, bound_to: bytes) -> bytes:
        """Return the journal of a state that carries none; raises ``InvalidParams`` if the store no longer has it."""
        blob = await self._await_store(self._store.get(_journal_key(state.call, state.generation, state.run)))
        if blob is None:
            raise make_refusal()
        return self._seal.open_bytes(blob, bound_to + state.call)


def _encode_owner(run: bytes, generation: int) -> bytes:
    return run + min(generation, 2 ** (8 * _GENERATION) - 1).to_bytes(_GENERATION, "big")


def _owner_key(call: bytes) -> str:
    return f"antiphon/owner/{call.hex()}"


def _make_begun_key(call: StoredPart) -> str:
    return f"antiphon/begun/{call.id.hex()}"


def _step_key(call: StoredPart, place: str) -> str:
    # Bound to the code, because a step of the same name may be something else in another version.
    step = hashlib.blake2b(call.bound_to + place.encode(), digest_size=16)
    return f"antiphon/step/{call.key.hex()}/{step.hexdigest()}"


def _journal_key(call: bytes, generation: int, run: bytes) -> str:
    return f"antiphon/journal/{call.hex()}/{generation}/{run.hex()}"


_LOOK_AGAIN = 0.01
"""Seconds between two checks whether a replayed handler has come to all that was answered."""


class MakesTasks(Protocol):
    """Turns calls into tasks; see ``tasks.served_tasks.ServedTasks``."""

    async def begin(
        self, peer: Connection[ServerSession], request: Request, handled: Handled, journal: Journal, asked: int
    ) -> CreateTaskResult:
        """Make a call a task, with what it has learnt so far."""
        ...


class JournalKeeper(Keeper, Protocol):
    """Keeps a call for other processes as well; see ``rounds.Rounds``."""

    def seal_with_journal(
        self, call: JournalledCall, asked: int, open_asks: tuple[OpenAsk, ...]
    ) -> str | Awaitable[str]:
        """Return the sealed state that the client must send back, including what another process needs to continue."""
        ...

    tasks: Callable[[], MakesTasks] | None
    """Returns what turns calls into tasks."""

    @property
    def stored(self) -> StoredCalls | None:
        """The storage shared by the processes of a server, if they have one."""
        ...

    def key_of(self, connection: Connection[ServerSession], request: Request, handled: Handled, given: str) -> bytes:
        """Return the key under which steps are recorded for a call that the client has named."""
        ...

    def binding_of(self, connection: Connection[ServerSession], request: Request, handled: Handled) -> bytes:
        """Compute the digest that the states and records of a call are bound to."""
        ...


class JournalledCall(RoundCall):
    """A call that may be parked, and replayed elsewhere."""

    __slots__ = (
        "_began", "_diverged", "_gates", "_holds", "_open", "_others", "_storing", "_task", "_waiting_for", "journal",
        "key", "replayed_from", "run", "was_elsewhere",
    )  # fmt: skip

    def __init__(
        self, keeper: JournalKeeper, connection: Connection[ServerSession], request: Request, handled: Handled
    ) -> None:
        super().__init__(keeper, connection, request, handled)
        self.id, self.run, self.replayed_from = os.urandom(16), os.urandom(8), b""
        given = request.meta.call_key if request.meta is not None else None
        self.key = keeper.key_of(connection, request, handled, given) if given else self.id
        """The key under which its steps are recorded: the same in every run, and if the first request is sent again."""
        self.was_elsewhere = bool(given)
        """Whether another process may have done steps that this run does not know of."""
        self.journal = Journal()
        self._others = keeper
        self._open: dict[str, OpenAsk] = {}
        """What another process needs to know about the open asks, by their names on the wire."""
        self._waiting_for: dict[str, OpenAsk] = {}
        """In a replay, by place: asks that were open and have no answer yet."""
        self._began = 0.0
        """When the replay began, by the event loop's clock."""
        self._holds = 0
        """Number of running steps. No round is sent meanwhile, because its state would not include them."""
        self._gates: list[asyncio.Future[None]] = []
        """Steps that wait for a live request."""
        self._diverged: CallDiverged | None = None
        self._task: CreateTaskResult | None = None
        """The task that it goes on as."""
        self._storing: asyncio.Task[None] | None = None
        """Stores the journal of the next round."""

    def _task_of(self, work: CoroutineType[Any, Any, None]) -> asyncio.Task[None]:
        # Names its tasks, so that a replay can tell them apart.
        use_lanes(asyncio.get_running_loop())
        return run_in_lane(work)

    def replay(self, state: State, journal: Journal, run: bytes) -> None:
        """Take over a state before ``start``; its answers go to the journal, unless one cannot be read."""
        self.id, self.run, self.replayed_from, self.generation = state.call, run, state.run, state.generation
        self.key, self.was_elsewhere = state.key or state.call, True
        self.journal, self._asked, self.given = journal, state.asked, {}
        self._began = asyncio.get_running_loop().time()
        params: RoundParams = self.first.params
        answers = params.input_responses or {}
        for ask in state.open:
            if ask.deadline is not None and ask.deadline <= time.time():
                journal.record(ask.place, JournalEntry("timeout", ask.digest))
            elif (answer := answers.get(ask.key)) is not None:
                read_answer(ask.key, answer, METHODS[ask.method])
                journal.record(ask.place, JournalEntry("answer", ask.digest, bytes(answer)))
            else:
                self._waiting_for[ask.place] = ask

    # --- asking -------------------------------------------------------------------------------------------------

    async def _send_ask(
        self, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> CallAnswer:
        """Send an ask as ``RoundCall`` does, and record the answer; in a replay, return the recorded one."""
        self.check_outside_steps(spec)
        if self._is_lost():
            await self._raise_lost()
        place = self.journal.place_of_ask(spec.name, params, key)
        known = self._known(place, spec, key)
        if known is not None:
            return await recall_answer(known, spec)
        name, timeout = self._opened(place, spec, key, timeout)
        try:
            answer = await self._answer_to(name, spec, params, timeout)
        except CallTimeout:
            self.journal.note(place, "timeout")
            raise
        except asyncio.CancelledError:
            if self._why_cancelled is None:
                self.journal.note(place, "withdrawn")
            raise
        finally:
            self._open.pop(name, None)
        self.journal.note(place, "answer", bytes(answer.raw))
        return answer

    def _known(self, place: JournalPlace, spec: MethodSpec, key: str | None) -> JournalEntry | None:
        """Return the entry of a place: from the journal, or from an answer that came with the first request."""
        try:
            known = self.journal.take(place)
        except CallDiverged as error:
            self._diverge(error)
            raise
        if known is None and key is not None and (given := self._take_given(key, spec)) is not None:
            self.journal.note(place, "answer", bytes(given.raw))
            known = self.journal.take(place)
        return known

    def _opened(
        self, place: JournalPlace, spec: MethodSpec, key: str | None, timeout: float | None
    ) -> tuple[str, float | None]:
        """Return an ask's name on the wire and its remaining seconds: those from before a replay, if it was open."""
        where = place.name
        ask = self._waiting_for.pop(where, None)
        if ask is None:
            deadline = time.time() + timeout if timeout is not None else None
            ask = OpenAsk(self._name(spec, key), spec.name, where, place.digest, deadline)
        else:
            timeout = max(0.0, ask.deadline - time.time()) if ask.deadline is not None else None
        self._open[ask.key] = ask
        return ask.key, timeout

    def _loss(self) -> BaseException:
        return self._diverged or CallAbandoned(self._why_cancelled or "the call has ended")

    # --- steps --------------------------------------------------------------------------------------------------

    async def step(self, name: str, work: Callable[[str], Awaitable[bytes]], *, secret: bool = False) -> bytes:
        """Run a step once; a replay returns the recorded result. ``work`` is called with an idempotency key."""
        if self._is_lost():
            await self._raise_lost()
        place = self.journal.place_of_step(name)
        known = self.journal.take(place)
        if known is not None:
            return known.value
        await self._until_live()
        value = await self._find_earlier_result(place)
        if value is None:
            value = await self._take(name, place, work, secret=secret)
        else:
            self.journal.note(place, "step", value, secret=secret)
        return value

    async def _find_earlier_result(self, place: JournalPlace) -> bytes | None:
        """Return what a lost run recorded for a step; ``CallAbandoned`` if another run owns the call."""
        stored = self._others.stored
        if stored is None:
            return None
        self.bound_to = self.bound_to or self._others.binding_of(self.connection, self.first, self.handled)
        noted = await outside_lanes(stored.find_noted_step(self, place.name)) if self.was_elsewhere else None
        if noted is None:
            await outside_lanes(stored.check_not_overtaken(self))
        return noted

    async def _take(
        self, name: str, place: JournalPlace, work: Callable[[str], Awaitable[bytes]], *, secret: bool
    ) -> bytes:
        self._holds += 1
        try:
            value = await self.taken(name, work, f"{self.key.hex()}/{place.name}")
            if self._others.stored is not None:
                value = await outside_lanes(self._others.stored.note_effect(self, place.name, value))
            self.journal.note(place, "step", value, secret=secret)
        finally:
            self._holds -= 1
            if self._pending:
                self._quiescence.count(self._send_or_fail)
        return value

    async def _until_live(self) -> None:
        """Wait for a live request, because only its reply tells the client that a step was done."""
        while self.state is CallState.PARKED:
            gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._gates.append(gate)
            await gate

    def attach(self, connection: Connection[ServerSession], request: Request) -> None:
        """Let a retry wait for the next round, and let steps continue."""
        super().attach(connection, request)
        gates, self._gates = self._gates, []
        for gate in gates:
            settle_future(gate)

    # --- rounds -------------------------------------------------------------------------------------------------

    def _send_round(self) -> bool:
        if self._holds:
            return False
        if self._is_wanted(CallEvent.CATCH_UP):
            if any(self.journal.list_unclaimed()):
                # No round is sent before the handler has come to all answered asks.
                if asyncio.get_running_loop().time() - self._began < CATCH_UP:
                    self._quiescence.look_again(_LOOK_AGAIN, self._send_or_fail)
                else:
                    self._diverge(self.journal.divergence(self._open[name].place for name in self._pending))
                return False
            self.state = find_next_state(self.state, CallEvent.CATCH_UP)
        if not self._is_wanted(CallEvent.SEAL):
            return False
        asks = self._next_round()
        state = self._others.seal_with_journal(self, self._asked, tuple(self._open[name] for name in asks))
        if isinstance(state, str):
            self._send(asks, state)
        else:
            self._storing = asyncio.get_running_loop().create_task(self._send_when_stored(asks, state))
        return True

    def _diverge(self, error: CallDiverged) -> None:
        """Make every ask raise from now on, including the open ones, which are no longer sent."""
        self.state = find_next_state(self.state, CallEvent.DIVERGE)
        self._diverged = error
        for ask in self._pending.values():
            settle_future(ask.answer, error)

    async def _send_when_stored(self, asks: dict[str, InputRequest], storing: Awaitable[str]) -> None:
        try:
            state = await storing
            if self._is_wanted(CallEvent.ROUND):
                self._send(asks, state)
            elif self.state is CallState.SEALING:
                self.state = find_next_state(self.state, CallEvent.LAPSE)
        except Exception as error:
            self._deliver(error)
            if self.state not in ENDS:
                self.end("its journal could not be stored")
        finally:
            self._storing = None

    # --- the end ------------------------------------------------------------------------------------------------

    async def go_on_as_task(self, *, required: bool) -> bool:
        """End this run, and run the handler again as a task, over what it has learnt. See ``Context.go_on_as_task``."""
        if self.handled.task != "later":
            raise LocalProtocolError(f'{self.handled.name}: declare the tool with task="later" to go on as a task')
        if not declares_extension(self.facts.capabilities, TASKS):
            return await super().go_on_as_task(required=required)
        if self._pending or self._holds:
            raise LocalProtocolError(f"{self.handled.name}: await every ask and step before the call becomes a task")
        await self._until_live()
        assert self._others.tasks is not None
        self._task = await self._others.tasks().begin(
            self.connection, self.request or self.first, self.handled, self.journal, self._asked
        )
        self._deliver(self._task)
        raise CallAbandoned("the call goes on as a task")

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """See ``HandlerCall.progress``; raises in a call that another process may have continued."""
        if self._why_cancelled is not None:
            raise CallAbandoned(self._why_cancelled)
        await super().progress(progress, total, message)

    def _finish(self, outcome: Wire | BaseException, event: CallEvent) -> None:
        for gate in self._gates:
            gate.cancel()
        if self._diverged is not None:
            # Even if the body has caught the error: its result comes from the wrong branch.
            log.error("%s: %s", self.handled.name, self._diverged)
            outcome = InternalError(f"CallDiverged: {self._diverged}")
        elif self._task is not None:
            # For a retry of a client that lost the reply.
            outcome = self._task
        super()._finish(outcome, event)


def refusal_of(known: JournalEntry) -> PeerError:
    """Return the error that a client has answered an ask with."""
    return from_wire(decode_wire(Raw(known.value), ErrorObject))


async def recall_answer(known: JournalEntry, spec: MethodSpec) -> CallAnswer:
    """Make a replayed ask end as it did before."""
    if known.kind == "timeout":
        raise CallTimeout(f"{spec.name} was not answered in time")
    if known.kind == "error":
        raise refusal_of(known)
    if known.kind == "withdrawn":
        # The timeout or failed sibling that cancelled it will do so again.
        await asyncio.get_running_loop().create_future()
    raw = Raw(known.value)
    return CallAnswer(raw, read_reply(raw, spec))
