"""Verification of the record, in the store or in an exported file.

Owns the texts, and the head as it is printed and typed (``12:9f86...``). The host's ``chain`` verifies.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from antiphon.cli.failures import FAILED
from antiphon.cli.output.formats import print_json, print_text
from antiphon.errors import ConfigError
from antiphon.host.audit.export import check_lines
from antiphon.host.audit.log import Audit, Proof
from antiphon.host.store import Store
from antiphon.host.store.chain import Fault, Head, verify
from antiphon.machine.files import open_file

__all__ = ["head_text", "read_head", "tell", "verify_file", "verify_store"]

_HEAD = re.compile(r"(?P<seq>\d{1,18}):(?P<hash>[0-9a-f]{64})")
_LONGEST_LINE = 64 * 1024 * 1024
"""Most bytes of one exported record, with its content if that is kept."""


def read_head(text: str | None) -> Head | None:
    """Read a head as ``verify`` prints it.

    Raises:
        ConfigError: it is no head.
    """
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
        return await _unreadable(store)


def verify_file(path: Path, known: Iterable[Head]) -> Proof:
    """Verify a file of JSON Lines.

    Raises:
        ConfigError: it cannot be opened.
    """
    with open_file(path) as file:
        head, fault = check_lines(_lines(file), known)
    return Proof(records=head.seq, head=head, fault=fault)


def head_text(head: Head) -> str:
    """Format a head as it is printed, noted and typed."""
    return f"{head.seq}:{head.hash}"


def tell(proof: Proof, *, as_json: bool) -> int:
    """Print the result, and return the exit code."""
    head = head_text(proof.head)
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


async def _unreadable(store: Store) -> Proof:
    """Read the records one by one, to name the first that cannot be read; raises if none can be."""
    from sqlalchemy.exc import DBAPIError

    kept, after, head = await store.head(), 0, Head()
    while after < kept.seq:
        try:
            page = await store.entries(after, 1)
        except DBAPIError:
            break
        head, fault = verify(page, head)
        if fault is not None or not page:
            return Proof(records=head.seq, head=head, fault=fault)
        after = page[0].seq
    return Proof(records=after, head=head, fault=Fault(seq=after + 1, problem="the record cannot be read"))


def _lines(file: Iterable[bytes]) -> Iterator[str]:
    for line in file:
        yield line.decode("utf-8", "replace") if len(line) <= _LONGEST_LINE else ""
