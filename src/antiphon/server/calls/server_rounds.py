"""The modern calls of a server that ask: which are parked, which request continues which call, and for how long.

A handler runs until it asks. Its asks are sent as the result of the request, with a sealed state, and the handler is
parked; the client answers by a retry, which carries the state::

    request --> run the handler --has a result--> reply
                  |        ^
               it asks     | deliver the answers
                  v        |
    reply: asks, state   parked here? --no--> state or store has its journal?
                  |        ^                    | yes: replay the handler over it, as a new call
                client     |                    | no: refuse the retry
                  +--retry-+

A single process puts only the ids of calls into states. With keys shared by several processes a state also carries the
call's journal. Owns the table of calls, its limits and its clock, and the content of states. ``parked_call`` and
``replayed_call`` run one call.

Source: 2026-07-28 basic/patterns/mrtr. The design: docs/topics/eras-and-rounds.md.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import os
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeGuard

from msgspec import Raw, Struct, field, json, structs

from antiphon.engine.connection import LATER, Connection, Later
from antiphon.errors import PeerError, TemporarilyUnavailable
from antiphon.machine.asyncio_tasks import start_in
from antiphon.protocol.call_record import CallRecord
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import ServerSession
from antiphon.server.calls.call import Handled
from antiphon.server.calls.call_states import CallEvent, CallState
from antiphon.server.calls.parked_call import RoundCall
from antiphon.server.core import Core
from antiphon.server.state import request_state
from antiphon.wire.common import RoundParams
from antiphon.wire.envelope import ErrorObject

if TYPE_CHECKING:
    # Loaded when they are first needed: most servers run in one process, and keep nothing for another one.
    from antiphon.machine.state_store import StateStore
    from antiphon.server.calls.recorded_call import RecordedCall
    from antiphon.server.calls.replayed_call import JournalledCall, MakesTasks, StoredCalls

__all__ = ["EndedCall", "Handled", "KeptCalls", "RoundOptions", "ServerRounds"]

log = logging.getLogger("antiphon.server")

_STORED_FROM = 32 * 1024
"""Bytes from which a journal is put into the store, if there is one, because every retry would carry it."""

_CARRIED = request_state.MAX_STATE // 2
"""Most bytes of a journal in a state: encryption and base64 add a third."""


_SHARE = 4
"""An authenticated client may have a quarter of the table and its memory; beyond that, its own oldest calls are
dropped."""

_ENDED = 1024
"""Bytes of an ended call in addition to its reply: its ids, its place in the tables."""


class RoundOptions(Struct, frozen=True):
    """How long calls that ask are kept, and where. See ``Server``."""

    parked_for: float = 600.0
    state_for: float = 86_400.0
    max_parked: int = 10_000
    max_parked_bytes: int = 128 * 1024 * 1024
    store: StateStore | None = None


class EndedCall(Struct, gc=False, frozen=True):
    """What is kept of an ended call: ``reply`` is the JSON of its result or error."""

    run: bytes
    replayed_from: bytes
    generation: int
    owner: str | None
    reply: Raw
    is_error: bool

    @property
    def weight(self) -> int:
        """Bytes it holds, approximately."""
        return _ENDED + len(self.reply)


Entry = RoundCall | EndedCall


class _Kept(Struct, frozen=True):
    """What is kept of a call, until when by the loop's clock, and its bytes."""

    entry: Entry
    until: float
    weight: int


class _Shelf(Struct, eq=False):
    """Calls by id in the order of last use: limited in number and in total size."""

    _limit: int
    _room: int
    calls: OrderedDict[bytes, _Kept] = field(default_factory=OrderedDict[bytes, _Kept])
    size: int = 0

    @property
    def is_over(self) -> bool:
        """Whether the oldest must be dropped. The newest stays, whatever its size."""
        return (len(self.calls) > self._limit or self.size > self._room) and len(self.calls) > 1

    def put(self, id: bytes, kept: _Kept) -> bool:
        """Add a call, or move it to the end; return whether the oldest must be dropped."""
        if id in self.calls:
            self.take(id)
        self.calls[id] = kept
        self.size += kept.weight
        return (len(self.calls) > self._limit or self.size > self._room) and self.is_over

    def take(self, id: bytes) -> _Kept | None:
        """Remove a call and return it, if it is here."""
        kept = self.calls.pop(id, None)
        if kept is not None:
            self.size -= kept.weight
        return kept

    def oldest(self) -> bytes:
        return next(iter(self.calls))


class KeptCalls:
    """Calls between requests by id, the one used longest ago first: parked calls, and the last reply of ended ones.

    All entries live equally long after their last use, so one timer serves all. Ended calls are kept as bytes, which
    cost the garbage collector next to nothing.

    ``ttl``: seconds an entry is kept after its last use. ``limit``: most entries. ``room``: most bytes of requests and
    replies. ``leave``: called with a parked call whose time is over.
    """

    def __init__(self, ttl: float, limit: int, room: int, leave: Callable[[RoundCall, str], object]) -> None:
        self._ttl = ttl
        self._leave = leave
        self._all = _Shelf(limit, room)
        self._owned: dict[str, _Shelf] = {}
        self._share = max(1, limit // _SHARE), room // _SHARE
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._all.calls)

    def get(self, id: bytes) -> Entry | None:
        """Return what is kept of a call."""
        kept = self._all.calls.get(id)
        return None if kept is None else kept.entry

    def keep(self, id: bytes, entry: Entry) -> None:
        """Keep a call, or its reply, from now on; make room for it."""
        loop = asyncio.get_running_loop()
        kept = _Kept(entry, loop.time() + self._ttl, entry.weight)
        is_over = self._all.put(id, kept)
        if entry.owner is not None:
            owned = self._owned.get(entry.owner)
            if owned is None:
                owned = self._owned[entry.owner] = _Shelf(*self._share)
            owned.put(id, kept)
            while owned.is_over:
                self._drop(owned.oldest(), "too many calls of this client wait")
        while is_over and self._all.is_over:
            self._drop(self._all.oldest(), "too many calls wait")
        if self._timer is None:
            self._timer = loop.call_later(self._ttl, self._sweep)

    def forget(self, id: bytes) -> None:
        """Drop a call."""
        gone = self._all.take(id)
        if gone is None:
            return
        owner = gone.entry.owner
        if owner is not None:
            owned = self._owned[owner]
            owned.take(id)
            if not owned.calls:
                del self._owned[owner]

    def clear(self) -> None:
        """Drop all calls."""
        for id in list(self._all.calls):
            self.forget(id)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _sweep(self) -> None:
        loop = asyncio.get_running_loop()
        self._timer = None
        while self._all.calls:
            id = self._all.oldest()
            until = self._all.calls[id].until
            if until > loop.time():
                self._timer = loop.call_at(until, self._sweep)
                return
            self._drop(id, "no retry came in time")

    def _drop(self, id: bytes, reason: str) -> None:
        entry = self._all.calls[id].entry
        self.forget(id)
        if isinstance(entry, RoundCall):
            self._leave(entry, reason)


class ServerRounds:
    """The calls of one server that may ask."""

    def __init__(self, core: Core, seal: request_state.Seal, options: RoundOptions) -> None:
        self.core = core
        self.is_shared = seal.is_shared
        """Whether other processes may continue them."""
        self.closed = False
        self._seal = seal
        self._options = options
        self.own_process: Callable[[], str] | None = None
        """Returns the name of this process, if several serve the same sessions; set by the owner."""
        self.legacy_calls: StoredCalls | None = None
        """What these processes know of each other's legacy calls; set by the owner."""
        self._kept = KeptCalls(options.parked_for, options.max_parked, options.max_parked_bytes, RoundCall.end)
        self._live: dict[bytes, RoundCall] = {}
        """Calls that have been parked and serve a request now."""
        self._running: set[RoundCall] = set()
        self._retries: set[asyncio.Task[None]] = set()
        self._warned = False
        self.tasks: Callable[[], MakesTasks] | None = None
        """Returns what turns calls into tasks; set by the owner."""

    @cached_property
    def _store(self) -> StoredCalls | None:
        if self._options.store is None:
            return None
        from antiphon.server.calls.replayed_call import StoredCalls

        return StoredCalls(self._options.store, self._seal, self._options.state_for)

    @property
    def stored(self) -> StoredCalls | None:
        """The storage shared by the processes of this server, if they have one and keys to encrypt its contents."""
        return self._store if self.is_shared else None

    @property
    def parked(self) -> int:
        """Number of calls kept: those between rounds, and those whose result may still be requested again."""
        return len(self._kept)

    @cached_property
    def _describe_journalled(self) -> type[JournalledCall]:
        """What a call is that another process may go on with."""
        from antiphon.server.calls.replayed_call import JournalledCall

        return JournalledCall

    def serve(self, connection: Connection[ServerSession], request: Request, handled: Handled) -> Later:
        """Begin a call, or continue the one that the request's state names."""
        params: RoundParams = request.params
        if params.request_state is not None:
            self._retry(connection, request, handled, params.request_state)
            return LATER
        kind = self._describe_journalled if self.is_shared or handled.task == "later" else RoundCall
        self._start(kind(self, connection, request, handled))
        return LATER

    def _start(self, call: RoundCall, event: CallEvent = CallEvent.START) -> None:
        request = call.first
        request.on_cancel = lambda _reason: call.detach(request)
        self._running.add(call)
        call.start(event)

    def recorded(
        self, connection: Connection[ServerSession], request: Request, handled: Handled, record: CallRecord
    ) -> RecordedCall:
        """Make a legacy call that another process can go on with."""
        from antiphon.server.calls.recorded_call import RecordedCall

        assert self.legacy_calls is not None
        bind = partial(self.binding_of, connection, request, handled)
        return RecordedCall(self.core, connection, request, handled, record=record, stored=self.legacy_calls, bind=bind)

    # --- retries ------------------------------------------------------------------------------------------------

    def _retry(self, connection: Connection[ServerSession], request: Request, handled: Handled, text: str) -> None:
        bound_to = self.binding_of(connection, request, handled)
        state = self._seal.open(text, bound_to, time.time())
        retry = _Retry(connection, request, handled, state, bound_to)
        call, stored = self._copy_of(state), self.stored
        is_held_elsewhere = self.own_process is not None and state.holder not in ("", self.own_process())
        if call is None and request.pass_on is not None and is_held_elsewhere:
            request.pass_on(state.holder)
            return
        if stored is None or (call is not None and not handled.once and not _may_be_owned_elsewhere(call, stored)):
            self._go_on(retry, call, state.journal)
            return
        request.on_cancel = start_in(self._retries, self._go_on_with_store(retry, stored)).cancel

    def _copy_of(self, state: request_state.State) -> RoundCall | EndedCall | None:
        """Return our copy of a call if it is as recent as the state; a copy that was overtaken elsewhere is ended."""
        live = self._live.get(state.call)
        call = live or self._kept.get(state.call)
        if call is None or state.run in (call.run, call.replayed_from):
            return call
        if live is not None or state.generation <= call.generation:
            # Two runs of one call from the same round: the local one continues.
            raise request_state.make_refusal()
        self._kept.forget(state.call)
        if isinstance(call, RoundCall):
            call.end("the call went on in another process")
        return None

    def _go_on(
        self, retry: _Retry, call: RoundCall | EndedCall | None, journal: bytes | None, run: bytes = b""
    ) -> None:
        if call is None:
            self._replay(retry, journal, run)
        elif not isinstance(call, RoundCall):
            self._kept.keep(retry.state.call, call)
            if call.is_error:
                error = json.decode(call.reply, type=ErrorObject)
                failure = PeerError(error.message, code=error.code, data=error.data)
                retry.connection.reply_error(retry.request, failure)
            else:
                retry.connection.reply(retry.request, call.reply)
        elif call.resume(retry.connection, retry.request, retry.state.generation):
            self._kept.forget(call.id)
            self._live[call.id] = call
        else:
            self._kept.keep(call.id, call)

    def _replay(self, retry: _Retry, journal: bytes | None, run: bytes) -> None:
        if retry.handled.once and not run:
            # Alone, no other process can have gone on with it: the call has ended here.
            raise request_state.outcome_unknown() if self.is_shared else request_state.make_refusal()
        if not journal or self.closed:
            raise request_state.make_refusal()
        from antiphon.server.calls.journal import Journal

        call = self._describe_journalled(self, retry.connection, retry.request, retry.handled)
        try:
            call.replay(retry.state, Journal.unpack(journal), run or os.urandom(8))
        except ValueError:
            raise request_state.make_refusal() from None
        call.bound_to = retry.bound_to
        self._live[call.id] = call
        self._start(call, CallEvent.REPLAY)

    # --- with a store -------------------------------------------------------------------------------------------

    async def _go_on_with_store(self, retry: _Retry, stored: StoredCalls) -> None:
        connection, request, handled, state = retry.connection, retry.request, retry.handled, retry.state
        run = os.urandom(8)
        try:
            if handled.once:
                here = self._copy_of(state)
                await stored.claim(state, here.run if here is not None else run)
            call, journal = self._copy_of(state), state.journal
            if call is None:
                if journal == b"":
                    journal = await stored.journal(state, retry.bound_to)
                await stored.take(state, run)
            elif _may_be_owned_elsewhere(call, stored):
                # Nobody else can have taken it over while the store cannot be reached.
                with suppress(TemporarilyUnavailable):
                    call.was_elsewhere = await stored.take_back(call, state.generation) or call.was_elsewhere
            if not request.cancelled:
                self._go_on(retry, self._copy_of(state), journal, run)
        except asyncio.CancelledError:
            connection.reply_error(request, request_state.make_refusal())
            raise
        except Exception as error:
            connection.reply_error(request, error)

    # --- parking ------------------------------------------------------------------------------------------------

    def park(self, call: RoundCall) -> None:
        """Keep a call until its retry."""
        self._live.pop(call.id, None)
        self._kept.keep(call.id, call)

    def seal(self, call: RoundCall) -> str:
        """Return the sealed state that the client must send back."""
        return self._seal.seal(self._state_of(call, self._options.parked_for), call.bound_to)

    def seal_with_journal(
        self, call: JournalledCall, asked: int, open_asks: tuple[request_state.OpenAsk, ...]
    ) -> str | Awaitable[str]:
        """Return the sealed state that the client must send back, including what another process needs to continue."""
        if not self.is_shared:
            # No other process could go on with it, and what is not encrypted must hold nothing that the call learnt.
            return self.seal(call)
        state = self._state_of(call, self._options.state_for)
        packed = b"" if call.journal.is_full else call.journal.pack()
        key = call.key if call.key != call.id else b""
        if self.stored is not None and len(packed) > _STORED_FROM:
            state = structs.replace(state, asked=asked, open=open_asks, key=key)
            return self._store_journal(self.stored, call, state, packed)
        if packed and len(packed) <= _CARRIED:
            state = structs.replace(state, asked=asked, open=open_asks, journal=packed, key=key)
        else:
            self._warn_once(call)
        return self._seal.seal(state, call.bound_to)

    def _state_of(self, call: RoundCall, lasts: float) -> request_state.State:
        """Return the state of a call without a journal. ``lasts``: seconds for which it is accepted."""
        call.id = call.id or os.urandom(16)
        call.bound_to = call.bound_to or self.binding_of(call.connection, call.first, call.handled)
        call.expires = time.time() + lasts
        holder = "" if self.own_process is None else self.own_process()
        return request_state.State(call.id, call.generation, call.expires, call.run, holder=holder)

    async def _store_journal(
        self, stored: StoredCalls, call: JournalledCall, state: request_state.State, packed: bytes
    ) -> str:
        try:
            await stored.put_journal(call, state.generation, packed)
        except TemporarilyUnavailable:
            # It goes on here, and elsewhere only if the client can carry the journal.
            carried = packed if len(packed) <= _CARRIED else None
            return self._seal.seal(structs.replace(state, journal=carried), call.bound_to)
        return self._seal.seal(structs.replace(state, journal=b""), call.bound_to)

    def _warn_once(self, call: RoundCall) -> None:
        if not self._warned:
            self._warned = True
            remedy = "answer in smaller parts" if self.stored else "give the server a state_store="
            log.warning(
                "the journal of %r has outgrown its state: this call can only go on in this process; %s",
                call.handled.name, remedy,
            )  # fmt: skip

    def ended(self, call: RoundCall, reply: Raw, *, is_error: bool) -> None:
        """Note that a body has ended. The reply of a call that was parked is kept for retries."""
        self._running.discard(call)
        if self._live.pop(call.id, None) is call or self._kept.get(call.id) is call:
            left = EndedCall(
                run=call.run,
                replayed_from=call.replayed_from,
                generation=call.generation,
                owner=call.owner,
                reply=reply,
                is_error=is_error,
            )
            self._kept.keep(call.id, left)

    def close(self) -> list[asyncio.Task[Any]]:
        """End every call; return the tasks that still have to finish."""
        self.closed = True
        for retry in list(self._retries):
            retry.cancel()
        for call in list(self._running):
            call.end("the server is closing")
        self._kept.clear()
        self._live.clear()
        return [*self._retries, *(call.task for call in self._running if call.task is not None)]

    def key_of(self, connection: Connection[ServerSession], request: Request, handled: Handled, given: str) -> bytes:
        """Return the key under which steps are recorded for a call that the client has named.

        It includes the principal, the method and the arguments, so that no client finds the steps of another. It does
        not include the code, so that idempotency keys stay the same across deployments.
        """
        arguments = self.core.arguments_of(request)
        bound = request_state.compute_binding(
            connection.principal, request.method.name, handled.name, arguments, self.core.name
        )
        return hashlib.blake2b(bound + given.encode(), digest_size=16).digest()

    def binding_of(self, connection: Connection[ServerSession], request: Request, handled: Handled) -> bytes:
        """Compute the digest that states and records of a call are bound to: the caller, call, arguments and code."""
        core = self.core
        code = core.code_of(handled.code) if self.is_shared else b""
        arguments = core.arguments_of(request)
        return request_state.compute_binding(
            connection.principal, request.method.name, handled.name, arguments, core.name, code
        )


class _Retry(Struct, frozen=True):
    connection: Connection[ServerSession]
    request: Request
    handled: Handled
    state: request_state.State
    bound_to: bytes


def _may_be_owned_elsewhere(call: RoundCall | EndedCall | None, stored: StoredCalls) -> TypeGuard[JournalledCall]:
    """Return whether a copy must ask the store before it continues: a parked one, if it can take the call back."""
    from antiphon.server.calls.replayed_call import JournalledCall

    return stored.can_take_back and isinstance(call, JournalledCall) and call.state is CallState.PARKED
