"""One question to a person: what is stored of it, what was decided, and what became of that.

Owns how a question is read from its row, whether a decision fits it, and who may make it: roles, rules that leave a
call to certain people, and nobody's own request. Keeping questions, deciding them and waiting for a decision is
``queue``'s, which applies these rules for the page, the terminal and scripts alike.

A call of a tool may wait for a person longer than its caller can (``PendingCall``). The caller is then told to ask
again: the question stays in the store, and when the same principal makes the same call again, that call takes the
question over, passes all stages anew, and runs if a person has allowed it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Literal

import msgspec

from antiphon.host.checks.conditions import holds_for, read_grant_condition
from antiphon.host.checks.form_fields import check_content, fields_of
from antiphon.host.checks.people import Decider, Demands, Person, read_deciders
from antiphon.host.review import review
from antiphon.host.review.review import NoReviewer, ToolItem, digest
from antiphon.host.store.base import Decided, PendingCallRow, ReviewKind, ReviewRow, ReviewState
from antiphon.host.store.chain import Record
from antiphon.machine.call_time import CARRIED
from antiphon.wire.common import CONFIRMS
from antiphon.wire.elicitation import CONFIRM_FORM, ElicitRequestParams, ElicitResult, write_question
from antiphon.wire.envelope import decode_wire, encode_canonical, encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.tools import CallToolRequestParams

_METHODS: dict[ReviewKind, str] = {
    "request": "sampling/createMessage",
    "response": "sampling/createMessage",
    "elicitation": "elicitation/create",
    "tool": "tools/call",
}
_ITEMS: dict[ReviewKind, type[AnyItem]] = {"elicitation": review.ElicitItem, "tool": review.ToolItem}


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a question after it was decided."""

    became: Literal["handed-over", "late", "failed", "blocked", "taken"]
    """The answer was handed over to the server; it came too late; it could not be made, or was refused later; or the
    question was withdrawn because its server was blocked, or because the same call was decided in another one."""
    why: str = ""
    """For ``"late"``: cancelled, call-gone, deadline or closed. For ``"failed"``: the reason of the refusal."""


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """One approval, where a rule wants more than one person."""

    by: str
    """As records name the person."""
    decision: review.Approve | review.EditCall


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """One question, as stored."""

    id: str
    kind: ReviewKind
    group: str
    """The same for all asks of one round of a call, which are shown and decided together."""
    identity: str
    created: float
    """Seconds since the epoch, like all times here."""
    expires: float | None
    state: ReviewState | Literal["held"]
    """``"held"``: decided, and it can be undone until ``release``."""
    waited_for: bool
    """Whether a process waits; ``False`` if it was killed: the decision is then kept for when the ask is repeated."""
    item: AnyItem | None = None
    """What to show; ``None`` once it is over."""
    decision: AnyDecision | None = None
    by: str | None = None
    decided: float | None = None
    hash: str = ""
    """Hash of what is shown (see ``review.hash_of``); a decision must name it."""
    release: float | None = None
    """When a decision that is held takes effect; until then it can be undone."""
    outcome: Outcome | None = None
    """What became of the decision; ``None`` while that is unknown."""
    approvals: tuple[Approval, ...] = ()
    """Those so far, all of the same, where a rule wants more than one person."""


def decision_of(row: ReviewRow) -> AnyDecision:
    """Decode a decision. For an elicitation it is a result, or a denial, which has a tag."""
    body = row.decision or "null"
    if row.kind == "elicitation" and "type" not in msgspec.json.decode(body, type=dict[str, object]):
        return msgspec.json.decode(body, type=ElicitResult)
    return msgspec.json.decode(body, type=review.Decision)


def question_of(row: ReviewRow, item: AnyItem | None = None) -> Question:
    """Read a question from its row."""
    if row.item is not None and item is None:
        # A newer release may have stored what this one cannot read. Other questions are shown all the same.
        with suppress(msgspec.DecodeError):
            item = decode_wire(row.item.encode(), _ITEMS.get(row.kind, review.ReviewItem))
    return Question(
        id=row.id,
        kind=row.kind,
        group=row.group,
        identity=row.identity,
        created=row.created,
        expires=row.expires,
        state="held" if row.held else row.state,
        waited_for=row.host is not None,
        item=item,
        decision=None if row.decision is None else decision_of(row),
        by=row.by,
        decided=row.decided,
        hash=_hash_shown(row, item),
        release=row.release if row.held else None,
        outcome=None if row.outcome is None else msgspec.json.decode(row.outcome, type=Outcome),
        approvals=msgspec.json.decode(row.approvals or "[]", type=tuple[Approval, ...]),
    )


def _hash_shown(row: ReviewRow, item: AnyItem | None) -> str:
    """Return the hash of what is shown: of the item and, after a dot, of earlier approvals."""
    shown = row.hash or ("" if item is None else review.hash_of(item))
    return f"{shown}.{hashlib.sha256(row.approvals.encode()).hexdigest()[:16]}" if row.approvals else shown


def reaches_question(denied: Question, other: Question, reach: review.Reach) -> bool:
    """Return whether a denial of the first question withdraws the other one, too."""
    if denied.item is None or other.item is None or reach == "once":
        return denied.id == other.id
    mine, its = denied.item.origin, other.item.origin
    if reach == "server":
        return bool({mine.identity, *mine.coarser[:1]} & set(its.identities))
    return mine.call is not None and its.call is not None and mine.call.id == its.call.id


def record_withdrawal(row: ReviewRow, by: str | None, now: float) -> Iterator[Record]:
    """Record that a permission was taken back, which has no other record."""
    question = question_of(row)
    if question.item is None or question.decision is None:
        return
    # The process that asked may be gone; the name of a group begins with its name.
    host = row.host or row.group.partition(":")[0]
    origin = question.item.origin
    yield Record(
        at=now,
        ask=origin.id,
        identity=row.identity,
        method=_METHODS[row.kind],
        step="response" if row.kind == "response" else "review",
        outcome=f"undone:{review.name_of(question.decision)}",
        host=host,
        call=origin.call.id if origin.call else None,
        by=by or row.by,
        people=read_deciders(by or row.by),
    )


AnyItem = review.ReviewItem | review.ElicitItem | review.ToolItem
AnyDecision = review.Decision | ElicitResult


class Mismatch(ValueError):
    """A decision does not fit the question: its digest differs, or it was not among the choices."""


class NotShown(Mismatch):
    """A decision names another hash than the question has, so it was made about something else."""


def check(item: AnyItem, decision: review.Decision | ElicitResult) -> None:
    """Check that a decision is about this item, as it was shown. Raises ``Mismatch``: it is not; the text says why."""
    if isinstance(decision, review.Deny) and len(decision.reason or "") > review.MAX_REASON:
        raise Mismatch(f"a reason has at most {review.MAX_REASON} characters")
    if isinstance(item, review.ElicitItem) and isinstance(decision, review.Deny):
        return
    if isinstance(item, review.ElicitItem) or isinstance(decision, ElicitResult):
        if not (isinstance(item, review.ElicitItem) and isinstance(decision, ElicitResult)):
            raise Mismatch("an elicitation is answered with an ElicitResult or denied, and nothing else is")
        if decision.action == "accept" and item.params.mode == "form":
            try:
                check_content(fields_of(item.params), decision.content or {})
            except ValueError as error:
                raise Mismatch(str(error)) from None
        return
    if _choice(decision) not in item.choices or isinstance(
        decision, review.Edit if isinstance(item, review.ToolItem) else review.EditCall
    ):
        raise Mismatch(f"{_choice(decision)} is not a choice here")
    _check_shown(item, decision)


def _check_shown(item: review.ReviewItem | review.ToolItem, decision: review.Decision) -> None:
    shown = item.params if item.result is None else item.result
    if isinstance(decision, review.Approve) and decision.digest != review.digest(shown):
        raise Mismatch("what was approved is not what is kept")
    if isinstance(decision, review.Approve) and decision.when is not None:
        if not isinstance(item, review.ToolItem) or decision.scope == "once":
            raise Mismatch("a condition is for a permission to call a tool more than once")
        try:
            read_grant_condition(decision.when)
        except ValueError as error:
            raise Mismatch(f"the condition cannot be used: {error}") from None
        if not holds_for(decision.when, item.params, item.origin):
            raise Mismatch("the call that was shown does not meet the condition")
    if isinstance(decision, review.Edit | review.EditCall) and decision.digest != review.digest(decision.params):
        raise Mismatch("what was edited is not what was shown")
    model = decision.model if isinstance(decision, review.Approve | review.Edit | review.Regenerate) else None
    offered = (item.model, *item.models) if isinstance(item, review.ReviewItem) else ()
    if model is not None and model not in offered:
        raise Mismatch(f"{model} is not among the models to choose from")


def _choice(decision: review.Decision) -> str:
    if isinstance(decision, review.Approve) and decision.scope != "once":
        return "grant"
    return review.name_of(decision).partition(":")[0]


class NotAllowed(Mismatch):
    """The person may not decide this.

    Args:
        key: why, as the catalogues of the page have it (``barred.KEY``).
        values: what the sentence has in its places.
    """

    def __init__(self, key: str, **values: str) -> None:
        super().__init__(_BARRED[key].format_map(values))
        self.key = key
        self.values = values


_BARRED = msgspec.toml.decode(Path(__file__).with_name("barred.toml").read_bytes(), type=dict[str, str])


def check_decider(by: Decider | None, item: AnyItem, decision: AnyDecision) -> None:
    """Check that somebody may decide this. Raises ``NotAllowed``: somebody else has to."""
    demands = item.demands if isinstance(item, review.ToolItem) else Demands()
    if not isinstance(by, Person):
        if demands:
            raise NotAllowed("person")
        return
    needed = "reviewer" if find_reach(decision) in ("once", "call") else "admin"
    if not by.has_role(needed):
        raise NotAllowed("role", role=needed)
    for names in demands.to:
        if not by.is_among(names):
            raise NotAllowed("to", to=", ".join(names))
    if not isinstance(decision, review.Deny | ElicitResult) and by.principal == item.origin.principal:
        raise NotAllowed("own")
    if demands.people > 1 and not isinstance(decision, review.Approve | review.EditCall | review.Deny):
        raise NotAllowed("proposal")


def find_reach(decision: AnyDecision) -> review.Scope | review.Reach:
    """Return what a decision is about: ``"once"`` for the one question, ``"call"``, or what lasts longer."""
    if isinstance(decision, review.Approve):
        return "always" if decision.labels is not None else decision.scope
    return decision.reach if isinstance(decision, review.Deny) else "once"


def check_undo(by: Decider | None, decided_by: str | None) -> None:
    """Check that somebody may take a decision back: only their own, or as an admin any.

    Raises ``NotAllowed``: somebody else has to.
    """
    if not isinstance(by, Person) or by.has_role("admin"):
        return
    if not by.has_role("reviewer") or by.principal not in read_deciders(decided_by):
        raise NotAllowed("undo")


def read_approved(question: Question, decision: AnyDecision) -> AnyDecision:
    """Return what an approval means: the edit of an earlier person, if it has the digest of that one."""
    if not isinstance(decision, review.Approve):
        return decision
    earlier = (each.decision for each in question.approvals if isinstance(each.decision, review.EditCall))
    return next((each for each in earlier if each.digest == decision.digest), decision)


def count_approvals(question: Question, decision: AnyDecision, decided: Decided) -> Decided:
    """Return what to store if a rule wants more than one person: an approval, until enough have approved the same."""
    item = question.item
    people = item.demands.people if isinstance(item, review.ToolItem) else 1
    if people == 1 or not isinstance(decision, review.Approve | review.EditCall) or decided.by is None:
        return msgspec.structs.replace(decided, seen=None)
    # What somebody has edited is something else: earlier approvals do not count for it.
    same = [each for each in question.approvals if each.decision.digest == decision.digest]
    if set(read_deciders(decided.by)) & {one for each in same for one in read_deciders(each.by)}:
        raise NotAllowed("twice")
    approvals = [*same, Approval(by=decided.by, decision=decision)]
    stored = msgspec.structs.replace(decided, approvals=encode_value(approvals).decode())
    if len(approvals) < people:
        return msgspec.structs.replace(stored, decision=None, by=None, release=None)
    return msgspec.structs.replace(stored, by=" + ".join(each.by for each in approvals))


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

    def __enter__(self) -> None:
        """Let what is asked within the block be about this call. After it, its approval confirms nothing."""
        self._before = PENDING.set(self)

    def __exit__(self, *_error: object) -> None:
        PENDING.reset(self._before)
        # The task that reads from an older server has the context of the call that started it, and outlives it.
        self._approved = None


PENDING: ContextVar[PendingCall | None] = CARRIED
"""The call that this task makes for a caller that asks again; ``None`` for a caller that waits."""
READ: ContextVar[Callable[[], Awaitable[bytes]] | None] = ContextVar("antiphon_read", default=None)
"""Fetches what this task wants to hand over, once a person is to be shown it; ``None`` if nothing can be shown."""


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
