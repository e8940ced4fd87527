"""The interface between the host and what it stores, and the rows that cross it.

Every change of a store is one transaction: it happens completely or not at all, whenever a process is killed, and
regardless of other processes with the same store. ``memory`` and ``sql`` implement it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Literal, Protocol

import msgspec

from antiphon.host.budget import Account, Amount, Cap
from antiphon.host.store.ask_rows import AskRow, Found, Sought, SpentRow
from antiphon.host.store.chain import Entry, Head, Record, RecordSearch
from antiphon.host.store.news import News

ReviewKind = Literal["request", "response", "elicitation", "tool"]
ReviewState = Literal["pending", "decided", "done", "expired", "withdrawn"]
BLOCKED = '{"became":"blocked"}'
"""The outcome of a review that was withdrawn because its server was blocked."""
TAKEN = '{"became":"taken"}'
"""The outcome of a review that was withdrawn because its call was sent by another one."""
OPEN: tuple[ReviewState, ...] = ("pending", "decided")
"""The states of a review whose ask still waits for an answer."""
MAX_NUMBER = 2**63 - 1
"""Largest number that a store takes: of a record, of uses, of nano-dollars."""
UNDECIDED: dict[str, Any] = {"state": "pending", **dict.fromkeys(("decision", "by", "decided", "release", "approvals"))}
"""What a review has that nobody has decided, or whose decision was taken back."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation: the worst-case cost of one request, taken from several accounts at once."""

    id: str
    ask: str
    identity: str
    accounts: tuple[Account, ...]
    amount: Amount
    sent: bool
    """Whether the provider may have been called. If not, the hold of a killed process is released, else charged."""
    coarser: tuple[str, ...] = ()
    """The coarser identities of the server: a block of one of them prevents the reservation, too."""


class HoldRow(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation, as stored."""

    id: str
    host: str
    ask: str
    identity: str
    keys: tuple[str, ...]
    amount: Amount
    sent: bool


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """The actual cost of a request that was held.

    Another process may have settled the hold of a silent one. The rest is then charged now, and the record says that
    it came late. A hold that this process has settled before is left alone.
    """

    id: str
    amount: Amount = Amount()


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """One account: what was spent, and what is reserved for requests in progress."""

    key: str
    spent: Amount = Amount()
    held: Amount = Amount()
    cap: Cap = Cap()
    """The cap of the latest reservation."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a decision, recorded with each review that contributed to it."""

    reviews: tuple[str, ...]
    outcome: str
    """JSON of a ``question.Outcome``."""


class DefinitionRow(msgspec.Struct, frozen=True, kw_only=True):
    """The definition of a tool as it was last allowed; see ``review.definitions``."""

    identity: str
    tool: str
    digest: str
    """SHA-256 of it, in hex; empty if it was never allowed."""
    body: str
    """It as JSON, to be compared with a changed one; empty if it is too long to keep."""
    allowed: float
    """Seconds since the epoch."""
    by: str | None = None
    """The person who allowed it, or switched it off; ``None`` for a rule, or where nobody gave a name."""
    off: float | None = None
    """Since when it is switched off, in seconds since the epoch; ``None`` if it is not. Then no call of it is made."""
    labels: str | None = None
    """The labels that a person gave it, separated by blanks; ``None`` if nobody has."""


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What persons have said about a tool and its server before this call."""

    blocked: bool
    """Whether the server is blocked."""
    definition: DefinitionRow | None
    """The definition of the tool as it was last allowed, and whether it is off; ``None`` if nothing is known of it."""


class Supposed(msgspec.Struct, frozen=True, kw_only=True):
    """What a decision about a tool relies on; it counts only if this still holds in the transaction that records it.

    A call that a rule allows then needs a single transaction, and no change by another process is missed.
    """

    identities: tuple[str, ...]
    """``origin.identities`` of the server, which no block may cover."""
    tool: str
    """Name of the tool, which must not have been switched off."""
    digest: str | None = None
    """Hash of the definition that was allowed; ``None`` if a person or a rule allows this one by itself."""


def still_stands(supposed: Supposed, now: Standing) -> bool:
    """Return whether what a decision relies on still holds."""
    row = now.definition
    is_same = supposed.digest is None or (row is not None and row.digest == supposed.digest)
    return is_same and not now.blocked and (row is None or row.off is None)


class PendingCallRow(msgspec.Struct, frozen=True, kw_only=True):
    """A call of a tool whose caller may ask again, as stored: it waits for a person, it was sent, or it is over."""

    id: str
    """Id of its review."""
    fingerprint: str
    """The same for the same call of the same principal; that of its review."""
    owner: str
    """Hash of the principal."""
    until: float
    """Time in seconds since the epoch at which the row is deleted."""
    sent: bool = False
    """Whether it may have been sent to its server."""
    host: str | None = None
    """The process that sent it; ``None`` before that, or if this process ended before it knew the outcome."""
    at: float = 0.0
    """When it was sent, in seconds since the epoch."""
    body: str | None = None
    """Its outcome, as JSON of a ``CallToolResult``; ``None`` while it is not known."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Which decision is stored until it is carried out; set by a reviewer that stores decisions."""

    id: str
    by: str | None = None
    """Who decided."""
    decided: float | None = None
    """When; a later decision of the same review is another one."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What is changed in one transaction. It either makes one hold or settles one."""

    settle: Settlement | None = None
    hold: Hold | None = None
    send: str | None = None
    """The hold whose request is now sent to the provider; it must still exist."""
    use: str | None = None
    """The grant that is used once more."""
    finish: Ticket | None = None
    """The decision that is now carried out."""
    begin: PendingCallRow | None = None
    """The call that is sent because of this decision, if its caller may ask for it again. Other shared questions about
    it are withdrawn."""
    ended: Ended | None = None
    """What became of a decision that was carried out."""
    define: DefinitionRow | None = None
    """The definition of a tool that is allowed now, in place of an earlier one."""
    supposed: Supposed | None = None
    """What must still hold; if it does not, ``"standing"`` prevents the change."""
    records: tuple[Record, ...] = ()
    last: bool = False
    """Whether its ask is over, so that nobody makes it anew: if the store cannot be reached, it makes the change later,
    as it does a settlement. Its records are then there at least once."""


def correct_late_records(records: Sequence[Record], settlement: Settlement, charged: Amount) -> tuple[Record, ...]:
    """Correct the amounts in the records of a late settlement to the part that is charged now."""
    changed: dict[str, Any] = {"outcome": "late"}
    if charged == Amount():
        changed |= {"money": None, "input_tokens": None, "output_tokens": None}
    elif charged != settlement.amount:
        # Only the sum is known, so what remains cannot be split among the models.
        changed |= {"money": charged.money, "input_tokens": charged.tokens, "output_tokens": 0}
    return tuple(
        msgspec.structs.replace(record, **changed) if record.step == "settled" else record for record in records
    )


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A grant, as stored; ``grants`` interprets ``body``."""

    id: str
    identity: str
    body: str
    given: float
    host: str | None = None
    """The process with which it ends; ``None`` if it outlives the process."""
    max_uses: int | None = None
    until: float | None = None
    used: int = 0


class BlockRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a person blocked: it may ask nothing, and none of its tools is called, until it is unblocked."""

    identity: str
    target: str
    """The command line or URL, for display."""
    since: float
    """Seconds since the epoch."""
    by: str | None = None
    coarse: str | None = None
    """A coarser identity, which blocks similar servers as well; ``None`` to block this one only."""

    def covers(self, identities: Sequence[str]) -> bool:
        """Tell whether this block covers a server.

        Args:
            identities: ``origin.identities`` of the server.
        """
        return self.identity in identities or (self.coarse is not None and self.coarse in identities)


class _Whose(msgspec.Struct, frozen=True):
    identity: str
    coarser: tuple[str, ...] = ()


def identities_in(item: str | None) -> tuple[str, ...]:
    """Return the identities of the server that asks, from a stored question; none if its content is gone."""
    if item is None:
        return ()
    origin = msgspec.json.decode(item, type=dict[str, msgspec.Raw])["origin"]
    whose = msgspec.json.decode(origin, type=_Whose)
    return (whose.identity, *whose.coarser)


class ReviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person, as stored; ``item`` and ``decision`` are JSON."""

    id: str
    kind: ReviewKind
    fingerprint: str
    """The same for the same question of the same server, so that a question that is repeated after a crash is found."""
    group: str
    """The same for all asks of one round."""
    identity: str
    created: float
    expires: float | None
    """Seconds since the epoch."""
    host: str | None
    """The process that waits; ``None`` if it was killed and the question has not been repeated yet."""
    state: ReviewState = "pending"
    item: str | None = None
    """What is shown; removed when the review is over, unless content is kept."""
    decision: str | None = None
    by: str | None = None
    decided: float | None = None
    hash: str | None = None
    """Hash of what is shown."""
    release: float | None = None
    """Time at which the decision takes effect. Until then the state is ``"pending"``, and it can be undone."""
    outcome: str | None = None
    """What became of the decision, as JSON."""
    shared: bool = False
    """Whether it is about a call whose caller may ask again, so that the same call of another caller shares it."""
    approvals: str | None = None
    """Who has approved what so far, as JSON, where more than one person has to."""

    @property
    def held(self) -> bool:
        """Whether it is decided and can still be undone."""
        return self.state == "pending" and self.decision is not None

    @property
    def blocks(self) -> bool:
        """Whether it is held, and blocks the server. In the texts of a decision, quotation marks are escaped."""
        return self.held and '"reach":"server"' in (self.decision or "")


def take_over(left: ReviewRow, row: ReviewRow) -> dict[str, Any]:
    """Return what changes in an open question when the same question is asked again."""
    mine = {name: getattr(row, name) for name in ("host", "expires", "group", "item", "hash", "shared")}
    # A decision made meanwhile was about something else if the hash differs: another model, another cost.
    return mine if left.hash == row.hash else mine | UNDECIDED


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to be stored for a review."""

    id: str
    decision: str | None
    """``None`` if more people have to approve it."""
    by: str | None = None
    hash: str | None = None
    """Hash of what was shown; nothing is decided if the review has another one."""
    release: float | None = None
    """Time at which it takes effect, until which it can be undone; ``None`` means at once."""
    block: BlockRow | None = None
    """The server to block together with this decision. Everything that waits from it is withdrawn, unless the decision
    can still be undone: then it is withdrawn when the decision takes effect."""
    approvals: str | None = None
    """The approvals with this one, where more than one person has to approve; nothing is decided unless those before
    it are ``seen``."""
    seen: str | None = None


class PartialRow(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an answer that has arrived. Deleted when the answer is complete, or its process has ended."""

    id: str
    """Id of the review that approved the request, or of the person's own request."""
    host: str
    began: float
    """Seconds since the epoch."""
    body: str
    """JSON of a ``growth.Partial``, with secrets masked."""


class TaskSoFar(msgspec.Struct, frozen=True, kw_only=True):
    """What the store knows of a task from its asks before the present one."""

    first: float
    """When it asked for the first time, in seconds since the epoch."""
    asks: int = 0
    """How often it has asked before."""
    spent: Amount = Amount()
    """What that has cost; a reservation that is not settled yet is not counted."""


class Store(Protocol):
    """What a host stores. All methods may be called from any task.

    No method waits for ever: one that takes too long raises ``StoreStalled``. A lost connection raises that, another
    ``OSError``, or an error of the database. Cancelling a method does not undo its change.
    """

    host: str
    """The name of this process in the store."""
    bounded: bool
    """Whether old audit records are dropped, so that the chain need not begin with the first record."""
    news: News
    """Notices of changed questions, whichever process changed them."""

    async def commit(self, change: Change) -> str | None:
        """Make a change, completely or not at all; cancelling the wait does not undo it.

        A settlement that fails because the store cannot be reached is made later.

        Args:
            change: what to change.

        Returns:
            ``None`` when done; else nothing was changed, and the key names what prevents it: the account
            (``"day:2026-11-21"``), ``"grant"`` (used up, ended, revoked), ``"review"`` (it has no decision to carry
            out), ``"block"`` (the server of a hold is blocked), ``"hold"`` (another process has released the hold),
            ``"definition"`` (no further definition can be kept), ``"standing"`` (``supposed`` does not hold) or
            ``"sent"`` (the call that begins was sent by another decision, and its outcome is still told).
        """
        ...

    async def balances(self, prefix: str = "") -> list[Balance]:
        """Return accounts, ordered by key.

        Args:
            prefix: beginning of their keys; all accounts by default.
        """
        ...

    async def balances_of(self, keys: Sequence[str]) -> list[Balance]:
        """Return those of the accounts that exist.

        Args:
            keys: keys of the accounts.
        """
        ...

    async def task_so_far(self, task: str, ask: str) -> TaskSoFar:
        """Note an ask of a task, unless it was noted before, and return what was known until then.

        Args:
            task: ``OriginTask.name``.
            ask: ``OriginTask.ask``.
        """
        ...

    async def holds(self) -> list[HoldRow]:
        """Return the reservations that are neither settled nor released."""
        ...

    async def entries(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return audit records, oldest first.

        Args:
            after: return only records with a higher number.
            limit: most records to return.
        """
        ...

    async def head(self) -> Head:
        """Return the end of the audit chain, which is stored beside the chain."""
        ...

    async def entries_at(self, seqs: Sequence[int]) -> list[Entry]:
        """Return those of the audit records that exist, oldest first.

        Args:
            seqs: numbers of the records.
        """
        ...

    async def find_records(self, search: RecordSearch, limit: int = 400) -> list[Entry]:
        """Return a page of audit records; some may not be in the search, and then ``in`` tells.

        Args:
            search: filters, and where the page begins.
            limit: most records to return.
        """
        ...

    async def gather(self, limit: int = 2000) -> int:
        """Add audit records to the tables that ``asks``, ``ask`` and ``servers`` read.

        Returns how many are left to add.

        Args:
            limit: most records to add.
        """
        ...

    async def asks(self, sought: Sought) -> Found:
        """Return a page of the history of asks, the latest first, from the records added by ``gather``.

        Args:
            sought: filters, and where the page begins.
        """
        ...

    async def ask(self, seq: int) -> AskRow | None:
        """Return one ask, or ``None`` if ``gather`` has not added it.

        Args:
            seq: number of the ask's first audit record.
        """
        ...

    async def spending(self) -> tuple[list[SpentRow], int]:
        """Return what was spent by day, server and model, and the number of the last record that is counted in."""
        ...

    async def calls(self, since: float) -> dict[str, int]:
        """Return how many calls of tools each server has had, from the records added by ``gather``.

        Args:
            since: count only calls from this time on, in seconds since the epoch.
        """
        ...

    async def servers(self, identities: Collection[str]) -> dict[str, str]:
        """Return the targets of those servers that ever asked, from the records added by ``gather``.

        Args:
            identities: identities of the servers.
        """
        ...

    async def standing(self, identities: Sequence[str], tool: str) -> Standing:
        """Return what every call of a tool depends on, read at one moment.

        Args:
            identities: ``origin.identities`` of the server, its own first.
            tool: name of the tool.
        """
        ...

    async def definitions(self) -> list[DefinitionRow]:
        """Return what is known of the tools of all servers, by server and name."""
        ...

    async def switch_tool(self, identity: str, tool: str, *, off: float | None, by: str | None = None) -> None:
        """Switch a tool off, or on again.

        Args:
            identity: identity of its server.
            tool: name of the tool.
            off: since when it is off, in seconds since the epoch; ``None`` if it is on.
            by: who decided.
        """

    async def add_grant(self, row: GrantRow) -> None:
        """Store a grant; adding the same one again restarts its count.

        Args:
            row: the grant.
        """

    async def grants(self, identity: str | None = None) -> list[GrantRow]:
        """Return the grants in force, oldest first.

        Args:
            identity: identity of one server; all servers by default.
        """
        ...

    async def revoke(self, grant: str) -> bool:
        """Delete a grant. Returns whether there was one.

        Args:
            grant: id of the grant.
        """
        ...

    async def block(self, row: BlockRow) -> None:
        """Block a server, and withdraw everything that waits from it. A server may be blocked already.

        Args:
            row: the block.
        """

    async def unblock(self, identity: str) -> bool:
        """Unblock a server. Returns whether it was blocked.

        Args:
            identity: identity of the server.
        """
        ...

    async def blocks(self, *identities: str) -> list[BlockRow]:
        """Return blocks, oldest first.

        Args:
            identities: identities of one server, for the blocks that cover it; all blocks by default.
        """
        ...

    async def put_review(self, row: ReviewRow) -> ReviewRow:
        """Store a question, or take over the open one with the same fingerprint that nobody waits for. Returns the row.

        One that is shared joins the open one also while a process waits for it, if that is shared, too, and has the
        same hash. If its call was sent meanwhile, nobody is asked: the question that allowed it is returned.

        Args:
            row: the question.
        """
        ...

    async def leave_review(self, call: PendingCallRow, *, most: int) -> bool:
        """Keep an open question for which this process waits no longer, until the call is made again.

        Returns whether there was room: not if this owner has as many already. One that is over stays as it is.

        Args:
            call: the call; the question expires at its ``until``.
            most: most questions that are kept for one owner.
        """
        ...

    async def pending_call(self, *, id: str = "", fingerprint: str = "") -> PendingCallRow | None:
        """Return a call of a caller that may ask again, by its id, or the latest that was sent by its fingerprint.

        Args:
            id: id of its review.
            fingerprint: that of the call.
        """
        ...

    async def settle_call(self, call: PendingCallRow) -> None:
        """Store what is known of a call in place of what was known before.

        Args:
            call: the call.
        """

    async def run_entries(self, run: str) -> list[str]:
        """Return all that was recorded of an agent's run, oldest first.

        Args:
            run: id of the run.
        """
        ...

    async def add_run_entry(self, run: str, at: int, body: str) -> bool:
        """Record a step of an agent's run. Returns whether it is stored: not if another process recorded this number.

        Args:
            run: id of the run.
            at: number of the entry, from 0.
            body: the entry as JSON.
        """
        ...

    async def forget_run(self, run: str) -> None:
        """Delete all that was recorded of an agent's run.

        Args:
            run: id of the run.
        """

    async def review(self, id: str) -> ReviewRow | None:
        """Return one question, or ``None``.

        Args:
            id: id of the question.
        """
        ...

    async def reviews(
        self,
        states: Sequence[ReviewState] = ("pending",),
        limit: int = 1000,
        *,
        latest: bool = False,
        contents: bool = True,
        after: str | None = None,
    ) -> list[ReviewRow]:
        """Return questions: the oldest ones, oldest first, or the latest ones, newest first.

        Args:
            states: states of the questions.
            limit: most questions to return.
            latest: return the latest ones.
            contents: whether items are needed. If not, they may be left out: they may be megabytes.
            after: id of a question, to return only those that come after it: the next page.
        """
        ...

    async def waiting(self) -> int:
        """Return how many questions wait for a decision."""
        ...

    async def decide(self, decisions: Sequence[Decided]) -> ReviewRow | None:
        """Store decisions, all of them or none. Returns ``None``, or the first question that cannot be decided.

        That is one that is not pending, that is decided and can still be undone, or whose hash differs.

        Args:
            decisions: at most one for each question.

        Raises:
            LookupError: there is no such question any more.
        """
        ...

    async def undo(self, id: str, decided: float | None, *records: Record) -> bool:
        """Take back a decision that has not taken effect yet. Returns whether there was one.

        A server that it blocked is unblocked, unless another decision that can still be undone blocks it, too.

        Args:
            id: id of the question.
            decided: the time of this decision; a later one stays.
            records: what is added to the audit in the same transaction, if there was one.
        """
        ...

    async def release(self, id: str, decided: float | None) -> bool:
        """Let a decision take effect that can still be undone. Returns whether there was one.

        Args:
            id: id of the question.
            decided: the time of this decision; a later one stays held.
        """
        ...

    async def keep_draft(self, id: str, body: str | None) -> bool:
        """Store what somebody has begun to write about a pending review. Returns whether it is stored.

        Args:
            id: id of the question.
            body: the text; ``None`` deletes it.
        """
        ...

    async def draft(self, id: str) -> str | None:
        """Return what somebody has begun to write about a review, or ``None``.

        Args:
            id: id of the question.
        """
        ...

    async def close_review(self, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
        """End an open question. If the store cannot be reached this is done later, since nobody waits any more.

        Args:
            id: id of the question.
            state: why it ends.
            keep_item: keep its content, which is removed otherwise.
        """

    async def claim_review(self, id: str, expires: float | None) -> None:
        """Declare until when this process waits for a question, also after another process took it for abandoned.

        Args:
            id: id of the question.
            expires: when it expires, in seconds since the epoch; ``None`` means never.
        """

    async def reviews_version(self) -> int:
        """Return a number that increases with every change of a question."""
        ...

    async def undecided(self) -> set[str]:
        """Return the ids of the questions of this process that nobody has decided or ended."""
        ...

    async def watch(self, until: float) -> None:
        """Record that a person looks at what this process shows.

        Args:
            until: when this record ends unless it is renewed, in seconds since the epoch.
        """

    async def watched(self) -> bool:
        """Return whether a person looks now at what any process shows."""
        ...

    async def keep_partial(self, row: PartialRow) -> None:
        """Store a partial answer in place of what was stored of it before.

        Args:
            row: the partial answer.
        """

    async def drop_partial(self, id: str) -> None:
        """Remove a partial answer, if it is there.

        Args:
            id: id of its review.
        """

    async def partials(self) -> list[PartialRow]:
        """Return the partial answers, oldest first."""
        ...

    async def keep_timed_row(self, kind: str, id: str, body: str, until: float, *, most: int) -> None:
        """Store something that ends by itself, unless there is a row of this kind and id; rows that ended are deleted.

        Args:
            kind: what it is: a ``"page"`` that was served, ``"browser NAME"`` with access to the page of this name, the
                ``"link"`` of a notice, a ``"device"`` that is told, the ``"key"`` that signs.
            id: its id; a digest of what only a link or a browser has.
            body: what it is, as its kind defines it.
            until: when it ends, in seconds since the epoch.
            most: most rows of this kind to keep; beyond that those that end first are deleted.
        """

    async def take_timed_row(self, kind: str, id: str) -> str | None:
        """Delete a row, and return its body unless it has ended: of several takers, one gets it.

        Args:
            kind: what it is.
            id: its id.
        """
        ...

    async def timed_rows(self, kind: str) -> dict[str, str]:
        """Return the bodies of all rows of a kind that have not ended, by their ids; those that end first come first.

        Args:
            kind: what they are.
        """
        ...

    async def recover(self) -> int:
        """Settle what killed processes left behind. Returns the number of things settled."""
        ...

    async def aclose(self) -> None:
        """Release all resources; the store cannot be used afterwards."""
