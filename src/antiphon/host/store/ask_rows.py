"""What became of each ask, and what was spent, computed from the records of the audit. Pure.

Owns the rows, and how records are added to them. They can always be recomputed from the audit. ``audit`` stores them,
and the sums of what was spent. ``Sought`` has the filters.
"""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Literal, NamedTuple

import msgspec

from antiphon.host.store.chain import Entry, Record

MAX_TRAIL = 1_000
"""Most records that the row of an ask lists; an ask with twenty answers has about a hundred."""
_WORDS = 200
"""Most characters of the first words in a row."""
_TEXT = 2_000
"""Most characters of what was asked, and of what was answered, that are searched."""
_MANY = 100
"""Rows of one page."""

Ending = Literal["open", "answered", "refused", "failed", "withdrawn", "invalid", "changed"]


class NumberedRecord(NamedTuple):
    """A record, and its number."""

    seq: int
    record: Record


class AskKey(NamedTuple):
    """Identifies an ask: its id is unique in the process that asked."""

    host: str
    ask: str


class Arrival(NamedTuple):
    """What became of an answer after it was released."""

    became: Literal["handed-over", "late"]
    why: str = ""
    """Why it came too late: ``"cancelled"``, ``"call-gone"``, ``"deadline"`` or ``"closed"``."""


class SpentKey(NamedTuple):
    """Identifies a sum."""

    day: str
    """In UTC: ``"2026-11-21"``."""
    identity: str
    model: str


class AskRow(msgspec.Struct, kw_only=True):
    """One ask. Not frozen, because records are added to it."""

    seq: int
    """The number of its first record, which identifies it."""
    host: str
    ask: str
    at: float
    """Time of the first record, in seconds since the epoch."""
    identity: str
    method: str
    server: str = ""
    """The server's target, for display."""
    tool: str = ""
    words: str = ""
    """The beginning of what was asked; only if content is kept."""
    decision: str = ""
    """``"approve"``, ``"deny:server"``, ``"grant"``, ``"policy"`` if nobody was asked, ..."""
    by: str = ""
    reason: str = ""
    """The reason that the person gave."""
    ending: Ending = "open"
    outcome: str = ""
    model: str = ""
    money: int | None = None
    """Nano-dollars."""
    tokens: int | None = None
    trail: list[int] = []
    """The numbers of its records."""
    quoted: str = ""
    """The beginnings of what was asked and answered, in lower case, for searching; only if content is kept."""

    @property
    def arrival(self) -> Arrival | None:
        """What became of the answer; ``None`` if there was none, or it is not known."""
        if self.ending == "answered" and self.outcome == "handed-over":
            return Arrival("handed-over")
        word, _, why = self.outcome.partition(":")
        return Arrival("late", why) if self.ending == "withdrawn" and word == "late" else None

    @property
    def facts(self) -> str:
        """Text that is searched in addition to the content, in lower case and on one line."""
        known = (self.server, self.tool, self.identity, self.method, self.decision, self.by, self.reason, self.ending)
        return " ".join(" ".join([*known, self.outcome, self.model, self.ask]).lower().split())


class SpentRow(msgspec.Struct, kw_only=True):
    """What was spent on one day, by one server, on one model."""

    day: str
    identity: str
    model: str
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: int = 0
    """Nano-dollars."""


class Sought(msgspec.Struct, frozen=True, kw_only=True):
    """Filters for asks; ``None`` or empty excludes nothing."""

    words: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Words in lower case, each with the identities of servers whose name contains it; all of them must be found."""
    identity: str | None = None
    method: str | None = None
    ending: Ending | None = None
    since: float | None = None
    until: float | None = None
    before: int | None = None
    """Only asks with a lower ``seq``: the next page."""
    limit: int = _MANY

    def __contains__(self, row: AskRow) -> bool:
        return (
            self.identity in (None, row.identity)
            and self.method in (None, row.method)
            and self.ending in (None, row.ending)
            and (self.since is None or row.at >= self.since)
            and (self.until is None or row.at < self.until)
            and all(
                word in row.facts or word in row.quoted or row.identity in identities for word, identities in self.words
            )
        )


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """One page of asks, the latest first."""

    rows: list[AskRow]
    count: int
    """Number of asks on all pages."""
    behind: int = 0
    """Number of audit records that were not gathered yet."""
    gathered: int = 0
    """Number of the last audit record that was gathered."""


def decode_records(entries: Iterable[Entry]) -> list[NumberedRecord]:
    """Decode the records of a chain, leaving out any that cannot be decoded."""
    found: list[NumberedRecord] = []
    for entry in entries:
        # ``verify`` reports it. One bad record must not hide the others.
        with suppress(msgspec.DecodeError):
            found.append(NumberedRecord(entry.seq, entry.record))
    return found


def gather_rows(asks: MutableMapping[AskKey, AskRow], records: Iterable[NumberedRecord]) -> None:
    """Add records to the rows gathered from earlier ones."""
    for seq, record in records:
        key = AskKey(record.host, record.ask)
        row = asks.get(key)
        if row is None:
            row = asks[key] = AskRow(
                seq=seq,
                host=record.host,
                ask=record.ask,
                at=record.at,
                identity=record.identity,
                method=record.method,
                trail=[],
            )
        if len(row.trail) < MAX_TRAIL:
            row.trail.append(seq)
        _add_record(row, record)


def _add_record(row: AskRow, record: Record) -> None:
    row.server = row.server or record.server or ""
    row.tool = row.tool or record.tool or ""
    if record.step != "recovered":
        # There ``host`` is the process that recovered the ask.
        row.by = record.by or row.by
    row.model = record.model or row.model
    row.reason = record.reason or row.reason
    if record.step in ("review", "response", "grant"):
        row.decision = record.outcome or record.step
    elif record.step == "policy" and record.outcome != "ask":
        row.decision = "policy"
    elif record.step == "changed":
        row.decision, row.ending = record.outcome, "changed"
    elif record.step in ("answered", "refused", "failed", "withdrawn", "invalid"):
        row.ending, row.outcome = record.step, record.outcome
        if record.method == "elicitation/create" and row.ending == "answered" and record.outcome != "handed-over":
            # A form is decided by being filled in, or not.
            row.decision = record.outcome
    if _is_spending(record):
        row.money = (row.money or 0) + (record.money or 0)
        row.tokens = (row.tokens or 0) + (record.input_tokens or 0) + (record.output_tokens or 0)
    if record.content is not None:
        _quote_content(row, record, record.content)


def add_spending(spent: MutableMapping[SpentKey, SpentRow], records: Iterable[Record]) -> None:
    """Add the spending in records to its sums."""
    for record in records:
        if not _is_spending(record):
            continue
        day = datetime.fromtimestamp(record.at, UTC).date().isoformat()
        key = SpentKey(day, record.identity, record.model or "")
        line = spent.get(key)
        if line is None:
            line = spent[key] = SpentRow(day=key.day, identity=key.identity, model=key.model)
        line.requests += 1
        line.input_tokens += record.input_tokens or 0
        line.output_tokens += record.output_tokens or 0
        line.money += record.money or 0


def _is_spending(record: Record) -> bool:
    return record.step in ("settled", "recovered") and record.input_tokens is not None


class _Block(msgspec.Struct):
    type: str = ""
    text: str = ""


class _QuotedMessage(msgspec.Struct):
    content: _Block | list[_Block]

    @property
    def text(self) -> str:
        blocks = self.content if isinstance(self.content, list) else [self.content]
        return "\n".join(block.text for block in blocks if block.text)


class _QuotedAsk(msgspec.Struct):
    """The parts of a request, a form or a tool call that are quoted; the rest is not decoded."""

    messages: Sequence[_QuotedMessage] = ()
    message: str = ""
    arguments: msgspec.Raw = msgspec.Raw()


_decode_asked = msgspec.json.Decoder(_QuotedAsk).decode
_decode_answer = msgspec.json.Decoder(_QuotedMessage).decode


def _quote_content(row: AskRow, record: Record, content: str) -> None:
    try:
        if record.step != "policy":
            text = _decode_answer(content).text
        else:
            asked = _decode_asked(content)
            # A conversation grows at its end, so the last message is what was asked now.
            text = asked.messages[-1].text if asked.messages else asked.message or bytes(asked.arguments).decode()
            row.words = text[:_WORDS]
    except msgspec.MsgspecError:
        # For example the values of a form, which are shown with the record.
        return
    row.quoted = f"{row.quoted}\n{text[:_TEXT].lower()}"[: 2 * _TEXT]
