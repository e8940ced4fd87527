"""A call of a tool that waits for a person longer than its caller can: the caller is told to ask again.

The question then stays in the store, and no process waits for it. When the same principal makes the same call again,
that call takes the question over, passes all stages anew, and runs if a person has allowed it. Owns how long a caller
waits, and by what the same call is found again.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import msgspec

from antiphon.host.review.review import NoReviewer, ToolItem, digest
from antiphon.host.store.base import PendingCallRow, ReviewRow
from antiphon.wire.common import CONFIRMS
from antiphon.wire.elicitation import CONFIRM_FORM, ElicitRequestParams, write_question
from antiphon.wire.envelope import encode_canonical, encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams

MAX_ITEM = 1_000_000
"""Most characters of a question that stays in the store after its caller was answered."""


class CallLeft(NoReviewer):
    """The caller of a tool waits no longer; the question stays, and the same call takes it over later."""

    def __init__(self, id: str) -> None:
        super().__init__("it waits for approval")
        self.id = id
        """Id of the question."""


class CallTaken(CallLeft):
    """The same call was made elsewhere, too, and that one carries the decision out."""


class PendingCall:
    """One call of a tool by a caller that asks again, rather than wait as long as a person takes."""

    def __init__(self, seconds: float, kept: float) -> None:
        """``seconds``: how long the caller waits; ``kept``: seconds that the question stays."""
        self.kept = kept
        self._leaves_at = asyncio.get_running_loop().time() + seconds
        self.begun: PendingCallRow | None = None
        """The call, from the moment it may run because of a decision."""
        self.is_repeated = False
        """Whether the outcome of an earlier call is returned."""
        self._approved: tuple[str, str, Any] | None = None
        self._question: str | None = None
        """What its server may ask about the approved call without asking a person."""
        self.by: str | None = None
        """Who approved the call."""
        self.left: PendingCallRow | None = None
        """The call, if an earlier caller had made it before it was decided."""

    def find_deadline(self, item: ToolItem) -> float | None:
        """Return when the caller leaves, in the event loop's time; ``None`` if the question ends before, or is long."""
        is_brief = item.expires_in is not None and item.expires_in <= self.seconds_left
        return None if is_brief or len(item.params.arguments) > MAX_ITEM else self._leaves_at

    @property
    def seconds_left(self) -> float:
        """Seconds until the caller leaves."""
        return self._leaves_at - asyncio.get_running_loop().time()

    def describe_left(self, review: ReviewRow, origin: Origin, now: float) -> PendingCallRow:
        """Describe the call for its caller's return; ``now`` is in seconds since the epoch."""
        until = now + self.kept
        return PendingCallRow(
            id=review.id, fingerprint=review.fingerprint, owner=hash_owner(origin.principal), until=until
        )

    def approve(self, params: CallToolRequestParams, origin: Origin, by: str | None) -> None:
        """Note that a person has looked at this call, so that its server need not have it confirmed once more."""
        meta = None if origin.tool is None else origin.tool.meta
        # The person has seen this, too: a question that is not declared there may ask for anything.
        if meta is not None and isinstance(question := meta.get(CONFIRMS), str):
            values = msgspec.json.decode(bytes(params.arguments) or b"{}", type=dict[str, Any])
            self._approved = (origin.identity, params.name, values)
            self._question = write_question(question, values)
            self.by = by

    def take_confirmation(self, params: ElicitRequestParams, origin: Origin) -> bool:
        """Return whether a server asks to confirm the very call that a person has looked at; true once."""
        call = origin.call
        asked = None if call is None else (origin.identity, call.name, call.arguments or {})
        form = (params.message, params.requested_schema)
        if self._approved is None or asked != self._approved or form != (self._question, CONFIRM_FORM):
            return False
        self._approved = None
        return True

    @contextmanager
    def entered(self) -> Generator[None]:
        """Let what is asked within the block be about this call. After it, its approval confirms nothing."""
        before = PENDING.set(self)
        try:
            yield
        finally:
            PENDING.reset(before)
            # The task that reads from an older server has the context of the call that started it, and outlives it.
            self._approved = None


PENDING: ContextVar[PendingCall | None] = ContextVar("antiphon_pending_call", default=None)
"""The call that this task makes for a caller that asks again; ``None`` for a caller that waits."""


def fingerprint_question(kind: str, origin: Origin, digests: Sequence[str]) -> str:
    """Hash all that makes two questions the same one: who asks for whom, for which call, and about what."""
    # Identify the call by its content, because its id differs after a restart.
    call = [origin.call.method, origin.call.name, origin.call.arguments] if origin.call else None
    whose = [origin.identity, origin.principal]
    return hashlib.sha256(encode_canonical([kind, *whose, call, *digests])).hexdigest()


def digest_call(params: CallToolRequestParams, origin: Origin) -> list[str]:
    """Return the digests of a call and of the definition of its tool."""
    return [digest(params), "" if origin.tool is None else digest(origin.tool)]


def fingerprint_call(params: CallToolRequestParams, origin: Origin) -> str:
    """Hash all that makes two calls the same one: principal, server, arguments, and the definition of the tool."""
    return fingerprint_question("tool", origin, digest_call(params, origin))


def hash_owner(principal: str | None) -> str:
    """Hash the principal whose call it is."""
    return hashlib.sha256(encode_value(principal)).hexdigest()
