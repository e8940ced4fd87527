"""Grants: permissions that a person gave for more than one request, and which requests they cover.

The ``store`` counts uses and keeps grants beyond the process. Rules written in advance are in ``policy``.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable
from typing import Literal

import msgspec

from antiphon.host.audit import Audit
from antiphon.host.budget import Account, Cap
from antiphon.host.checks.conditions import holds_for
from antiphon.host.checks.people import Decider
from antiphon.host.model_catalogue import LOCAL
from antiphon.host.models.selection import Chosen
from antiphon.host.review import review
from antiphon.host.review.question import Question
from antiphon.host.store.base import GrantRow, Store
from antiphon.host.store.memory_store import MemoryStore
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import Origin
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams

GrantScope = Literal["call", "session", "always"]
Asked = CreateMessageRequestParams | CallToolRequestParams


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """One remembered permission.

    It covers requests of the same server with the same tools and system prompt, for no more tokens and of no larger
    size class than the one that was approved, to a model that costs no more and reaches no further. Or it covers calls
    of one tool, as long as the server's description of it stays the same.
    """

    identity: str
    scope: GrantScope
    principal: str | None = None
    """Whose calls it covers (``origin.principal``); ``None`` if the client has no name."""
    call: str | None
    """The call it is for (``origin.call.id``); ``None`` for all calls."""
    tools: str
    """Digest of the tools and the tool choice; for a tool call, of the server's description of that tool."""
    system_prompt: str
    """Digest of the system prompt."""
    max_tokens: int
    size_class: int
    """How many times the size in bytes doubles from 4 KiB: 0 up to 4 KiB, 1 up to 8 KiB, ..."""
    terms: review.Terms = review.Terms()
    tool: str | None = None
    """The tool that may be called; ``None`` if sampling is allowed."""
    models: tuple[str, ...] = ()
    """The models it was given for, by the user's names: the chosen one and its fallbacks."""
    reaches: tuple[str, ...] = ()
    """How far the approved request could travel, fallbacks included: ``"local"``, or vendors (see ``Model.reach``).
    Empty if the model was the provider's own."""
    price_class: int = 0
    """The highest cost of what was approved; see ``Chosen.price_class``."""
    when: str | None = None
    """The condition that calls of the tool must meet; ``None`` for none."""
    script: str = ""
    """Of a lasting grant, SHA-256 of the server's script (``origin.script``): it is asked again once that changes."""

    @classmethod
    def give(
        cls,
        params: Asked,
        origin: Origin,
        scope: GrantScope,
        terms: review.Terms | None = None,
        chosen: Chosen | None = None,
    ) -> Grant:
        """Make the grant for an approval of this request, for this model, beyond this one time.

        Args:
            params: the request.
            origin: who asked, and why.
            scope: the call, the session, or for ever.
            terms: bounds of the grant; the usual ones if it names none.
            chosen: the model that was approved.
        """
        is_tool = isinstance(params, CallToolRequestParams)
        if scope == "always" and not origin.pinned:
            # The next version that is fetched may be another program, so no permission outlasts the
            # process.
            scope = "session"
        return cls(
            identity=origin.identity,
            principal=origin.principal,
            scope=scope,
            # An ask without a call is treated as a call of its own, so that a grant for it covers nothing else.
            call=origin.chain if scope == "call" else None,
            tools=_compute_digest(origin.tool if is_tool else [params.tools, params.tool_choice]),
            system_prompt=_compute_digest(None if is_tool else params.system_prompt),
            max_tokens=0 if is_tool else params.max_tokens,
            size_class=(max(len(encode_value(params)) - 1, 0) >> 12).bit_length(),
            terms=terms if terms is not None and terms.named else review.usual_terms(params),
            tool=params.name if is_tool else None,
            models=tuple(name for name in (chosen.model, *chosen.fallbacks) if name) if chosen else (),
            reaches=chosen.reached if chosen else (),
            price_class=chosen.price_class if chosen else 0,
            script=origin.script if scope == "always" else "",
        )

    def reduced(self, chosen: Chosen) -> Chosen | None:
        """Return the part of a choice that this grant covers: without fallbacks beyond it; ``None`` if the model is.

        A model that reaches no further and costs no more than what was approved is covered.

        Args:
            chosen: the choice.
        """
        if chosen.model is None and not chosen.reaches:
            # The provider's own model: covered if the grant was given for it.
            return chosen if not self.reaches else None
        beyond = [name for name in (chosen.model, *chosen.fallbacks) if not self._goes_to(name, chosen)]
        if chosen.model in beyond:
            return None
        return msgspec.structs.replace(chosen, fallbacks=tuple(name for name in chosen.fallbacks if name not in beyond))

    def _goes_to(self, name: str | None, chosen: Chosen) -> bool:
        alone = msgspec.structs.replace(chosen, model=name, fallbacks=())
        reach = chosen.reaches.get(name)
        # If the chooser does not say where its models are, only their names can be compared.
        near = name in self.models if reach is None else reach in (*self.reaches, LOCAL)
        return near and alone.price_class <= self.price_class

    def covers(self, params: Asked, origin: Origin) -> bool:
        """Tell whether a request may pass without asking again, as long as the terms hold.

        Args:
            params: the request.
            origin: who asks, and why.
        """
        wanted = Grant.give(params, origin, self.scope)
        within = wanted.max_tokens <= self.max_tokens and wanted.size_class <= self.size_class
        # Everything else must be equal, so that a member added to ``Grant`` narrows it by default.
        if self.when is not None and isinstance(params, CallToolRequestParams):
            within = within and holds_for(self.when, params, origin)
        return within and self == msgspec.structs.replace(
            wanted,
            max_tokens=self.max_tokens,
            size_class=self.size_class,
            terms=self.terms,
            when=self.when,
            # ``reduced`` decides about the model.
            models=self.models,
            reaches=self.reaches,
            price_class=self.price_class,
        )


_DIFFER = 60.0
"""Seconds by which the clocks of two machines may differ; one that is further before a grant was given was set back."""


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """A grant in force."""

    id: str
    grant: Grant
    given: float
    """Seconds since the epoch."""
    used: int = 0

    @property
    def accounts(self) -> tuple[Account, ...]:
        """The account that counts what it allows, if it is limited to an amount of money."""
        if self.grant.terms.money is None:
            return ()
        return (Account(key=f"grant:{self.id}", cap=Cap(money=self.grant.terms.money)),)


class Grants:
    """The grants of one host.

    Args:
        store: where they are kept.
    """

    clock, monotonic = staticmethod(time.time), staticmethod(time.monotonic)

    def __init__(self, store: Store | None = None) -> None:
        self._store = store or MemoryStore()
        self._ends: dict[str, float] = {}
        """When grants that a person has given for a time end at the latest, by the monotonic clock."""

    async def add(self, grant: Grant) -> Given:
        """Store a grant; one for a call or a session ends with this process.

        Args:
            grant: the grant.
        """
        given = self.clock()
        # A second grant with bounds is an additional one; a second grant without bounds is the same one.
        salt = "" if grant.terms in (review.Terms(), review.UNBOUNDED) else str(given)
        host = None if grant.scope == "always" else self._store.host
        row = GrantRow(
            id=hashlib.sha256(f"{review.digest(grant)}{salt}{host}".encode()).hexdigest()[:16],
            identity=grant.identity,
            body=encode_value(grant).decode(),
            given=given,
            host=host,
            max_uses=grant.terms.uses,
            until=grant.terms.until,
        )
        await self._store.add_grant(row)
        self._has_ended(row)
        return _describe_grant(row)

    async def covering(self, params: Asked, origin: Origin) -> list[Given]:
        """Return the grants in force that cover a request, oldest first.

        Args:
            params: the request.
            origin: who asks, and why.
        """
        rows = await self._store.grants(origin.identity)
        own = (row for row in rows if row.host in (None, self._store.host) and not self._has_ended(row))
        return [given for given in map(_describe_grant, own) if given.grant.covers(params, origin)]

    def _has_ended(self, row: GrantRow) -> bool:
        """Return whether a grant covers nothing any more, though a clock that was set back is before its end."""
        if row.until is None:
            return False
        now, steady = self.clock(), self.monotonic()
        end = self._ends.setdefault(row.id, steady + row.until - now)
        return steady >= end or now < row.given - _DIFFER

    async def all(self) -> list[Given]:
        """Return all grants in force, oldest first."""
        return [_describe_grant(row) for row in await self._store.grants()]

    async def revoke(self, grant: str | Given, *, by: Decider | None = None) -> bool:
        """Delete a grant, so that the next request is asked about. Returns whether there was one.

        Args:
            grant: the grant, or its id.
            by: who revokes it, for the record.
        """
        id = grant if isinstance(grant, str) else grant.id
        identity = next((row.identity for row in await self._store.grants() if row.id == id), None)
        if identity is None:
            return False
        await Audit(self._store).record_access_change(identity, "revoked", by=by, grant=id)
        return await self._store.revoke(id)


def find_covered(
    given: Question, scope: review.Scope, waiting: Iterable[Question], when: str | None = None
) -> list[Question]:
    """Return the other waiting questions that a grant on this condition covers, as long as its bounds hold."""
    item = given.item
    if scope == "once" or not isinstance(item, review.ReviewItem | review.ToolItem) or "grant" not in item.choices:
        return []
    grant = msgspec.structs.replace(Grant.give(item.params, item.origin, scope), when=when)
    return [each for each in waiting if each.id != given.id and _is_covered(grant, given, each)]


def _is_covered(grant: Grant, given: Question, other: Question) -> bool:
    mine, its = given.item, other.item
    if (
        not isinstance(its, review.ReviewItem | review.ToolItem)
        or "grant" not in its.choices
        or other.state != "pending"
    ):
        return False
    if isinstance(mine, review.ReviewItem) and isinstance(its, review.ReviewItem):
        same = (mine.model, mine.fallbacks) == (its.model, its.fallbacks)
    else:
        same = isinstance(mine, review.ToolItem) and isinstance(its, review.ToolItem) and its.allowed is None
    # A grant for a call or a session belongs to one process, whose name begins that of the group.
    here = grant.scope == "always" or given.group.partition(":")[0] == other.group.partition(":")[0]
    return same and here and grant.covers(its.params, its.origin)


def approve_covered(
    given: Question, approval: review.Approve, covered: Iterable[Question]
) -> dict[str, review.Approve]:
    """Return the approvals of a question and of others that its grant covers, by id: they use up what it allows."""
    usual = review.Terms() if given.item is None else review.usual_terms(given.item)
    terms, made = approval.terms or usual, dict[str, review.Approve]()
    uses, money = terms.uses, terms.money
    for other in covered:
        # What has no price counts as nothing, as it does for the grant itself.
        most = (review.most_of(other.item, approval.model) or 0) if isinstance(other.item, review.ReviewItem) else 0
        if uses == 0 or other.item is None or (money is not None and most > money):
            break
        uses = None if uses is None else uses - 1
        money = None if money is None else money - most
        made[other.id] = review.Approve(digest=review.digest(other.item.params), model=approval.model)
    left = msgspec.structs.replace(terms, uses=uses, money=money)
    first = msgspec.structs.replace(approval, **{"scope": "once", "terms": None} if uses == 0 else {"terms": left})
    return {given.id: first, **made}


def _describe_grant(row: GrantRow) -> Given:
    return Given(id=row.id, grant=msgspec.json.decode(row.body, type=Grant), given=row.given, used=row.used)


def _compute_digest(value: object) -> str:
    return hashlib.sha256(encode_value(value)).hexdigest()
