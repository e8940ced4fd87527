"""The seam between the host and what it remembers, and the rows that cross it.

Owns what a store promises. Every change of a store is one transaction: it happens whole or not at all, whenever the
process is killed, and whoever else uses the same store. How that is done is ``memory`` and ``sql``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol

import msgspec

from antiphon.host.budget import Account, Amount, Cap
from antiphon.host.store.asks import AskRow, Found, Sought, SpentRow
from antiphon.host.store.chain import Entry, Head, Record
from antiphon.sql.patience import StoreStalled

__all__ = [
    "BLOCKED",
    "OPEN",
    "Balance",
    "BlockRow",
    "BrowserRow",
    "Change",
    "Decided",
    "Ended",
    "GrantRow",
    "Hold",
    "HoldRow",
    "PageRow",
    "ReviewKind",
    "ReviewRow",
    "ReviewState",
    "Settlement",
    "Store",
    "StoreStalled",
    "identities_in",
    "late",
]

ReviewKind = Literal["request", "response", "elicitation", "tool"]
ReviewState = Literal["pending", "decided", "done", "expired", "withdrawn"]
BLOCKED = '{"became":"blocked"}'
"""The outcome of a review that was withdrawn because its server was blocked."""
OPEN: tuple[ReviewState, ...] = ("pending", "decided")
"""The states of a review whose ask still waits."""


class Hold(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation: the worst case of one request, taken from several accounts at once."""

    id: str
    ask: str
    identity: str
    accounts: tuple[Account, ...]
    amount: Amount
    sent: bool
    """Whether the provider may have been called: what a killed process had not sent is given back, the rest counts."""
    coarser: tuple[str, ...] = ()
    """The coarser identities of the server: a block of one of them stands in the way as well."""


class HoldRow(msgspec.Struct, frozen=True, kw_only=True):
    """A reservation as it is kept."""

    id: str
    host: str
    ask: str
    identity: str
    keys: tuple[str, ...]
    amount: Amount
    sent: bool


class Settlement(msgspec.Struct, frozen=True, kw_only=True):
    """What a held request really cost.

    Another process may have settled the hold meanwhile, because this one had been silent for too long. What it charged
    less than the amount is charged now, and the record says that it came late. A hold that this process has settled
    itself is left alone.
    """

    id: str
    amount: Amount = Amount()


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """One account: what was spent, and what is held for requests under way."""

    key: str
    spent: Amount = Amount()
    held: Amount = Amount()
    cap: Cap = Cap()
    """As the latest reservation had it; only where accounts are listed."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """What became of a decision, noted with each review that had a part in it."""

    reviews: tuple[str, ...]
    outcome: str
    """JSON; ``queue.Outcome`` is made of it."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What happens in one transaction. It settles one hold or makes one, not both."""

    settle: Settlement | None = None
    hold: Hold | None = None
    send: str | None = None
    """The hold that the provider is now called for; it must still be there."""
    use: str | None = None
    """The grant that is used once more."""
    finish: str | None = None
    """The review whose decision is now carried out."""
    ended: Ended | None = None
    """What became of a decision that was carried out."""
    records: tuple[Record, ...] = ()


def late(records: Sequence[Record], settlement: Settlement, charged: Amount) -> tuple[Record, ...]:
    """Correct the figures of a settlement that came late: another process has settled the hold, this is the rest."""
    return tuple(_late(record, settlement, charged) if record.step == "settled" else record for record in records)


def _late(record: Record, settlement: Settlement, charged: Amount) -> Record:
    if charged == Amount():
        return msgspec.structs.replace(record, outcome="late", money=None, input_tokens=None, output_tokens=None)
    if charged == settlement.amount:
        return msgspec.structs.replace(record, outcome="late")
    # What is left of the sum of both can no longer be told apart.
    return msgspec.structs.replace(
        record, outcome="late", money=charged.money, input_tokens=charged.tokens, output_tokens=0
    )


class GrantRow(msgspec.Struct, frozen=True, kw_only=True):
    """A grant as it is kept; ``body`` is what ``grants`` makes of it."""

    id: str
    identity: str
    body: str
    given: float
    host: str | None = None
    """The process it ends with; ``None`` if it outlives it."""
    max_uses: int | None = None
    until: float | None = None
    used: int = 0


class BlockRow(msgspec.Struct, frozen=True, kw_only=True):
    """A server that a person has blocked: it may ask nothing, and no tool of it is called, until it is unblocked."""

    identity: str
    target: str
    """The command line or address, for display."""
    since: float
    """Seconds since the epoch."""
    by: str | None = None
    coarse: str | None = None
    """What it has in common with servers alike: they are blocked as well."""

    def covers(self, identities: Sequence[str]) -> bool:
        """Tell whether a server with these identities is blocked by it."""
        return self.identity in identities or (self.coarse is not None and self.coarse in identities)


class _Whose(msgspec.Struct, frozen=True):
    identity: str
    coarser: tuple[str, ...] = ()


class _Asked(msgspec.Struct, frozen=True):
    origin: _Whose


def identities_in(item: str | None) -> tuple[str, ...]:
    """Return the identities of the server that asks, from what is kept of a question; none where that is gone."""
    if item is None:
        return ()
    whose = msgspec.json.decode(item, type=_Asked).origin
    return (whose.identity, *whose.coarser)


class ReviewRow(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person as it is kept; ``item`` and ``decision`` are JSON."""

    id: str
    kind: ReviewKind
    fingerprint: str
    """The same for the same question of the same server: one that is asked again after a crash is found by it."""
    group: str
    """The same for all asks of one round."""
    identity: str
    created: float
    expires: float | None
    """Seconds since the epoch."""
    host: str | None
    """The process that waits; ``None`` if it was killed and nobody has asked again yet."""
    state: ReviewState = "pending"
    item: str | None = None
    """What is shown; gone when the review is over, unless content is kept."""
    decision: str | None = None
    by: str | None = None
    decided: float | None = None
    hash: str | None = None
    """Of what is shown; ``None`` where an older process has asked."""
    release: float | None = None
    """When the decision counts: until then the state is ``"pending"``, and it may be undone."""
    outcome: str | None = None
    """What became of the decision, as JSON."""

    @property
    def held(self) -> bool:
        """Whether it is decided, and may still be undone."""
        return self.state == "pending" and self.decision is not None


class Decided(msgspec.Struct, frozen=True, kw_only=True):
    """A decision to be kept for a review."""

    id: str
    decision: str
    by: str | None = None
    hash: str | None = None
    """Of what was shown: where the review has another one, nothing is decided."""
    release: float | None = None
    """When it counts; ``None`` is at once. It may be undone until then."""
    block: BlockRow | None = None
    """The server to be blocked with it; all that waits from that server is withdrawn."""


class PageRow(msgspec.Struct, frozen=True, kw_only=True):
    """Where a review page is found, so that a restart serves it under the same address."""

    name: str
    """The unguessable part of its host name: ``<name>.localhost``."""
    port: int
    used: float
    """When it was last served, in seconds since the epoch."""


class BrowserRow(msgspec.Struct, frozen=True, kw_only=True):
    """One browser that was let in to a review page."""

    digest: str
    """SHA-256 of the secret in its cookie, in hex; the secret itself is kept by the browser only."""
    page: str
    """The name of the page."""
    number: int
    """From 1, in the order in which they came."""
    opened: float
    """Seconds since the epoch."""


class Store(Protocol):
    """What a host remembers. All methods may be called from any task.

    None waits for ever: what takes too long raises ``StoreStalled``. A lost connection raises that, or another
    ``OSError``, or an error of the database. To stop waiting undoes nothing.
    """

    @property
    def host(self) -> str:
        """The name of this process in the store."""
        ...

    @property
    def bounded(self) -> bool:
        """Whether old audit records are dropped, so that the chain may begin in the middle."""
        ...

    async def commit(self, change: Change) -> str | None:
        """Make a change, whole or not at all; to stop waiting for it does not undo it.

        A settlement that fails because the store cannot be reached is made later.

        Returns ``None`` when it is done, else the key of what does not allow it, and nothing has happened: the account
        (``"day:2026-11-21"``), ``"grant"`` (used up, ended, revoked), ``"review"`` (it has no decision to carry out),
        ``"block"`` (the server that a hold is for is blocked), ``"hold"`` (what was to be sent is not held any more:
        another process has given it back).
        """
        ...

    async def balances(self, prefix: str = "") -> list[Balance]:
        """Return the accounts whose key starts with ``prefix``, by key."""
        ...

    async def balances_of(self, keys: Sequence[str]) -> list[Balance]:
        """Return the accounts with these keys that there are already."""
        ...

    async def holds(self) -> list[HoldRow]:
        """Return the reservations that are neither settled nor released."""
        ...

    async def entries(self, after: int = 0, limit: int = 1000) -> list[Entry]:
        """Return the audit records numbered above ``after``, oldest first."""
        ...

    async def head(self) -> Head:
        """Return the end of the audit chain as it is kept beside it."""
        ...

    async def entries_at(self, seqs: Sequence[int]) -> list[Entry]:
        """Return the audit records with these numbers that there are, oldest first."""
        ...

    async def gather(self, limit: int = 2000) -> int:
        """Add so many more audit records to what ``asks``, ``ask`` and ``spending`` know. Returns how many are left."""
        ...

    async def asks(self, sought: Sought) -> Found:
        """Return a page of what became of asks, the latest first; of the records that were gathered."""
        ...

    async def ask(self, seq: int) -> AskRow | None:
        """Return the ask whose first record has this number, if it was gathered."""
        ...

    async def spending(self) -> tuple[list[SpentRow], int]:
        """Return what was spent by day, server and model, and the number of the last record that this is made of."""
        ...

    async def add_grant(self, row: GrantRow) -> None:
        """Remember a grant; the same one twice is one, with its count begun anew."""
        ...

    async def grants(self, identity: str | None = None) -> list[GrantRow]:
        """Return the grants in force, of one server or of all, oldest first."""
        ...

    async def revoke(self, grant: str) -> bool:
        """Forget a grant. Returns whether there was one."""
        ...

    async def block(self, row: BlockRow) -> None:
        """Block a server, and withdraw all that waits from it; one that is blocked already stays so."""
        ...

    async def unblock(self, identity: str) -> bool:
        """Let a server ask again. Returns whether it was blocked."""
        ...

    async def blocks(self, *identities: str) -> list[BlockRow]:
        """Return the blocks, oldest first: all, or those that cover a server with one of these identities."""
        ...

    async def put_review(self, row: ReviewRow) -> ReviewRow:
        """Keep a question, or take over the open one of a killed process with the same fingerprint. Returns it."""
        ...

    async def review(self, id: str) -> ReviewRow | None:
        """Return one question."""
        ...

    async def reviews(
        self, states: Sequence[ReviewState] = ("pending",), limit: int = 1000, *, latest: bool = False
    ) -> list[ReviewRow]:
        """Return so many questions in these states: the oldest, oldest first, or the ``latest``, newest first."""
        ...

    async def decide(self, decisions: Sequence[Decided]) -> ReviewRow | None:
        """Keep decisions, all or none. Returns ``None``, or the first question that cannot be decided so.

        That is one that is not pending, that is decided and may be undone, or whose hash is another.
        """
        ...

    async def undo(self, id: str) -> bool:
        """Take back a decision that does not count yet. Returns whether there was one."""
        ...

    async def release(self, id: str) -> bool:
        """Let a decision count whose time has come, unless the review has expired. Returns whether there was one."""
        ...

    async def keep_draft(self, id: str, body: str | None) -> bool:
        """Keep what somebody has begun to write about a pending review; ``None`` forgets it. Returns whether it is."""
        ...

    async def draft(self, id: str) -> str | None:
        """Return what somebody has begun to write about a review."""
        ...

    async def close_review(self, id: str, state: Literal["expired", "withdrawn", "done"], *, keep_item: bool) -> None:
        """End a question that is open; its content is removed unless ``keep_item``.

        Where the store cannot be reached, that is done later: nobody waits for the question any more.
        """
        ...

    async def claim_review(self, id: str) -> None:
        """Say that this process waits for an open question for which another thought nobody does any more."""
        ...

    async def reviews_version(self) -> int:
        """Return a number that grows with every change of a question."""
        ...

    async def pages(self) -> list[PageRow]:
        """Return where review pages were served, the latest first."""
        ...

    async def keep_page(self, row: PageRow, *, most: int) -> None:
        """Remember a page, or that it is served again; of more than ``most`` the oldest go, with their browsers."""
        ...

    async def browsers(self, page: str) -> list[BrowserRow]:
        """Return the browsers that were let in to a page, the first one first."""
        ...

    async def keep_browser(self, row: BrowserRow, *, most: int) -> None:
        """Remember a browser; of more than ``most`` of its page the oldest go."""
        ...

    async def recover(self) -> int:
        """Settle what killed processes left behind. Returns how many things there were."""
        ...

    async def aclose(self) -> None:
        """Give everything back; the store can not be used after it."""
        ...
