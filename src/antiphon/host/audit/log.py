"""What happened to each ask: who, when, which step, how it ended. Hashes and metadata; content only if asked for.

Owns making, reading, checking and summing up the records. How they are linked is ``chain``, where they stay is the
``store``, how they are written for other programs is ``export``.
"""

from __future__ import annotations

import hashlib
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from datetime import UTC, datetime
from typing import TypedDict, Unpack

import msgspec

from antiphon.host.store.asks import SpentKey, SpentRow, spend
from antiphon.host.store.base import Store
from antiphon.host.store.chain import (
    GENESIS,
    Entry,
    Fault,
    Head,
    Noted,
    Record,
    Step,
    missing,
    noted_heads,
    other_than,
    verify,
)
from antiphon.host.store.memory import MemoryStore
from antiphon.wire.origin import Origin

__all__ = ["Audit", "Facts", "Proof", "Record", "Step", "day_of"]

_KEPT = 10_000
"""Records of this process kept in memory: some thousand requests, about 5 MB."""
MAX_OUTCOME = 200
"""Characters of an outcome: words of ours, and the place of what is invalid, which a server has named."""
_PAGE = 1_000
"""Records read at once: a second process can write in between."""


class Facts(TypedDict, total=False):
    """What a record may say beside the step; see ``chain.Record``."""

    server: str | None
    tool: str | None
    model: str | None
    input_tokens: int | None
    output_tokens: int | None
    money: int | None
    grant: str | None
    by: str | None
    reason: str | None
    told: bool | None
    content: str | None


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """What checking the chain found."""

    records: int
    """How many were found in order."""
    head: Head
    """The end of the chain: note its hash elsewhere to notice later if the whole store was exchanged."""
    fault: Fault | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None


class Audit:
    """The records of one host: those of this process at hand, all of them in the store."""

    def __init__(self, store: Store | None = None, *, content: bool = False) -> None:
        """Read from ``store``. ``content`` keeps what was asked and answered as well, for all who can read it."""
        self.content = content
        self._store = store or MemoryStore()
        self._recent: deque[Record] = deque(maxlen=_KEPT)

    def note(
        self,
        origin: Origin,
        method: str,
        step: Step,
        outcome: str = "",
        digest: str | None = None,
        **facts: Unpack[Facts],
    ) -> Record:
        """Make a record, and have it at hand. It is kept when the transaction is that carries it."""
        record = self.draft(origin, method, step, outcome, digest, **facts)
        self.keep(record)
        return record

    def draft(
        self,
        origin: Origin,
        method: str,
        step: Step,
        outcome: str = "",
        digest: str | None = None,
        **facts: Unpack[Facts],
    ) -> Record:
        """Make a record of what may still not happen."""
        return Record(
            at=time.time(),
            ask=origin.id,
            identity=origin.identity,
            method=method,
            step=step,
            outcome=_bounded(outcome),
            digest=digest,
            host=self._store.host,
            call=origin.call.id if origin.call else None,
            **facts,
        )

    def keep(self, record: Record) -> None:
        """Have a draft at hand: it happened."""
        self._recent.append(record)

    def records(self, ask: str | None = None) -> list[Record]:
        """Return the latest records of this process, of one ask or of all, oldest first."""
        return [record for record in self._recent if ask is None or record.ask == ask]

    async def entries(self, after: int = 0) -> AsyncIterator[Entry]:
        """Yield all records that are kept, with their numbers and hashes, oldest first."""
        while page := await self._store.entries(after, _PAGE):
            for entry in page:
                yield entry
            after = page[-1].seq

    async def verify(self, known: Head | Iterable[Head] | None = None) -> Proof:
        """Check the whole chain against its hashes and against the end that is kept beside it.

        Finds any changed byte, any record left out, put in or moved, and records cut off at the end. Cannot find that
        somebody who can write the whole store computed a new chain, or cut off its end and lowered the end beside it,
        unless ``known`` are ends noted before: the chain must contain each of them.
        """
        noted = _noted(known)
        kept = await self._store.head()
        head, after = Head(), 0
        while page := await self._store.entries(after, _PAGE):
            if after == 0 and self._store.bounded:
                head = _before(page[0])
            head, fault = verify(page, head)
            fault = fault or other_than(noted, page)
            if fault is not None:
                return Proof(records=head.seq, head=head, fault=fault)
            after = page[-1].seq
        # Records that came while we read are after what was the end then.
        if head.seq < kept.seq or (head.seq == kept.seq and head.hash != kept.hash):
            return Proof(records=head.seq, head=head, fault=_cut(head, kept))
        return Proof(records=head.seq, head=head, fault=missing(noted, head))

    async def spending(self) -> list[SpentRow]:
        """Sum up what was spent, by day, server and model."""
        rows, after = await self._store.spending()
        sums = {SpentKey(row.day, row.identity, row.model): row for row in rows}
        # What nobody has gathered yet is added here: this also works where the store can only be read.
        async for entry in self.entries(after):
            spend(sums, entry.record)
        return [sums[key] for key in sorted(sums)]


def _bounded(outcome: str) -> str:
    """Keep the beginning of what a server may have written, and the hash of all of it."""
    if len(outcome) <= MAX_OUTCOME:
        return outcome
    whole = hashlib.sha256(outcome.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{outcome[: MAX_OUTCOME // 2]}… sha256:{whole}"


def day_of(at: float) -> str:
    """Name the day (UTC) of a moment: ``"2026-11-21"``."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _before(first: Entry) -> Head:
    linked = msgspec.json.decode(first.body, type=dict[str, object])
    return Head(seq=first.seq - 1, hash=str(linked.get("prev", GENESIS)))


def _noted(known: Head | Iterable[Head] | None) -> Noted:
    if known is None:
        return {}
    return noted_heads([known] if isinstance(known, Head) else known)


def _cut(head: Head, kept: Head) -> Fault:
    if head.seq == kept.seq:
        return Fault(seq=head.seq, problem="the last record is not the one noted beside the chain")
    return Fault(seq=head.seq + 1, problem=f"the chain was cut off: there were {kept.seq} records")
