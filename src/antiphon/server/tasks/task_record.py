"""The record of one task, and how each event changes it. Pure: no clock, no I/O.

What a task has learnt (its journal) is stored beside it, entry by entry, since it may be much larger.
The call that became the task is stored in the record, and read again from it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from datetime import UTC, datetime

import msgspec
from msgspec import Raw, Struct, structs

from antiphon.errors import InternalError
from antiphon.protocol.caller import Caller
from antiphon.protocol.events import Request
from antiphon.server.state.request_state import OpenAsk
from antiphon.server.tasks.task_states import ENDS, HELD, STATUS, TaskEvent, TaskState, find_next_state
from antiphon.wire.common import ABSENT, ClientCapabilities, Wire
from antiphon.wire.envelope import ErrorObject, decode_wire, encode_value
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import find_revision
from antiphon.wire.rounds import InputRequest
from antiphon.wire.task import GetTaskResult, TaskStatus

_MAX_MESSAGE = 1_000
"""Most characters of a status message, which is written and sent with every change."""


class TaskAsk(OpenAsk, frozen=True, array_like=True):
    """An open ask of a task; its name on the wire is never used twice in one task."""

    params: bytes
    """Its params as JSON."""


class TaskRecord(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One task. Times are seconds since the epoch; each change returns a new record."""

    id: str
    version: int = 0
    """Raised by every write."""
    owner: str | None = None
    """The principal that made the call."""
    state: TaskState = TaskState.RUNNING
    revision: str
    capabilities: ClientCapabilities
    """What the client declared in the call; it is asked for nothing else."""
    scopes: tuple[str, ...] = ()
    """Scopes of the token with which it was made; the token itself is not kept."""
    implied: tuple[str, ...] = ()
    """Further scopes that features of the server require and that these include."""
    has_token: bool = False
    """Whether a token was verified."""
    is_local: bool = False
    """Whether it was made by a local program, which needs no token."""
    code: bytes = b""
    """Digest of the handler's code."""
    created: float
    updated: float
    ttl: float
    """Seconds since its creation after which it may be forgotten, without the time in which people were asked."""
    waited: float = 0.0
    """Seconds in which people were asked, without the present period."""
    asked_since: float | None = None
    """Start of the present period in which people are asked; ``None`` if nobody is asked."""
    message: str | None = None
    """What is being done, for people."""
    asks: tuple[TaskAsk, ...] = ()
    """The open asks."""
    asked: int = 0
    """How many asks were numbered."""
    holder: str = ""
    """The process that holds it."""
    generation: int = 0
    """How often it was taken."""
    lease: float | None = None
    """Time until which it is held; ``None``: until its process ends."""
    outcome: bytes = b""
    """JSON of the result or the error, at the end."""

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.state in ENDS

    @property
    def due(self) -> float | None:
        """The time at which a process must take up the task; ``None`` if only a client can change it."""
        if self.state is TaskState.READY:
            return 0.0
        if self.state in HELD:
            return self.lease
        deadlines = [ask.deadline for ask in self.asks if ask.deadline is not None]
        return min(deadlines) if deadlines and not self.is_over else None

    def expires(self, patience: float) -> float:
        """Return the time at which it may be forgotten. ``patience``: most seconds for which people are waited for."""
        waited = patience if self.asked_since is not None else min(self.waited, patience)
        return self.created + self.ttl + waited

    @property
    def status(self) -> TaskStatus:
        """The status for clients."""
        if self.asks and self.state is not TaskState.STOPPING and not self.is_over:
            return "input_required"
        return STATUS[self.state]

    # --- changes ------------------------------------------------------------------------------------------------

    def moved(self, event: TaskEvent, now: float) -> TaskRecord:
        """Return the record after an event that changes nothing else."""
        if self.is_over:
            return self
        record = structs.replace(self, state=find_next_state(self.state, event), updated=now)
        if record.state not in HELD:
            record = structs.replace(record, holder="", lease=None)
        return _with_asks(record, (), now) if record.is_over else record

    def taken(self, holder: str, lease: float | None, now: float) -> TaskRecord:
        """Return the record as held by a process."""
        record = self.moved(TaskEvent.TAKE, now)
        if record.is_over:
            return record
        return structs.replace(record, holder=holder, lease=lease, generation=self.generation + 1, updated=self.updated)

    def ended(self, event: TaskEvent, outcome: bytes, message: str | None, keep: float, now: float) -> TaskRecord:
        """Return the record at its end, to be kept for at least ``keep`` seconds from now on."""
        record = self.moved(event, now)
        ttl = max(record.ttl, now - record.created - record.waited + keep)
        return structs.replace(record, outcome=outcome, message=_cut_message(message), ttl=ttl)

    def asking(
        self, keep: Collection[str], new: Sequence[TaskAsk], asked: int, message: str | None, now: float
    ) -> TaskRecord:
        """Return the record with those of its open asks whose keys are in ``keep``, and with new ones."""
        asks = (*(ask for ask in self.asks if ask.key in keep), *new)
        record = structs.replace(self, asked=max(asked, self.asked), message=_cut_message(message), updated=now)
        return _with_asks(record, asks, now)

    def answered(self, keys: Collection[str], now: float) -> TaskRecord:
        """Return the record without asks that were answered."""
        left = tuple(ask for ask in self.asks if ask.key not in keys)
        return _with_asks(self.moved(TaskEvent.ANSWER, now), left, now)

    # --- what clients see ---------------------------------------------------------------------------------------

    def seen(self, patience: float, poll: float) -> GetTaskResult:
        """Return the task in the form for clients."""
        status = self.status
        requests = {ask.key: InputRequest(method=ask.method, params=Raw(ask.params)) for ask in self.asks}
        return GetTaskResult(
            task_id=self.id,
            status=status,
            status_message=self.message,
            created_at=_format_iso(self.created),
            last_updated_at=_format_iso(self.updated),
            ttl_ms=round((self.expires(patience) - self.created) * 1000),
            poll_interval_ms=round(poll * 1000),
            input_requests=requests if status == "input_required" else None,
            result=Raw(self.outcome) if status == "completed" else ABSENT,
            error=msgspec.json.decode(self.outcome, type=ErrorObject) if status == "failed" else None,
        )


def _with_asks(record: TaskRecord, asks: tuple[TaskAsk, ...], now: float) -> TaskRecord:
    since, waited = record.asked_since, record.waited
    if asks and since is None:
        since = now
    elif not asks and since is not None:
        since, waited = None, waited + max(0.0, now - since)
    return structs.replace(record, asks=asks, asked_since=since, waited=waited)


def _cut_message(message: str | None) -> str | None:
    return message if message is None or len(message) <= _MAX_MESSAGE else f"{message[: _MAX_MESSAGE - 1]}…"


def _format_iso(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def call_params(request: Request) -> bytes:
    """Return the params of a call without what belongs to its rounds."""
    members: dict[str, Raw] = decode_wire(request.raw, dict[str, Raw])
    if "requestState" in members:
        members.pop("requestState")
        members.pop("inputResponses", None)
    return encode_value(members)


def read_stored_request(record: TaskRecord, stored: bytes) -> Request:
    """Return the request that became a task. ``stored``: its params."""
    agreed, method = find_revision(record.revision), METHODS["tools/call"]
    if agreed is None:
        raise InternalError(f"The revision {record.revision} is not spoken any more")
    params: Wire = decode_wire(Raw(stored), method.params)
    meta = getattr(params, "meta", None)
    request = Request(record.id, method, params, Raw(stored), agreed, meta, record.capabilities)
    if record.has_token:
        implied = frozenset(record.implied)
        request.caller = Caller(
            record.owner or "", frozenset(record.scopes), covers=lambda _, required: required in implied
        )
    return request
