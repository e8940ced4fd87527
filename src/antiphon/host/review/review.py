"""What a person is shown and can decide: the interface between the pipeline and reviewers.

Owns the values that cross it, and the digest that binds a decision to what was shown. It shows nothing itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.budget import Costs, find_dearest, worst_case
from antiphon.host.checks.labels import Label
from antiphon.host.checks.people import Demands, write_decider
from antiphon.host.checks.risk import Risk
from antiphon.host.model_catalogue import ModelPrice
from antiphon.host.providers.base import Usage
from antiphon.host.store.base import MAX_NUMBER, Ticket
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.envelope import encode_canonical, encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

_decode_any = msgspec.json.Decoder().decode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode

MAX_REASON = 2_000
"""Most characters of a reason that are kept: a paragraph or two."""
MAX_TOLD = 500
"""Most characters of a reason that a server is told."""
MAX_UNDO = 60.0
"""Most seconds to take a permission back: a mistake is noticed within a minute or not at all, and the server waits."""
Choice = Literal["approve", "edit", "deny", "answer", "grant", "regenerate"]
Scope = Literal["once", "call", "session", "always"]
Reach = Literal["once", "call", "server"]
"""How far a denial reaches: this ask, all asks of its call, or the server, until it is unblocked."""


class Terms(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of a grant beyond its scope; the grant ends when the first of them is reached."""

    uses: int | None = None
    """Number of further requests."""
    money: int | None = None
    """Nano-dollars, including the worst case of requests in progress."""
    until: float | None = None
    """Time in seconds since the epoch."""
    unbounded: bool = False
    """Whether there are no bounds. Without this, terms that name no bound become the usual ones."""

    def __post_init__(self) -> None:
        if self.unbounded and (self.uses, self.money, self.until) != (None, None, None):
            raise ValueError("terms have bounds or are unbounded, not both")
        figures = self.uses or 0, self.money or 0
        # A later time could not be shown as a date.
        if min(figures) < 0 or max(figures) > MAX_NUMBER or not 0 <= (self.until or 0) < 253_402_300_800:
            raise ValueError(f"terms have bounds from 0 to {MAX_NUMBER}, and end before the year 10000")

    @property
    def named(self) -> bool:
        """Whether they name a bound, or say that there is none."""
        return self != Terms()


USUAL = Terms(uses=10, money=500_000_000)
"""The bounds of a grant whose terms name none: ten requests and half a dollar."""
UNBOUNDED = Terms(unbounded=True)
"""No bounds, by explicit choice."""


class ReviewItem(msgspec.Struct, frozen=True, kw_only=True):
    """One sampling request that waits for a person."""

    origin: Origin
    params: CreateMessageRequestParams
    """Exactly what will be sent to the provider."""
    received: CreateMessageRequestParams
    """What the server sent; differs from ``params`` if the host dropped or lowered something."""
    provider: str
    """The provider that will answer if this is approved."""
    choices: frozenset[Choice]
    """What may be decided. Without ``"approve"`` only a person can answer."""
    risks: tuple[Risk, ...] = ()
    result: CreateMessageResult | None = None
    """The answer under review; ``None`` while the request is."""
    expires_in: float | None = None
    """Seconds until nobody waits any more."""
    model: str | None = None
    """The chosen model; ``None`` for the provider's own."""
    costs: Costs | None = None
    """What it may cost, and what is left; ``None`` if only a person can answer."""
    selection: Any = None
    """How the model was chosen, as plain data: candidates, scores, and why others were not chosen."""
    models: tuple[str, ...] = ()
    """Further models that may be chosen instead, by name, in the user's order."""
    fallbacks: tuple[str, ...] = ()
    """The models tried in this order if the chosen one fails. An approval covers them too."""
    prices: Mapping[str, Any] = msgspec.field(default_factory=dict[str, Any])
    """The prices of all these models, as plain data and as far as they are known; see ``most_of``."""


class ToolItem(msgspec.Struct, frozen=True, kw_only=True):
    """One tool call, or its result, that waits for a person; ``origin.tool`` is how the server describes the tool."""

    origin: Origin
    params: CallToolRequestParams
    """Exactly what will be sent to the server."""
    choices: frozenset[Choice]
    risks: tuple[Risk, ...] = ()
    expires_in: float | None = None
    allowed: str | None = None
    """The definition of the tool as it was allowed before, as JSON, if the server has changed it since; empty if it was
    too long to keep."""
    result: CallToolResult | None = None
    """The result under review, as the model would get it; ``None`` while the call is."""
    labels: tuple[Label, ...] | None = None
    """The labels of the tool, if the person is to check and correct them; ``None`` if not."""
    text: str = ""
    """The text that waits to be handed over, if it is known: the beginning of a skill's file, as its server sent it."""
    left_out: int = 0
    """Number of the file's bytes that ``text`` lacks."""
    demands: Demands = Demands()
    """Whom rules leave it to; only people who have signed in on the page can meet them."""


class ElicitItem(msgspec.Struct, frozen=True, kw_only=True):
    """One elicitation that waits for a person."""

    origin: Origin
    params: ElicitRequestParams
    risks: tuple[Risk, ...] = ()
    expires_in: float | None = None


Undone = tuple[str, ...]
"""The permissions that a person gave and took back before a decision, by ``name_of``, if no store has kept them."""


class _Traced(msgspec.Struct, frozen=True, kw_only=True):
    """What every decision has besides what is decided."""

    ticket: Ticket | None = None
    undone: Undone = ()


class Approve(_Traced, frozen=True, kw_only=True, tag="approve"):
    """Send it as shown (hand over the answer, call the tool); with a wider scope, let similar requests pass as well."""

    digest: str
    """Digest of what was shown: ``digest(item.params)``, or of ``item.result`` when an answer was reviewed."""
    scope: Scope = "once"
    terms: Terms | None = None
    """Bounds of the grant that a wider scope creates; the usual ones if it names none, see ``Terms``."""
    model: str | None = None
    """One of ``item.models``, to answer instead of the chosen one."""
    by: str | None = None
    """Who decided, if no ticket says so."""
    labels: tuple[Label, ...] | None = None
    """The labels of the tool from now on; ``None`` leaves them as they are. Only if the call's item has some."""
    when: str | None = None
    """With a wider scope, for a call of a tool: the grant covers only calls that meet this condition in CEL."""


class Edit(_Traced, frozen=True, kw_only=True, tag="edit"):
    """Send these params instead."""

    params: CreateMessageRequestParams
    digest: str
    """Digest of ``params`` as they were shown after the edit."""
    model: str | None = None
    """As for ``Approve``."""


class EditCall(_Traced, frozen=True, kw_only=True, tag="edit-call"):
    """Call the tool with other arguments: those of ``params``, which is otherwise ``item.params``."""

    params: CallToolRequestParams
    digest: str = ""
    """Digest of ``params`` as they were shown after the edit; there is no decision without it."""

    def __post_init__(self) -> None:
        if not self.digest:
            raise TypeError("EditCall() needs digest=: what digest(params) returns for the params that were shown")


class Deny(_Traced, frozen=True, kw_only=True, tag="deny"):
    """Do not answer; an elicitation is declined."""

    reason: str | None = None
    """Why, for the record: at most ``MAX_REASON`` characters."""
    reach: Reach = "once"
    tell: bool = False
    """Send the reason to the server, with secrets masked, its first ``MAX_TOLD`` characters; only if ``can_tell``
    allows."""
    by: str | None = None
    """Who decided, if no ticket says so."""


class Answer(_Traced, frozen=True, kw_only=True, tag="answer"):
    """Answer in person; a string is a text answer. It becomes the result of a tool, which is then not called."""

    result: CreateMessageResult | str


class Regenerate(_Traced, frozen=True, kw_only=True, tag="regenerate"):
    """Have the request answered once more, and review that answer."""

    model: str | None = None
    """One of ``item.models``; ``None`` for the same one."""


class Filled(_Traced, frozen=True, kw_only=True):
    """What a person did with an elicitation, and what else there is to record of it."""

    result: ElicitResult


Decision = Approve | Edit | EditCall | Deny | Answer | Regenerate


class NoReviewer(Exception):
    """The person cannot be reached, or not any more: the terminal is gone."""


class Deferred(NoReviewer):
    """The program that makes the call puts the question to a person itself, and calls again with the decision."""


class Blocked(NoReviewer):
    """The server was blocked in the meantime, and its questions were withdrawn."""


class Reviewer(Protocol):
    """Asks a person. Cancelling a method withdraws the question. A subclass writes the methods for what it can show."""

    @property
    def available(self) -> bool:
        """Whether a person can be asked now; by default that is so."""
        return True

    async def review(self, item: ReviewItem) -> Decision:
        """Show a request, or an answer, and wait for the decision.

        Args:
            item: what to show.

        Raises:
            NoReviewer: the person cannot be reached any more.
        """
        raise NoReviewer("this reviewer shows no requests for a completion")

    async def confirm(self, item: ToolItem) -> Decision:
        """Show a tool call and wait for the decision: approve, edit, answer or deny.

        Args:
            item: what to show.

        Raises:
            NoReviewer: the person cannot be reached any more.
        """
        raise NoReviewer("this reviewer shows no calls of tools")

    async def elicit(self, item: ElicitItem) -> ElicitResult | Filled | Deny:
        """Show a form or an address, and wait for what the person does with it.

        Args:
            item: what to show.

        Returns:
            The result. ``Deny`` declines, and can reach further: to the call, or to the whole server.

        Raises:
            NoReviewer: the person cannot be reached any more.
        """
        raise NoReviewer("this reviewer shows no elicitations")


@runtime_checkable
class Informed(Protocol):
    """A reviewer that is told what became of the answers a person let pass."""

    def handed_over(self, origin: Origin, why: str | None) -> None:
        """Note that an answer was handed over to the server, or ``why`` it came too late; see ``Host.handed_over``."""


def obstacle_of(reviewer: Reviewer | None) -> str:
    """Say why no person can be asked; a reviewer may say so itself, as ``TerminalReviewer.obstacle`` does."""
    if reviewer is None:
        return "the host has no reviewer"
    return getattr(reviewer, "obstacle", None) or "there is no terminal here"


@runtime_checkable
class QueueReviewer(Protocol):
    """A reviewer whose questions wait in a place where a person has to look for them."""

    @property
    def where(self) -> str:
        """Say where, and how to see them. Holds no secret, because a model may read it."""
        ...


def hash_of(item: ReviewItem | ToolItem | ElicitItem) -> str:
    """Compute the SHA-256 of everything an item shows, in hex; a decision must name it.

    It covers requests, risks, model, costs, choices, who asks and for which call. It leaves out the time and the budget
    left, what is known of a task, the revision, and the ids of the ask and its call: when the same thing is asked
    again, these differ. A server that is slow to start, for one, is met on an older revision.
    """
    origin = msgspec.structs.replace(item.origin, id="", patience=None, revision=None, task=None)
    if origin.call is not None:
        origin = msgspec.structs.replace(origin, call=msgspec.structs.replace(origin.call, id=""))
    still: ReviewItem | ToolItem | ElicitItem = msgspec.structs.replace(item, expires_in=None, origin=origin)
    if isinstance(still, ReviewItem) and still.costs is not None:
        still = msgspec.structs.replace(still, costs=msgspec.structs.replace(still.costs, left=None))
    return hashlib.sha256(encode_canonical([type(item).__name__, still])).hexdigest()


def check_undo(seconds: float | None) -> float | None:
    """Return the seconds in which a permission can be taken back; raise ``ConfigError`` if they are out of bounds."""
    if seconds is not None and not 0 <= seconds <= MAX_UNDO:
        raise ConfigError(f"undo is 0 to {MAX_UNDO:g} seconds")
    return seconds


def usual_terms(
    asked: ReviewItem | ToolItem | ElicitItem | CreateMessageRequestParams | CallToolRequestParams,
) -> Terms:
    """Return the bounds of a grant given without any; for tool calls without an amount, since their cost is unknown."""
    return Terms(uses=USUAL.uses) if isinstance(asked, ToolItem | CallToolRequestParams) else USUAL


def scopes_of(origin: Origin) -> tuple[Scope, ...]:
    """Return the scopes of a grant that can apply: a call that there is, and a lasting one for a pinned program."""
    call: tuple[Scope, ...] = () if origin.call is None else ("call",)
    return (*call, "session", "always") if origin.pinned else (*call, "session")


def most_of(item: ReviewItem, model: str | None = None, params: CreateMessageRequestParams | None = None) -> int | None:
    """Return what will be reserved for a request in nano-dollars; ``None`` if no price is known."""
    reserved = item.costs
    if model in (None, item.model):
        names, least = [item.model, *item.fallbacks], 0 if reserved is None else reserved.worst.money
    else:
        names, least = [model], 0
    prices = [
        msgspec.convert(item.prices[name], ModelPrice) for name in names if name is not None and name in item.prices
    ]
    if not prices:
        return least or None
    if params is None and reserved is not None:
        usage = Usage(input_tokens=reserved.worst.tokens - item.params.max_tokens, output_tokens=item.params.max_tokens)
    else:
        usage = worst_case(item.params if params is None else params)
    # A request that a person made shorter keeps its reservation.
    return max(least, find_dearest(usage, prices).money)


def is_refusal(decision: Decision | ElicitResult) -> bool:
    """Return whether a decision allows nothing: a denial, or a form that is declined or cancelled."""
    return isinstance(decision, Deny) or (isinstance(decision, ElicitResult) and decision.action != "accept")


def name_of(decision: Decision | ElicitResult) -> str:
    """Name a decision in a word, as records have it: ``"approve"``, ``"deny:server"``, ``"accept"``."""
    if isinstance(decision, ElicitResult):
        return decision.action
    name = "edit" if isinstance(decision, EditCall) else type(decision).__name__.lower()
    return f"{name}:{decision.reach}" if isinstance(decision, Deny) and decision.reach != "once" else name


def decider_of(decision: Decision | Filled) -> str | None:
    """Return who made a decision, if that is known."""
    if decision.ticket is not None:
        return decision.ticket.by
    return write_decider(decision.by) if isinstance(decision, Approve | Deny) else None


def can_tell(item: ReviewItem | ToolItem | ElicitItem) -> bool:
    """Return whether the reason of a refusal can be told: to the model that calls a tool, or to a server.

    The error reply to a sampling request can carry it. A round of 2026-07-28 has no error member, and an elicitation is
    declined without a reason.
    """
    return isinstance(item, ToolItem) or (isinstance(item, ReviewItem) and item.origin.round is None)


def digest_item(item: ReviewItem | ToolItem) -> str:
    """Compute the digest of what an approval lets pass: the request, or the answer if that is reviewed."""
    return digest(item.params if item.result is None else item.result)


def digest(value: msgspec.Struct) -> str:
    """Compute the SHA-256 of the canonical JSON (sorted keys, no spaces) of a message or a part of one, in hex.

    Args:
        value: any type of ``antiphon.types``, or one made of these.
    """
    return hashlib.sha256(_encode_sorted(_decode_any(encode_value(value)))).hexdigest()
