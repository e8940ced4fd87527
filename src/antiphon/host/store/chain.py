"""A chain of records in which changes can be detected: each record carries the hash of the one before.

Pure. Owns what a record is, its canonical form, its hash, and the verification of a chain.
``store`` keeps records, ``host.audit`` makes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import msgspec

Step = Literal[
    "received", "invalid", "policy", "limit", "reserved", "redacted", "review", "grant", "generate",
    "settled", "response", "answered", "refused", "failed", "withdrawn", "recovered", "changed",
]  # fmt: skip

GENESIS = "0" * 64
"""The hash before the first record."""
_CANONICAL = msgspec.json.Encoder(order="sorted")


class Record(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of one ask."""

    at: float
    """Seconds since the epoch."""
    ask: str
    """``origin.id``."""
    identity: str
    method: str
    """``"sampling/createMessage"``, ``"elicitation/create"`` or ``"tools/call"``."""
    step: Step
    outcome: str = ""
    """One word: the policy's effect, the kind of a decision, the reason of a refusal, the place of an error."""
    digest: str | None = None
    """SHA-256 of what was received, shown, sent or answered at this step."""
    host: str = ""
    """The process that asked; ids of asks and calls are unique only within it."""
    call: str | None = None
    server: str | None = None
    """The command line or URL, masked, for display; in the first record of an ask."""
    tool: str | None = None
    """The tool or prompt of the call that the ask belongs to; in the first record of an ask."""
    task: str | None = None
    """The task that the ask belongs to, by a hash of its id; in the first record of an ask."""
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    money: int | None = None
    """Nano-dollars spent at this step."""
    grant: str | None = None
    by: str | None = None
    """Who decided."""
    people: tuple[str, ...] = ()
    """Who decided, as far as that is proven: issuer and subject of each person, written as principals are."""
    reason: str | None = None
    """Why a person refused, in the person's words, with secrets masked."""
    told: bool | None = None
    """Whether the server was told that reason; ``False`` if the person wanted it but the message has no room for it."""
    content: str | None = None
    """The data of the digest, as JSON; only if content is kept."""


class RecordSearch(msgspec.Struct, frozen=True, kw_only=True):
    """Filters for records, and where a page of them begins; ``None`` or empty excludes nothing."""

    since: float | None = None
    identities: tuple[str, ...] = ()
    """Identities of one server, or prefixes of them."""
    step: str | None = None
    outcome: str | None = None
    """The outcome, or a prefix of it."""
    call: str | None = None
    ask: tuple[str, str, str] | None = None
    """The process, id and identity of one ask."""
    before: int | None = None
    """Only records with a lower number, the latest first."""
    after: int | None = None
    """Only records with a higher number, the oldest first."""

    def __contains__(self, record: Record) -> bool:
        return (
            (self.since is None or record.at >= self.since)
            and (not self.identities or record.identity.startswith(self.identities))
            and (self.step is None or record.step == self.step)
            and (self.outcome is None or record.outcome.startswith(self.outcome))
            and (self.call is None or record.call == self.call)
            and (self.ask is None or (record.host, record.ask, record.identity) == self.ask)
        )


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """A record in its place: ``hash`` is that of ``body``, which is canonical JSON."""

    seq: int
    body: str
    hash: str

    @property
    def record(self) -> Record:
        """The record, decoded."""
        return msgspec.json.decode(self.body, type=_Linked).record


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The end of a chain: the number of records, and the hash of the last one."""

    seq: int = 0
    hash: str = GENESIS


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """Where a chain is broken, and how."""

    seq: int
    problem: str


Noted = Mapping[int, frozenset[str]]
"""Known ends of a chain, noted elsewhere: hashes by the number of the record."""


class _Linked(msgspec.Struct, frozen=True, kw_only=True):
    seq: int
    prev: str
    record: Record


def extend_chain(head: Head, records: Iterable[Record]) -> tuple[list[Entry], Head]:
    """Link records to the end of a chain. Returns them in their places, and the new end."""
    entries: list[Entry] = []
    seq, last = head.seq, head.hash
    for record in records:
        seq += 1
        body = _CANONICAL.encode(_Linked(seq=seq, prev=last, record=record))
        last = hashlib.sha256(body).hexdigest()
        entries.append(Entry(seq=seq, body=body.decode(), hash=last))
    return entries, Head(seq=seq, hash=last)


def verify_entries(entries: Sequence[Entry], start: Head) -> tuple[Head, Fault | None]:
    """Verify that the entries follow ``start`` without a gap. Returns the end reached, and the first fault.

    Any byte that was changed, and any record that was removed, inserted or moved, is a fault. Someone who can write the
    whole store can still compute a new chain, or cut off the end and adjust the stored end; only a hash that was noted
    elsewhere reveals that.
    """
    for entry in entries:
        fault = _find_fault(entry, start)
        if fault is not None:
            return start, Fault(seq=start.seq + 1, problem=fault)
        start = Head(seq=entry.seq, hash=entry.hash)
    return start, None


def group_known_heads(heads: Iterable[Head]) -> Noted:
    """Group known ends by number; that of an empty chain is left out."""
    noted: dict[int, set[str]] = {}
    for head in heads:
        if head.seq:
            noted.setdefault(head.seq, set()).add(head.hash)
    return {seq: frozenset(hashes) for seq, hashes in noted.items()}


def other_than(noted: Noted, entries: Iterable[Entry]) -> Fault | None:
    """Compare entries with the known ends. Returns the first one that differs."""
    for entry in entries if noted else ():
        if noted.get(entry.seq, {entry.hash}) != {entry.hash}:
            return Fault(seq=entry.seq, problem="it is not the record that was noted: the chain is another")
    return None


def find_missing(noted: Noted, end: Head) -> Fault | None:
    """Tell whether the chain ends before a record that was noted."""
    last = max(noted, default=0)
    if last <= end.seq:
        return None
    return Fault(seq=end.seq + 1, problem=f"the chain was cut off: record {last} was noted")


def _find_fault(entry: Entry, before: Head) -> str | None:
    if entry.seq != before.seq + 1:
        return f"a record is missing: the next one has number {entry.seq}"
    if hashlib.sha256(entry.body.encode("utf-8", "surrogatepass")).hexdigest() != entry.hash:
        return "the record was changed: its hash is another"
    try:
        linked = msgspec.json.decode(entry.body, type=_Linked)
    except msgspec.DecodeError:
        return "the record cannot be read"
    if linked.seq != entry.seq:
        return "the record has another number in it"
    return None if linked.prev == before.hash else "the record does not follow the one before it"
