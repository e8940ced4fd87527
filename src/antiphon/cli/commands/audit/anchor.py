"""The head of the record, stored elsewhere: in a file, at an address, in the system's log.

Someone who can write the store can cut off its newest records and adjust the head stored beside them. A head that was
noted where they cannot write reveals this: ``verify --anchors``. Owns the format of a note.
"""

from __future__ import annotations

import asyncio
import os
import socket
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from antiphon.cli.commands.audit.verify import head_text, read_head, tell, verify_store
from antiphon.cli.failures import Failed
from antiphon.cli.output.formats import print_json, print_text
from antiphon.errors import ConfigError
from antiphon.host.review.notify import post_json
from antiphon.host.store import Store
from antiphon.host.store.chain import Head
from antiphon.machine.files import read_file

__all__ = ["Anchor", "anchor", "read_anchors"]

MAX_ANCHORS = 64 * 1024 * 1024
"""Most bytes of a file of anchors: half a million of them, one per minute for a year."""
_TIMEOUT = 10.0
"""Seconds that an address has to accept an anchor."""
_SYSTEM_LOGS = (Path("/dev/log"), Path("/var/run/syslog"))
_NOTICE = 4 * 8 + 5
"""RFC 5424, 6.2.1: facility 4 (security) and severity 5 (notice)."""


class Anchor(msgspec.Struct, frozen=True, kw_only=True):
    """One note, a line of JSON."""

    at: str
    """ISO 8601 in UTC."""
    head: str
    """As ``verify`` prints it."""


async def anchor(store: Store, file: Path | None, webhook: str | None, *, log: bool, as_json: bool) -> int:
    """Note the head of a record that is intact and continues from what the file has. Returns the exit code.

    Raises:
        Failed: it cannot be noted there.
        ConfigError: the file contains something else.
    """
    proof = await verify_store(store, [] if file is None else read_anchors(file, make=True))
    if not proof.whole:
        # A broken record must not be noted as if it were intact.
        return tell(proof, as_json=as_json)
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    line = msgspec.json.encode(Anchor(at=now, head=head_text(proof.head)))
    if file is not None:
        _append(file, line)
    if webhook is not None:
        await _post(webhook, line)
    if log:
        _tell_system(line)
    if as_json:
        print_json(msgspec.json.decode(line))
    else:
        print_text(f"Noted: {head_text(proof.head)}")
    return 0


def read_anchors(file: Path, *, make: bool = False) -> list[Head]:
    """Read the heads that were noted in a file; with ``make``, a missing file has none.

    Raises:
        ConfigError: it cannot be read, or contains something else.
    """
    heads: list[Head] = []
    if make and not file.exists():
        return heads
    try:
        data = read_file(file, MAX_ANCHORS + 1)
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if len(data) > MAX_ANCHORS:
        raise ConfigError(f"{file}: too large for a file of anchors")
    lines = data.splitlines()
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


def _append(file: Path, line: bytes) -> None:
    try:
        fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        with os.fdopen(fd, "ab") as opened:
            opened.write(line + b"\n")
            opened.flush()
            os.fsync(fd)
    except OSError as error:
        raise Failed(f"{file}: cannot be written: {error.strerror}") from None


async def _post(url: str, line: bytes) -> None:
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
