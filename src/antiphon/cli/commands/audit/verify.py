"""The whole record: verified, and its head noted elsewhere.

A record in the store or in an exported file is verified by the host's ``chain``. Someone who can write the store can
cut off its newest records and adjust the head stored beside them. A head that was noted where they cannot write reveals
this: ``verify --anchors``. Owns the texts, the head as it is printed and typed (``12:9f86...``), and the format of a
note.
"""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from antiphon.cli.arguments import read_input
from antiphon.cli.error_messages import FAILED, Failed
from antiphon.cli.output.formats import print_json, print_text
from antiphon.errors import ConfigError
from antiphon.host.audit import Audit, Proof, check_lines
from antiphon.host.review.notify import post_json
from antiphon.host.store import Store
from antiphon.host.store.chain import Fault, Head, verify_entries
from antiphon.machine.files import open_file

_HEAD = re.compile(r"(?P<seq>\d{1,18}):(?P<hash>[0-9a-f]{64})")
_LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of one exported record, with its content if that is kept."""

MAX_ANCHORS = 64 * 1024 * 1024
"""Most bytes of a file of anchors: half a million of them, one per minute for a year."""
_TIMEOUT = 10.0
"""Seconds that an address has to accept an anchor."""
_SYSTEM_LOGS = (Path("/dev/log"), Path("/var/run/syslog"))
_NOTICE = 4 * 8 + 5
"""RFC 5424, 6.2.1: facility 4 (security) and severity 5 (notice)."""


def read_head(text: str | None) -> Head | None:
    """Read a head as ``verify_entries`` prints it."""
    if text is None:
        return None
    match = _HEAD.fullmatch(text.strip())
    if match is None:
        raise ConfigError("--known: a head is written NUMBER:HASH, as antiphon audit verify prints it")
    return Head(seq=int(match["seq"]), hash=match["hash"])


async def verify_store(store: Store, known: Iterable[Head]) -> Proof:
    """Verify all records of a store; a record that the database cannot read is a fault like others."""
    from sqlalchemy.exc import DBAPIError

    try:
        return await Audit(store).verify(known)
    except DBAPIError:
        return await _find_unreadable(store)


def verify_file(path: Path, known: Iterable[Head]) -> Proof:
    """Verify a file of JSON Lines."""
    with open_file(path) as file:
        lines = (line.decode("utf-8", "replace") if len(line) <= _LONGEST_LINE else "" for line in file)
        head, fault = check_lines(lines, known)
    return Proof(records=head.seq, head=head, fault=fault)


def format_head(head: Head) -> str:
    """Format a head as it is printed, noted and typed."""
    return f"{head.seq}:{head.hash}"


def print_proof(proof: Proof, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    head = format_head(proof.head)
    fault = proof.fault
    if as_json:
        broken = None if fault is None else {"record": fault.seq, "problem": fault.problem}
        print_json({"whole": proof.whole, "records": proof.records, "head": head, "fault": broken})
    elif fault is None:
        print_text(f"{proof.records} records, and none was changed, left out, put in, moved or cut off.\nHead {head}")
    else:
        order = f"{proof.records} records before it are in order, up to the head {head}"
        print_text(f"Broken at record {fault.seq}: {fault.problem}.\n{order}")
    return 0 if proof.whole else FAILED


async def _find_unreadable(store: Store) -> Proof:
    """Read the records one by one, to name the first that cannot be read; raises if none can be."""
    from sqlalchemy.exc import DBAPIError

    kept, after, head = await store.head(), 0, Head()
    while after < kept.seq:
        try:
            page = await store.entries(after, 1)
        except DBAPIError:
            break
        head, fault = verify_entries(page, head)
        if fault is not None or not page:
            return Proof(records=head.seq, head=head, fault=fault)
        after = page[0].seq
    return Proof(records=after, head=head, fault=Fault(seq=after + 1, problem="the record cannot be read"))


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """A head with its time: one line of JSON in a file of anchors."""

    at: str
    """ISO 8601 in UTC."""
    head: str
    """As ``verify_entries`` prints it."""


async def anchor_record(store: Store, file: Path | None, webhook: str | None, *, log: bool, as_json: bool) -> int:
    """Note the head of a record that is intact and continues from what the file has. Returns the exit code."""
    proof = await verify_store(store, [] if file is None else read_anchors(file, make=True))
    if not proof.whole:
        # A broken record must not be noted as if it were intact.
        return print_proof(proof, as_json=as_json)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = msgspec.json.encode(Anchor(at=now, head=format_head(proof.head)))
    if file is not None:
        _append_line(file, line)
    if webhook is not None:
        await _post_line(webhook, line)
    if log:
        _tell_system(line)
    if as_json:
        print_json(msgspec.json.decode(line))
    else:
        print_text(f"Noted: {format_head(proof.head)}")
    return 0


def read_anchors(file: Path, *, make: bool = False) -> list[Head]:
    """Read the heads that were noted in a file; with ``make``, a missing file has none."""
    heads: list[Head] = []
    if make and not file.exists():
        return heads
    lines = read_input(file, MAX_ANCHORS).splitlines()
    if not lines and not make:
        # An emptied file would let a record pass from which the newest entries were cut off.
        raise ConfigError(f"{file}: has no anchor in it, so it proves nothing; name the file that was written to")
    for number, line in enumerate(lines, 1):
        try:
            head = read_head(msgspec.json.decode(line, type=Anchor).head)
        except (msgspec.MsgspecError, ConfigError):
            raise ConfigError(f"{file}, line {number}: not an anchor, as antiphon audit anchor writes it") from None
        if head is not None:
            heads.append(head)
    return heads


def _append_line(file: Path, line: bytes) -> None:
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "ab") as opened:
            opened.write(line + b"\n")
            opened.flush()
            os.fsync(fd)
    except OSError as error:
        raise Failed(f"{file}: cannot be written: {error.strerror}") from None


async def _post_line(url: str, line: bytes) -> None:
    if not url.startswith(("https://", "http://")):
        raise ConfigError("--webhook is a URL: https://...")
    try:
        async with asyncio.timeout(_TIMEOUT):
            await post_json(url, line)
    except Exception as error:
        # The address may contain a secret, and so may an error that quotes it.
        raise Failed(f"--webhook: it was not taken: {type(error).__name__}") from None


def _tell_system(line: bytes) -> None:
    for place in _SYSTEM_LOGS:
        if place.exists():
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sending:
                sending.settimeout(_TIMEOUT)
                sending.connect(str(place))
                sending.send(b"<%d>antiphon[%d]: audit head " % (_NOTICE, os.getpid()) + line)
            return
    raise Failed("--log: there is no system log here")
