"""What the processes of a server store about one call: who may continue it, and which steps it has done.

Owns the keys in a ``StateStore`` and their values: the *owner* (the run of the body that may do steps), the claims of
calls that may continue only once, the results of steps, and journals too long for a state.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Awaitable
from typing import Protocol, TypeVar

from antiphon.errors import PeerError, TemporarilyUnavailable
from antiphon.server.calls.call import CallAbandoned
from antiphon.server.calls.journal import MAX_JOURNAL
from antiphon.server.state.request_state import Seal, State, make_refusal, outcome_unknown
from antiphon.server.state.state_store import CompareAndSetStore, StateStore

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
            if owner is None or _get_run(owner) == call.run:
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
        if owner is not None and _get_run(owner) != call.run:
            raise CallAbandoned("the call went on in another process")

    # --- steps --------------------------------------------------------------------------------------------------

    async def find_noted_step(self, call: StoredPart, place: str) -> bytes | None:
        """Return the result of a step from any run of a call; ``None`` if there is none."""
        blob = await self._await_store(self._store.get(_step_key(call, place)))
        if blob is None:
            return None
        return self._seal.open_bytes(blob, call.bound_to + call.key)

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


def _get_run(owner: bytes) -> bytes:
    return owner[:8]


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
