"""The parts of one host that the stages use, and how the end of an ask is recorded and reported.

Owns the texts sent to servers, that a record is saved in the same transaction as the change it describes, and the
record of whether an answer was handed over.
"""

from __future__ import annotations

import asyncio
import logging
import time
import tomllib
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import AbstractContextManager, suppress
from contextvars import ContextVar
from itertools import islice
from pathlib import Path
from secrets import token_hex
from typing import Literal, TypeVar, Unpack

import msgspec

from antiphon.errors import InternalError, Rejected, TooCostly
from antiphon.host.audit import Audit, Facts
from antiphon.host.budget import Account, Amount, Budget, estimate_usage, find_dearest
from antiphon.host.checks.ask_limits import AskGate
from antiphon.host.checks.conditions import MOST_COUNTED, Situation
from antiphon.host.checks.labels import FLOWING, LABELS, MAX_LINKS, Label, SessionLabels
from antiphon.host.checks.policy_rules import Asked, Policy, Verdict, decide
from antiphon.host.checks.redact import Redaction, mask_text
from antiphon.host.checks.risk import mask_to_json
from antiphon.host.models.selection import KEY_NAMES, Choose, Chosen
from antiphon.host.providers.base import Completion, Provider, Usage
from antiphon.host.review.definitions import Allowed, Digests
from antiphon.host.review.given_grants import Grants
from antiphon.host.review.question import Outcome
from antiphon.host.review.review import Blocked, QueueReviewer, Reach, Reviewer, obstacle_of
from antiphon.host.store.base import Change, Ended, Hold, Settlement, Store, Ticket
from antiphon.host.store.chain import Record, Step
from antiphon.machine.call_time import hold_variable
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams

T = TypeVar("T")

Reason = Literal[
    "user",
    "policy",
    "no-reviewer",
    "expired",
    "changed",
    "limit",
    "budget",
    "secret",
    "no-model",
    "definition",
    "deferred",
    "pending",
]
"""Why an ask was refused: the ``data.reason`` of ``Rejected``."""

SAMPLING = "sampling/createMessage"
ELICITATION = "elicitation/create"
TOOL = "tools/call"

_FAILED = {TOOL: "Whether to call the tool could not be decided; the log of the host says why"}
# 2025-11-25 client/sampling, "Error Handling": code -1, this text. That of a tool stays on this side.
_REFUSED = {SAMPLING: "User rejected sampling request", TOOL: "User rejected the call of the tool"}

_CAUSES: dict[str, str] = tomllib.loads(Path(__file__).with_name("causes.toml").read_text("utf-8"))
"""Texts for this side about refusals that no person made."""
_CAUSES["no-model"] = _CAUSES["no-model"].format(keys=KEY_NAMES)
_SETUP: frozenset[Reason] = frozenset({"no-reviewer", "no-model"})
_UNANSWERED: ContextVar[list[str] | None] = ContextVar("antiphon_unanswered", default=None)
_MOST_PRINCIPALS = 1_000
_FULL = {f" {number}": 1 for number in range(MOST_COUNTED + 1)}
"""Stands for more names than are counted: conditions that use them are unclear."""
_LONGEST_DETAIL = 300
"""Most characters of a failure that are logged."""

_NOTHING = Change()

_log = logging.getLogger("antiphon.host")


def note_unanswered(causes: list[str]) -> AbstractContextManager[None]:
    """Add to a list why an ask within the block got no answer, if no person refused it and somebody can remedy that."""
    return hold_variable(_UNANSWERED, causes)


SESSION: ContextVar[str | None] = ContextVar("antiphon_session", default=None)
"""The run that makes the calls; without one, all calls of a principal are one session."""


class PassedCalls:
    """How often a host has let each tool be called, by principal, and what was read. All this ends with the process.

    A call counts from the moment it is asked about, so that of several at once only as many pass as a rule allows.
    """

    def __init__(self) -> None:
        self._calls: dict[str | None, dict[str, int]] = {}
        self._flowed: dict[str | None, frozenset[Label]] = {}
        self._first: dict[str | None, str] = {}
        self._links: dict[str | None, tuple[str, ...]] = {}

    def add(self, name: str, origin: Origin, count: int = 1) -> None:
        """Count a call, or with -1 take it back."""
        calls = self._find_calls(origin)
        if calls is _FULL:
            return
        self._calls[origin.principal] = calls
        calls[name] = calls.get(name, 0) + count
        if calls[name] <= 0:
            del calls[name]
        if len(calls) > MOST_COUNTED:
            self._calls[origin.principal] = _FULL

    def situation(self, origin: Origin, but: str | None = None) -> Situation:
        """Return what conditions may depend on; ``but``: without one call of this tool."""
        calls = Counter(self._find_calls(origin)) - Counter([but] if but is not None else ())
        links = self._links.get(SESSION.get() or origin.principal, ())
        return Situation(calls=calls, flowed=self._find_flowed(origin), links=links)

    def flow(self, origin: Origin, labels: Iterable[Label]) -> None:
        """Remember what the session of a call that is made reads by it."""
        key, flowed = SESSION.get() or origin.principal, self._find_flowed(origin)
        if FLOWING.intersection(labels) - flowed:
            self._flowed[key] = flowed | FLOWING.intersection(labels)
        if "private" in labels and key in self._flowed:
            self._first[key] = origin.id if "private" not in flowed or self._first.get(key) == origin.id else ""

    def note_links(self, origin: Origin, links: Iterable[str]) -> None:
        """Remember addresses that a call has read, unless the model may have put data of the user into them.

        Having read such data, it may write an address with them, and read that back by a call that ends later.
        """
        key = SESSION.get() or origin.principal
        flowed = self._flowed.get(key)
        if flowed is not None and ("private" not in flowed or self._first.get(key) == origin.id):
            self._links[key] = tuple(islice(dict.fromkeys((*self._links.get(key, ()), *links)), MAX_LINKS))

    def read_labels(self) -> SessionLabels | None:
        """Return what the present run has read, and what was read outside of runs; ``None`` if nothing."""
        run, others = (self._flowed.get(key, frozenset()) for key in (SESSION.get(), None))
        return (run, others) if run or others else None

    def restore_labels(self, labels: SessionLabels) -> None:
        """Remember what was read before the present run was interrupted."""
        for key, flowed in zip((SESSION.get(), None), labels, strict=True):
            self._flowed[key] = self._flowed.get(key, frozenset()) | flowed

    def forget_session(self, session: str) -> None:
        """Forget what a session has read, because it has ended."""
        for kept in (self._flowed, self._first, self._links):
            kept.pop(session, None)

    def _find_flowed(self, origin: Origin) -> frozenset[Label]:
        # A session that has no room is taken for one that has read everything.
        has_room = len(self._flowed) < _MOST_PRINCIPALS
        return self._flowed.get(SESSION.get() or origin.principal, frozenset() if has_room else FLOWING)

    def _find_calls(self, origin: Origin) -> dict[str, int]:
        return self._calls.get(origin.principal, {} if len(self._calls) < _MOST_PRINCIPALS else _FULL)


MAX_RELEASED = 1_000
"""Most answers whose end is not known yet, far more than one process has open; the oldest are dropped unrecorded."""


class _HandoverAnswer(msgspec.Struct, frozen=True):
    method: str
    reviews: tuple[str, ...]
    by_person: bool


class Released:
    """The answers of one host that are on their way."""

    def __init__(self) -> None:
        self._answers: OrderedDict[str, _HandoverAnswer] = OrderedDict()

    def add(self, origin: Origin, method: str, reviews: tuple[str, ...], *, by_person: bool) -> None:
        """Add an answer that leaves."""
        self._answers[origin.id] = _HandoverAnswer(method, reviews, by_person)
        if len(self._answers) > MAX_RELEASED:
            self._answers.popitem(last=False)

    def record(self, audit: Audit, store: Store, origin: Origin, why: str | None) -> Awaitable[None] | None:
        """Record what became of an answer; ``why`` it came too late, or ``None`` if it was handed over.

        Returns an awaitable, or nothing if there is nothing to record: the record of an answer that no person gave
        already says that it was sent.
        """
        answer = self._answers.pop(origin.id, None)
        if answer is None or (why is None and not answer.by_person):
            return None
        return _record_handover(audit, store, origin, answer, why)


async def _record_handover(
    audit: Audit, store: Store, origin: Origin, answer: _HandoverAnswer, why: str | None
) -> None:
    outcome = Outcome(became="handed-over") if why is None else Outcome(became="late", why=why)
    step, said = ("answered", "handed-over") if why is None else ("withdrawn", f"late:{why}")
    record = audit.draft(origin, answer.method, step, said)
    await store.commit(Change(ended=make_end(answer.reviews, outcome), records=(audit.keep(record),)))


def make_end(reviews: tuple[str, ...], outcome: Outcome) -> Ended | None:
    """Make what a store records about the end of reviews; ``None`` if nobody reviewed."""
    return Ended(reviews=reviews, outcome=encode_value(outcome).decode()) if reviews else None


FAILED = Outcome(became="failed", why="error")
"""What became of an ask if the store or a part of the host failed."""
_LATER = 1.0
"""Seconds that a store has to save the end of an ask at once; otherwise it does so later."""


class PendingAsks:
    """The asks of one host that wait for a person."""

    def __init__(self) -> None:
        self._open: dict[asyncio.Timeout, Origin] = {}
        self._ended: set[asyncio.Timeout] = set()

    async def put(self, origin: Origin, seconds: float | None, review: Awaitable[T]) -> T:
        """Wait for a reviewer, for at most some seconds.

        Raises ``TimeoutError``: it took longer. Raises ``Blocked``: the server was blocked, or the call stopped.
        """
        limit = asyncio.timeout(seconds)
        try:
            async with limit:
                self._open[limit] = origin
                try:
                    return await review
                finally:
                    del self._open[limit]
        except TimeoutError:
            if limit in self._ended:
                raise Blocked("withdrawn with the rest of its call or server") from None
            raise
        finally:
            self._ended.discard(limit)

    def end(self, origin: Origin, reach: Reach) -> None:
        """End the asks of the same call, or of the same server."""
        now = asyncio.get_running_loop().time()
        for limit, other in self._open.items():
            same_call = other.chain == origin.chain
            same_server = other.identity == origin.identity
            # A block also covers similar servers, such as the same one started in another folder.
            blocked = reach == "server" and (same_server or origin.alike in other.identities)
            reached = blocked or (same_server and same_call)
            if reached and not limit.expired():
                self._ended.add(limit)
                limit.reschedule(now)


class Desk(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of one host."""

    provider: Provider
    policy: Policy
    reviewer: Reviewer | None
    review_response: Literal["never", "flagged", "always"]
    review_timeout: float | None
    generate_timeout: float | None
    store: Store
    grants: Grants
    audit: Audit
    gate: AskGate
    budget: Budget
    redaction: Redaction
    waiting: PendingAsks = msgspec.field(default_factory=PendingAsks)
    released: Released = msgspec.field(default_factory=Released)
    logged: set[Reason] = msgspec.field(default_factory=set[Reason])
    """Causes that were logged: each is logged once."""
    telling: set[asyncio.Task[None]] = msgspec.field(default_factory=set[asyncio.Task[None]])
    """Tasks that update the people who watch an answer arrive."""
    choose: Choose | None = None
    models: Collection[str] | None = None
    """Globs of the models that may answer; ``None`` for all."""
    digests: Digests = msgspec.field(default_factory=Digests)
    """The hashes of the definitions of tools."""
    allowed: Allowed = msgspec.field(default_factory=Allowed)
    """The tools whose definition was allowed, as far as this host remembers."""
    passed: PassedCalls = msgspec.field(default_factory=PassedCalls)
    """The calls of tools that were let pass, for the conditions of rules."""
    edit_note: str = ""
    """What a model is told about a call that a person changed; ``{names}`` stands for the changed arguments."""

    @property
    def headless(self) -> bool:
        """Whether no person can be asked now."""
        return self.reviewer is None or not self.reviewer.available


class Case:
    """One ask on its way through the stages: what is known about it, and what must still be saved."""

    # Defaults are set on the class: each call of a tool makes a case, and most cases change few of these.
    chosen = Chosen()
    situation: Situation | None = None
    """What conditions of rules may depend on, as it was when the call of a tool was asked about."""
    held: Hold | None = None
    sent = False
    """Whether the provider may have been called."""
    usage: Usage | None = None
    """The usage that the provider reported; ``None`` while unknown."""
    estimated = False
    """Whether the usage is an estimate, because the provider did not report it."""
    ticket: Ticket | None = None
    """The decision that is to be carried out."""
    became: Outcome | None = None
    """What became of the ask in the end, if it got no answer."""
    labels: str | None = None
    """The labels that a person gave the tool, as they are stored."""
    is_own = False
    """Whether it is a request of the person's own."""
    by_person = False
    """Whether a person has let it pass."""
    flow: Callable[[str], object] | None = None
    """Receives the answer while it arrives, for a program that reads it as a stream."""

    def __init__(self, desk: Desk, origin: Origin, method: str) -> None:
        self.desk = desk
        self.origin = origin
        self.method = method
        self._began = time.monotonic()
        self.reviews: list[str] = []
        """The reviews that contributed to the outcome."""
        self._unsaved: list[Record] = []

    @property
    def expires_in(self) -> float | None:
        """Seconds for which a person can be waited for: the shorter of our timeout and the server's."""
        return min((each for each in (self.desk.review_timeout, self.waited_for) if each is not None), default=None)

    @property
    def waited_for(self) -> float | None:
        """Seconds for which the server still waits for the answer; ``None`` if unknown."""
        patience = self.origin.patience
        return None if patience is None else patience - (time.monotonic() - self._began)

    def refuse_late(self) -> None:
        """Refuse if the server has stopped waiting: nobody could use the answer, so no model is paid for it.

        Raises ``Rejected``: the call is gone.
        """
        if self.waited_for is not None and self.waited_for <= 0:
            raise self.refusal("expired")

    @property
    def is_saved(self) -> bool:
        """Whether nothing is left to be saved."""
        return not self._unsaved and self.held is None and self.ticket is None and self.became is None

    @property
    def cost(self) -> int | None:
        """What the completion cost, in nano-dollars; ``None`` if nobody knows, or the price is not known."""
        price = self.chosen.price
        return None if self.usage is None or price is None else Amount.of(self.usage, price).money

    def verdict(self, params: Asked, *, redefined: bool = False) -> Verdict:
        """Apply the policy. Whether a person can be asked is found out only if one is needed, since it takes time."""
        desk, origin = self.desk, self.origin
        situation = self.situation
        verdict = decide(desk.policy, params, origin, redefined=redefined, situation=situation)
        if verdict.effect != "ask" or not desk.headless:
            return verdict
        return decide(desk.policy, params, origin, headless=True, redefined=redefined, situation=situation)

    def note_tool(self, labels: str | None, *, is_known: bool) -> None:
        """Note the labels that a person gave the tool, and whether it was allowed before."""
        self.labels = labels
        if self.situation is not None:
            given = None if labels is None else frozenset(label for label in LABELS if label in labels.split())
            self.situation = msgspec.structs.replace(self.situation, given=given, is_known=is_known)

    def note(self, step: Step, outcome: str = "", digest: str | None = None, **facts: Unpack[Facts]) -> None:
        """Record a step; it is saved with the next change."""
        self._unsaved.append(self.desk.audit.keep(self.draft(step, outcome, digest, **facts)))

    async def content(self, value: msgspec.Struct) -> str | None:
        """Return what a record keeps of a value: nothing unless content is kept, and never secrets."""
        return await self.scan_message(mask_to_json(value)) if self.desk.audit.content else None

    async def scan_message(self, scan: Awaitable[T]) -> T:
        """Return the result of examining a message. Raises ``Rejected``: there is too much to examine."""
        try:
            return await scan
        except TooCostly as error:
            raise self.refusal("limit", str(error)) from None

    def draft(self, step: Step, outcome: str = "", digest: str | None = None, **facts: Unpack[Facts]) -> Record:
        """Make the record of a step that has not happened yet, and may fail to."""
        return self.desk.audit.draft(self.origin, self.method, step, outcome, digest, **facts)

    async def save(self, change: Change | None = None) -> str | None:
        """Save a change together with the steps recorded so far. Returns the key of what prevents it."""
        change = change or _NOTHING
        if not self._unsaved and change == _NOTHING:
            return None
        noted, drafts = tuple(self._unsaved), change.records
        try:
            refused = await self.desk.store.commit(msgspec.structs.replace(change, records=noted + drafts))
        except Exception:
            if change.settle is not None:
                # The store makes it later, with these records.
                del self._unsaved[: len(noted)]
            raise
        if refused is None:
            del self._unsaved[: len(noted)]
            for record in drafts:
                self.desk.audit.keep(record)
        return refused

    async def hold(
        self, usage: Usage, accounts: tuple[Account, ...], *, drafts: tuple[Record, ...], sent: bool, use: str | None
    ) -> str | None:
        """Reserve the worst case, and record the drafts. Returns the key of what prevents it.

        That is an account, ``"grant"``, or ``"block"`` if a person has blocked the server.
        """
        amount = find_dearest(usage, self.chosen.at_stake)
        hold = Hold(
            id=token_hex(8),
            ask=self.origin.id,
            identity=self.origin.identity,
            coarser=self.origin.coarser,
            accounts=accounts,
            amount=amount,
            sent=sent,
        )
        # Set before it is made, so that it is settled whatever happens meanwhile.
        self.held, self.sent, self.usage, self.estimated = hold, False, None, False
        refused = await self.save(Change(hold=hold, use=use, records=drafts))
        self.held, self.sent = (hold, sent) if refused is None else (None, False)
        return refused

    async def send(self, *drafts: Record) -> str | None:
        """Save that the provider is called now, and the drafts. Returns the key of what prevents it.

        That is ``"review"`` if the decision does not exist any more, or ``"hold"`` if the reservation does not: it must
        then be made again.
        """
        refused = await self.save(Change(send=self.held.id if self.held else None, finish=self.ticket, records=drafts))
        if refused is None:
            # Not before: if saving fails, or is cancelled, the provider is not called.
            self.sent, self.ticket = True, None
        elif refused == "hold":
            self.held = None
        return refused

    def note_completion(self, completion: Completion, params: CreateMessageRequestParams) -> None:
        """Note the usage of a completion, and the model that answered in the end."""
        self.usage, self.estimated = completion.usage, completion.usage is None
        if self.usage is None:
            self.usage = estimate_usage(params, completion.result)
        if completion.by is not None:
            self.chosen = self.chosen.instead(completion.by)

    async def settle(self) -> None:
        """Save the actual usage: nothing if nothing was sent, the worst case if it is unknown."""
        held, self.held = self.held, None
        if held is None:
            await self.save()
            return
        amount = Amount()
        if self.sent:
            usage = self.usage
            amount = held.amount if usage is None else Amount.of(usage, self.chosen.price)
            over = amount.money > held.amount.money or amount.tokens > held.amount.tokens
            self.note(
                "settled",
                "unknown" if usage is None else "over" if over else "estimated" if self.estimated else "used",
                model=self.chosen.model or self.desk.provider.name,
                input_tokens=held.amount.tokens if usage is None else usage.input_tokens,
                output_tokens=0 if usage is None else usage.output_tokens,
                money=amount.money,
            )
        await self.save(Change(settle=Settlement(id=held.id, amount=amount)))

    async def finish(self) -> bool:
        """Save that a decision is carried out. Returns false if it does not exist any more."""
        refused = None if self.ticket is None else await self.save(Change(finish=self.ticket))
        self.ticket = None
        return refused is None

    def refuse_undecided(self) -> Rejected:
        """Refuse because a block, or a process that took this one for dead, has withdrawn the decision."""
        return self.refusal("changed", "the decision does not exist any more")

    async def close(self) -> None:
        """Settle, and save what is left, even if the ask is withdrawn meanwhile."""
        if self.ticket is None:
            # One change, which a store finishes once it has begun.
            await self.settle()
        else:
            await asyncio.shield(asyncio.ensure_future(self._end_case()))
        if self.became is not None and self.reviews:
            await self.save(Change(ended=make_end(tuple(self.reviews), self.became)))

    async def save_later(self) -> None:
        """Let the store save what could not be saved now as soon as it can be reached."""
        ended = make_end(tuple(self.reviews), self.became or FAILED)
        with suppress(Exception):
            async with asyncio.timeout(_LATER):
                await self.save(Change(finish=self.ticket, ended=ended, last=True))

    async def _end_case(self) -> None:
        if self.held is not None:
            await self.settle()
        # If it does not exist any more: nothing has left because of it.
        await self.finish()
        await self.save()

    def refusal(self, reason: Reason, detail: str = "", *, why: str = "") -> Rejected:
        """Record a refusal and make its error. ``detail`` stays here; ``why`` is for our own caller only."""
        self.note("refused", f"{reason}:{detail}" if detail else reason)
        told = _REFUSED.get(self.method, "User rejected the request")
        error = Rejected(self._cause(reason, why or detail) or told, data={"reason": reason})
        # The server gets the specification's text, regardless of who refused.
        error.told = told
        self._tell(reason, error.message)
        if detail:
            error.add_note(f"{reason}: {detail}")
        return error

    def leave_call(self, id: str, *, is_sent: bool = False) -> Rejected:
        """Record that the caller of a tool waits no longer, and make the error, with the id of what still waits.

        ``is_sent``: the call was allowed and sent, and has no outcome yet.
        """
        left = self.refusal("pending")
        left.data = {"reason": "pending", "id": id, "sent": is_sent}
        return left

    def withdrawal(self) -> Rejected:
        """Record that a person has stopped the call or blocked the server during the wait, and make the error."""
        if self.desk.gate.is_stopped(self.origin):
            return self.refusal("user", "the call was stopped")
        return self.refusal("policy", "blocked")

    def decline(self, reason: Reason) -> ElicitResult:
        """Record a refusal, and make the answer to an elicitation."""
        self.note("refused", reason)
        self._tell(reason, self._cause(reason))
        return ElicitResult(action="decline")

    def _cause(self, reason: Reason, why: str = "") -> str:
        """Say for this side what refused, and where a question waited that nobody saw; empty if a person refused."""
        cause, reviewer = _CAUSES.get(reason, ""), self.desk.reviewer
        if reason == "no-reviewer":
            cause = cause.format(obstacle=obstacle_of(reviewer))
        if reason == "expired" and isinstance(reviewer, QueueReviewer):
            why = reviewer.where
        head, _, remedies = cause.partition(": ")
        return f"{head}: {why}; {remedies}".removesuffix("; ") if cause and why else cause

    def _tell(self, reason: Reason, cause: str) -> None:
        """Report a refusal that no person made and that somebody can remedy; log it once per host."""
        noted = _UNANSWERED.get()
        if noted is not None and (reason in _SETUP or reason == "expired"):
            noted.append(mask_text(cause))
        if reason in _SETUP and reason not in self.desk.logged:
            self.desk.logged.add(reason)
            _log.warning("%s was refused: %s", self.method, mask_text(cause)[:_LONGEST_DETAIL])

    def failure(self, detail: str, remedy: str = "") -> InternalError:
        """Log what went wrong on our side, masked, and make the error for the server, which contains nothing of it.

        ``remedy``: what our own caller can do about it.
        """
        if self.became != FAILED:
            self.note("failed")
        # Only the first line: after it, errors of databases quote the statement and its data.
        _log.error("%s: %s", self.method, mask_text(detail.partition("\n")[0])[:_LONGEST_DETAIL])
        told = _FAILED.get(self.method, "The client could not answer the request")
        error = InternalError(f"{told}: {remedy}" if remedy else told)
        error.told = told
        return error
