"""The audit: what happened to each ask, by whom, at which step, with which outcome. Hashes and metadata by default.

Owns making, reading, verifying, summing up and exporting records: as JSON Lines, which can be verified again, and as
CSV in which no cell is a formula. ``chain`` links them, and the ``store`` keeps them.

Records also become events of other systems. Sources: OCSF 1.3.0, class API Activity (6003) with the profile Security
Control; OpenTelemetry Protocol 1.5, JSON encoding of ``ExportLogsServiceRequest``.
"""

from __future__ import annotations

import csv
import hashlib
import re
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from secrets import token_hex
from typing import Any, Literal, TypedDict, Unpack

import msgspec

from antiphon import __version__
from antiphon.host.checks.people import Decider, read_deciders, write_decider
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import inert_line
from antiphon.host.store import ask_rows, chain
from antiphon.host.store.base import Change, Store
from antiphon.host.store.chain import Entry, Record, Step
from antiphon.host.store.memory_store import MemoryStore
from antiphon.wire.origin import Origin

__all__ = ["Audit", "Facts", "Proof", "Record", "Step", "check_lines", "csv_lines", "day_of", "json_lines"]

_KEPT = 10_000
"""Records of this process kept in memory: some thousand requests, about 5 MB."""
MAX_OUTCOME = 200
"""Most characters of an outcome: our own words, and the place of an error, whose name comes from the server."""
_PAGE = 1_000
"""Records read at once, so that another process can write in between."""


ACCESS_CHANGE = "access/change"
"""The method in a record of a change that no server asked for: a person takes a permission away, or gives it back."""
AccessChange = Literal["revoked", "blocked", "unblocked", "off", "on"]


class Facts(TypedDict, total=False):
    """What a record may hold beside the step. See ``Record``."""

    server: str | None
    tool: str | None
    task: str | None
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
    """The result of verifying the chain."""

    records: int
    """Number of records found in order."""
    head: chain.Head
    """The end of the chain. Keep its hash elsewhere, to find out later whether the whole store was replaced."""
    fault: chain.Fault | None = None

    @property
    def whole(self) -> bool:
        """Whether nothing is wrong."""
        return self.fault is None


class Audit:
    """The records of one host: the latest ones of this process in memory, all of them in the store."""

    def __init__(self, store: Store | None = None, *, content: bool = False) -> None:
        """Use a store.

        Args:
            store: where the records are; by default only those of this process are known.
            content: also keep requests and answers, readable by anyone who can read the store.
        """
        self.content = content
        self._store = store or MemoryStore()
        self._recent: deque[Record] = deque(maxlen=_KEPT)

    async def record(self, origin: Origin, method: str, step: Step, outcome: str, **facts: Unpack[Facts]) -> None:
        """Record something before it happens, in a transaction of its own.

        Args:
            origin: who is concerned.
            method: name of the method.
            step: what happens.
            outcome: how.
            facts: further members of the record.
        """
        record = self.keep(self.draft(origin, method, step, outcome, **facts))
        await self._store.commit(Change(records=(record,)))

    async def record_access_change(
        self,
        identity: str,
        change: AccessChange,
        *,
        by: Decider | None,
        target: str | None = None,
        grant: str | None = None,
        tool: str | None = None,
    ) -> None:
        """Record, before it happens, that a person changes what a server may do from now on.

        Args:
            identity: identity of the server.
            change: what is done.
            by: who does it.
            target: the server's command line or URL, if it is known.
            grant: id of the grant.
            tool: the server's own name for the tool.
        """
        server = None if target is None else mask_text(target)
        origin = Origin(id=token_hex(16), identity=identity, target=server or "")
        known = Facts(by=write_decider(by), server=server, grant=grant, tool=tool)
        await self.record(origin, ACCESS_CHANGE, "changed", change, **known)

    def draft(
        self,
        origin: Origin,
        method: str,
        step: Step,
        outcome: str = "",
        digest: str | None = None,
        **facts: Unpack[Facts],
    ) -> Record:
        """Make a record of what happens, without keeping it: it may still fail to.

        Args:
            origin: who asked, and why.
            method: method of the ask.
            step: stage of the pipeline.
            outcome: what the stage decided.
            digest: hash of the content.
            facts: further members of the record.
        """
        if len(outcome) > MAX_OUTCOME:
            # A server may have written it, so only its beginning is kept, and the hash of all of it.
            whole = hashlib.sha256(outcome.encode("utf-8", "surrogatepass")).hexdigest()
            outcome = f"{outcome[: MAX_OUTCOME // 2]}… sha256:{whole}"
        return Record(
            at=time.time(),
            ask=origin.id,
            identity=origin.identity,
            method=method,
            step=step,
            outcome=outcome,
            digest=digest,
            host=self._store.host,
            call=origin.call.id if origin.call else None,
            people=() if facts.get("by") is None else read_deciders(facts.get("by")),
            **facts,
        )

    def keep(self, record: Record) -> Record:
        """Keep a draft in memory, because it has happened, and return it. The store keeps it once it is committed.

        Args:
            record: the draft.
        """
        self._recent.append(record)
        return record

    def records(self, ask: str | None = None) -> list[Record]:
        """Return the latest records of this process, oldest first.

        Args:
            ask: id of one ask; all asks by default.
        """
        return [record for record in self._recent if ask is None or record.ask == ask]

    async def entries(self, after: int = 0) -> AsyncIterator[chain.Entry]:
        """Yield the stored records with their numbers and hashes, oldest first.

        Args:
            after: yield only records with a higher number.
        """
        while page := await self._store.entries(after, _PAGE):
            for entry in page:
                yield entry
            after = page[-1].seq

    async def verify(self, known: chain.Head | Iterable[chain.Head] | None = None) -> Proof:
        """Verify the whole chain against its hashes and against the end that is stored beside it.

        Finds any byte that was changed, and any record that was removed, inserted or moved, at the end as well. Someone
        who can write the whole store can still compute a new chain, or cut off the end and adjust the stored end; only
        ``known`` reveals that.

        The sums of spending are compared with the records, and the history as far as it is gathered.

        Args:
            known: ends of the chain that were noted earlier; the chain must contain each of them.
        """
        noted = chain.group_known_heads([known] if isinstance(known, chain.Head) else known or ())
        kept = await self._store.head()
        spent, counted = await self._store.spending()
        sums: dict[ask_rows.SpentKey, ask_rows.SpentRow] = {}
        head, after = chain.Head(), 0
        while page := await self._store.entries(after, _PAGE):
            if after == 0 and self._store.bounded:
                linked = msgspec.json.decode(page[0].body, type=dict[str, object])
                head = chain.Head(seq=page[0].seq - 1, hash=str(linked.get("prev", chain.GENESIS)))
            head, fault = chain.verify_entries(page, head)
            fault = fault or chain.other_than(noted, page)
            if fault is not None:
                return Proof(records=head.seq, head=head, fault=fault)
            after = page[-1].seq
            ask_rows.add_spending(sums, (record for seq, record in ask_rows.decode_records(page) if seq <= counted))
        # Records added while we read come after the end that we started from.
        if head.seq < kept.seq or (head.seq == kept.seq and head.hash != kept.hash):
            return Proof(records=head.seq, head=head, fault=_describe_cut(head, kept))
        fault = chain.find_missing(noted, head)
        if fault is None and not self._store.bounded:
            # A bounded store is in the memory of this process, and drops records that its sums still hold.
            fault = _other_sums(sums, spent, counted) or await self._other_history()
        return Proof(records=head.seq, head=head, fault=fault)

    async def _other_history(self) -> chain.Fault | None:
        """Compare the history with the records; return the first difference."""
        shown, is_shortened = 0, False
        found = await self._store.asks(ask_rows.Sought())
        gathered = found.gathered
        while rows := found.rows:
            entries = await self._store.entries_at([seq for row in rows for seq in row.trail])
            made: dict[ask_rows.AskKey, ask_rows.AskRow] = {}
            ask_rows.gather_rows(made, ask_rows.decode_records(entries))
            for row in rows:
                same = made.get(ask_rows.AskKey(row.host, row.ask))
                if len(row.trail) >= ask_rows.MAX_TRAIL:
                    # The row does not list all of its records, so that they cannot make it again.
                    is_shortened = True
                elif same is None or msgspec.structs.replace(same, quoted="") != row:
                    return chain.Fault(seq=row.seq, problem="the history shows its ask otherwise than the records")
                shown += sum(seq <= gathered for seq in row.trail)
            found = await self._store.asks(ask_rows.Sought(before=rows[-1].seq))
        if shown != gathered and not is_shortened:
            return chain.Fault(seq=gathered, problem=f"the history shows {shown} of the records up to it")
        return None

    async def spending(self) -> list[ask_rows.SpentRow]:
        """Sum up what was spent, by day, server and model."""
        rows, _ = await self._store.spending()
        return sorted(rows, key=_key_of)


def _key_of(row: ask_rows.SpentRow) -> ask_rows.SpentKey:
    return ask_rows.SpentKey(row.day, row.identity, row.model)


def _other_sums(
    sums: Mapping[ask_rows.SpentKey, ask_rows.SpentRow], shown: Sequence[ask_rows.SpentRow], counted: int
) -> chain.Fault | None:
    """Compare the sums of spending with those of the records."""
    kept = {_key_of(row): row for row in shown}
    wrong = min((key for key in kept.keys() | sums.keys() if kept.get(key) != sums.get(key)), default=None)
    if wrong is None:
        return None
    return chain.Fault(
        seq=counted, problem=f"the sum of {wrong.day} for {wrong.model or 'no model'} is not that of the records"
    )


def day_of(at: float) -> str:
    """Return the day (UTC) of a time: ``"2026-11-21"``."""
    return datetime.fromtimestamp(at, UTC).date().isoformat()


def _describe_cut(head: chain.Head, kept: chain.Head) -> chain.Fault:
    if head.seq == kept.seq:
        return chain.Fault(seq=head.seq, problem="the last record is not the one noted beside the chain")
    return chain.Fault(seq=head.seq + 1, problem=f"the chain was cut off: there were {kept.seq} records")


_COLUMNS = tuple(name for name in Record.__struct_fields__ if name != "content")
"""Content may be as large as a request, and has line ends: it is exported as JSON only."""
# In many countries spreadsheets split at ";", even inside quotes made for ",": a formula may begin after any
# separator, blanks and quotes. Some also evaluate the full-width forms of these characters.
_FORMULA = re.compile(r"(?:^|(?<=[,;|]))(?=[\s\"']*[=+\-@\uff1d\uff0b\uff0d\uff20])")
_PLAIN = re.compile(r"[0-9A-Za-z_.:/][0-9A-Za-z_.:/ -]*")
"""Matches most cells: no formula, and nothing to mark."""
_CANONICAL = msgspec.json.Encoder(order="sorted")


def json_lines(entries: Iterable[chain.Entry]) -> Iterator[str]:
    """Yield one JSON object per line: the record in its place, and its hash."""
    for entry in entries:
        yield f'{{"hash":"{entry.hash}",{entry.body[1:]}\n'


def check_lines(lines: Iterable[str], known: Iterable[chain.Head] = ()) -> tuple[chain.Head, chain.Fault | None]:
    """Verify a file of ``json_lines``, and that it has the known ends; return its end and the first fault."""
    noted = chain.group_known_heads(known)
    head = chain.Head()
    for number, line in enumerate(lines, 1):
        try:
            fields = msgspec.json.decode(line, type=dict[str, msgspec.Raw])
            hashed = msgspec.json.decode(fields.pop("hash", msgspec.Raw(b"null")), type=str)
            seq = msgspec.json.decode(fields.get("seq", msgspec.Raw(b"null")), type=int)
        except (msgspec.MsgspecError, RecursionError):
            return head, chain.Fault(seq=number, problem="the line cannot be read")
        body = _CANONICAL.encode(fields).decode()
        # A line with the same meaning in another spelling is not the line that was hashed.
        if line.rstrip("\n") != f'{{"hash":"{hashed}",{body[1:]}':
            return head, chain.Fault(seq=number, problem="the record was changed: it is not in its canonical form")
        entry = chain.Entry(seq=seq, body=body, hash=hashed)
        head, fault = chain.verify_entries([entry], head)
        fault = fault or chain.other_than(noted, [entry])
        if fault is not None:
            return head, fault
    return head, chain.find_missing(noted, head)


def csv_lines(entries: Iterable[chain.Entry], *, heading: bool = True) -> Iterator[str]:
    """Yield the lines of a table (RFC 4180), ``heading`` first. Times are ISO 8601 in UTC, money is nano-dollars.

    Invisible characters are replaced by marks, as wherever a person reads them; the JSON Lines have them unchanged.
    """
    if heading:
        yield _format_row(["seq", *_COLUMNS, "hash"])
    for entry in entries:
        record = entry.record
        yield _format_row([entry.seq, *(_get_cell(record, column) for column in _COLUMNS), entry.hash])


def _get_cell(record: Record, column: str) -> object:
    value = getattr(record, column)
    if column == "at":
        return datetime.fromtimestamp(record.at, UTC).isoformat(timespec="milliseconds")
    if isinstance(value, str) and not _PLAIN.fullmatch(value):
        # After an apostrophe a cell is text.
        return _FORMULA.sub("'", inert_line(value))
    return "" if value is None else value


class _LineBuffer:
    """A file object that returns what is written to it, so that one line at a time needs no buffer."""

    def write(self, text: str) -> str:
        return text


_WRITER = csv.writer(_LineBuffer())


def _format_row(cells: list[object]) -> str:
    return str(_WRITER.writerow(cells))


_API_ACTIVITY, _APPLICATION_ACTIVITY, _OTHER = 6003, 6, 99
_STATUS: Mapping[str, tuple[int, int]] = {
    "answered": (1, 1),
    "refused": (2, 2),
    "invalid": (2, 2),
    "failed": (2, 1),
    "withdrawn": (2, 1),
}
"""By step: ``status_id`` (1 success, 2 failure) and ``disposition_id`` (1 allowed, 2 blocked)."""
_SEVERITIES: Mapping[str, tuple[int, int, str]] = {"refused": (2, 13, "WARN"), "failed": (3, 17, "ERROR")}
"""By step: ``severity_id`` of OCSF, number and text of OpenTelemetry."""
_USUAL = (1, 9, "INFO")


def ocsf_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one event of OCSF for each record, as a line of JSON."""
    for entry in entries:
        yield msgspec.json.encode(_make_event(entry)).decode() + "\n"


def otel_lines(entries: Iterable[Entry]) -> Iterator[str]:
    """Yield one line of JSON for each record, as the file exporter of OpenTelemetry writes logs."""
    for entry in entries:
        yield make_log_request([entry]).decode() + "\n"


def make_log_request(entries: Iterable[Entry]) -> bytes:
    """Make the body that sends records to ``/v1/logs`` of a collector."""
    resource = {"attributes": _list_attributes({"service.name": "antiphon", "service.version": __version__})}
    logs = {"scope": {"name": "antiphon.audit"}, "logRecords": [_make_log(entry) for entry in entries]}
    return msgspec.json.encode({"resourceLogs": [{"resource": resource, "scopeLogs": [logs]}]})


def _make_event(entry: Entry) -> dict[str, Any]:
    record = entry.record
    severity, _, _ = _SEVERITIES.get(record.step, _USUAL)
    product = {"name": "Antiphon", "vendor_name": "Antiphon", "version": __version__}
    event: dict[str, Any] = {
        "class_uid": _API_ACTIVITY,
        "category_uid": _APPLICATION_ACTIVITY,
        "activity_id": _OTHER,
        "activity_name": record.step,
        "type_uid": _API_ACTIVITY * 100 + _OTHER,
        "severity_id": severity,
        "time": round(record.at * 1000),
        "message": f"{record.step} {record.outcome}".strip(),
        "metadata": {
            "version": "1.3.0",
            "profiles": ["security_control"],
            "product": product,
            "uid": entry.hash,
            "sequence": entry.seq,
        },
        "actor": {"app_name": "antiphon"} if record.by is None else {"user": _describe_user(record)},
        "api": {
            "operation": record.method,
            "request": {"uid": record.ask},
            "service": {"name": record.server or record.identity, "uid": record.identity},
        },
        "src_endpoint": {"uid": record.host or "unknown"},
        "unmapped": _list_members(record),
    }
    if record.reason is not None:
        event["status_detail"] = record.reason
    if record.step in _STATUS:
        event["status_id"], event["disposition_id"] = _STATUS[record.step]
    return event


def _make_log(entry: Entry) -> dict[str, Any]:
    record = entry.record
    _, number, text = _SEVERITIES.get(record.step, _USUAL)
    members = {"seq": entry.seq, "hash": entry.hash, **_list_members(record)}
    return {
        "timeUnixNano": str(round(record.at * 1e9)),
        "severityNumber": number,
        "severityText": text,
        "eventName": f"antiphon.audit.{record.step}",
        "body": {"stringValue": f"{record.step} {record.outcome}".strip()},
        "attributes": _list_attributes({f"antiphon.{name}": value for name, value in members.items()}),
    }


def _describe_user(record: Record) -> dict[str, str | None]:
    """Describe who decided; the first of several."""
    issuer, _, subject = record.people[0].partition(" sub:") if record.people else ("", "", "")
    return {"name": record.by, **({"uid": subject, "domain": issuer} if issuer else {})}


def _list_members(record: Record) -> dict[str, Any]:
    return {name: value for name, value in msgspec.to_builtins(record).items() if name != "at" and value is not None}


def _list_attributes(values: Mapping[str, object]) -> list[dict[str, Any]]:
    return [{"key": name, "value": _make_value(value)} for name, value in values.items()]


def _make_value(value: object) -> dict[str, object]:
    # In its JSON encoding, a number of 64 bits is a text.
    if isinstance(value, bool):
        return {"boolValue": value}
    return {"intValue": str(value)} if isinstance(value, int) else {"stringValue": str(value)}
