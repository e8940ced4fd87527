"""What servers offered last, kept on disk, so that a gateway can list it before any of them runs.

One file for each server as one principal sees it: what is private to one is never listed to another. A file that is
broken, old, or could have been written by somebody else is dropped, which costs no more than a start of the server.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import stat
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

import msgspec
from msgspec import Struct

from antiphon.client.connection.targets import Address, Command, Target, located, resolve
from antiphon.errors import ConfigError
from antiphon.gateway.offer import Offer
from antiphon.machine.files import replace_file
from antiphon.wire.envelope import decode, encode
from antiphon.wire.origin import identify

__all__ = ["KeptLists", "KeptOffer"]

log = logging.getLogger("antiphon.gateway")

MAX_BYTES = 4 * 1024 * 1024
"""Of one file: some thousand tools with long schemas. Reading it takes 20 ms."""

MAX_TOTAL = 64 * 1024 * 1024
"""Bytes of all files together; those that were written longest ago go first."""

MAX_FILES = 1_000
"""The same, by their number."""

KEPT_FOR = 30 * 86_400.0
"""Seconds after which a file is not used any more: who has not used a server for so long waits for it once."""


class _File(Struct, frozen=True):
    """The content of a file. Another form gets another number."""

    form: Literal[1]
    saved: float
    offer: Offer


class KeptLists:
    """A folder with what servers offered.

    ``folder``: made when it is first needed, for its owner alone.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, target: Target, seen_by: bytes) -> KeptOffer | None:
        """Return the place for one server; ``None`` for one in this process, which lists faster than a disk.

        ``seen_by``: the principal, and whatever else the server may make its lists depend on.
        """
        try:
            where = resolve(target)
        except ConfigError:
            # Said when it is started.
            return None
        if not isinstance(where, Command | Address):
            return None
        # Beside the identity, since a server may offer something else to another token, or in another folder.
        how: list[Any] = [identify(located(where)), _all_of(where), seen_by.hex()]
        name = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()
        return KeptOffer(self, self._folder / f"{name}.json")

    def write(self, path: Path, data: bytes) -> None:
        """Write one file, atomically, and drop what is too much then.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # One that a power cut leaves empty is dropped when it is read.
        replace_file(path, data, durable=False)
        self._prune()

    def _prune(self) -> None:
        found: list[tuple[float, int, Path]] = []
        for entry in os.scandir(self._folder):
            with suppress(FileNotFoundError):
                status = entry.stat(follow_symlinks=False)
                found.append((status.st_mtime, status.st_size, Path(entry.path)))
        total = 0
        for count, (_, size, path) in enumerate(sorted(found, reverse=True), 1):
            total += size
            if count > MAX_FILES or total > MAX_TOTAL:
                path.unlink(missing_ok=True)


class KeptOffer:
    """What one server offered to one principal."""

    def __init__(self, lists: KeptLists, path: Path) -> None:
        self.path = path
        self._lists = lists

    def load(self) -> Offer | None:
        """Return what it offered last, if that is known."""
        try:
            data = _read(self.path)
            kept = decode(data, _File)
            if not 0 <= time.time() - kept.saved <= KEPT_FOR:
                raise ValueError(f"older than {KEPT_FOR / 86_400:.0f} days")
        except FileNotFoundError:
            return None
        except (OSError, ValueError, msgspec.DecodeError) as error:
            log.warning("the lists kept in %s are not used: %s", self.path, error)
            with suppress(OSError):
                self.path.unlink()
            return None
        return kept.offer

    def save(self, offer: Offer) -> None:
        """Keep an offer. One that is too large is not kept, nor is one that the disk does not take."""
        data = encode(_File(form=1, saved=time.time(), offer=offer))
        try:
            if len(data) > MAX_BYTES:
                self.path.unlink(missing_ok=True)
                return
            self._lists.write(self.path, data)
        except OSError as error:
            log.warning("lists are not kept in %s: %s", self.path, error)


def _read(path: Path) -> bytes:
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0))
    with os.fdopen(handle, "rb") as file:
        status = os.fstat(handle)
        if os.name == "posix" and (status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) & 0o077):
            raise ValueError("others may have written or read it")
        if status.st_size > MAX_BYTES:
            raise ValueError(f"larger than {MAX_BYTES} bytes")
        return file.read(MAX_BYTES)


def _all_of(where: Command | Address) -> list[Any]:
    if isinstance(where, Address):
        return [where.url, _plain(where.headers)]
    return [list(where.argv), _plain(where.env), os.path.realpath(where.cwd or ".")]


def _plain(given: Mapping[str, str] | None) -> dict[str, str]:
    return dict(given or {})
