"""The last lists of servers, kept on disk, so that a gateway can answer with them before it has started a server.

There is one file for each server and principal, so that what a server shows to one is never listed to another. A file
that is broken or old, or that somebody else could have written, is dropped; the server is then started to be listed.
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
from antiphon.machine.files import open_file, replace_file
from antiphon.wire.envelope import decode, encode
from antiphon.wire.origin import identify

__all__ = ["KeptLists", "KeptOffer"]

log = logging.getLogger("antiphon.gateway")

MAX_BYTES = 4 * 1024 * 1024
"""Most bytes of one file: some thousand tools with long schemas. Reading it takes 20 ms."""

MAX_TOTAL = 64 * 1024 * 1024
"""Most bytes of all files together; the oldest are deleted first."""

MAX_FILES = 1_000
"""Most files; the oldest are deleted first."""

KEPT_FOR = 30 * 86_400.0
"""Seconds after which a file is not used any more; the server is then started to be listed."""


class _File(Struct, frozen=True):
    """The content of a file. A change of this form needs a new version number."""

    form: Literal[1]
    saved: float
    offer: Offer | None
    """``None`` if the server failed or was late, and was never listed."""


class KeptLists:
    """The folder with the kept lists.

    ``folder``: its path. It is created when first needed, readable by its owner only.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def of(self, target: Target, seen_by: bytes) -> KeptOffer | None:
        """Return the kept lists of one server; ``None`` for a server in this process, which is listed fast anyway.

        ``seen_by``: key of the principal, and of anything else that the server's lists may depend on.
        """
        try:
            where = resolve(target)
        except ConfigError:
            # The start of the server reports what is wrong with the target.
            return None
        if not isinstance(where, Command | Address):
            return None
        # The identity alone is not enough: a server may offer something else to another token, or in another folder.
        how: list[Any] = [identify(located(where)), _all_of(where), seen_by.hex()]
        name = hashlib.sha256(json.dumps(how, sort_keys=True).encode()).hexdigest()
        return KeptOffer(self, self._folder / f"{name}.json")

    def write(self, path: Path, data: bytes) -> None:
        """Write one file atomically, and delete the oldest files beyond the limits.

        Raises:
            OSError: the disk is full, or the folder cannot be written.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Not durable: a file that a power cut has left empty is dropped when it is read.
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
    """The kept lists of one server for one principal."""

    def __init__(self, lists: KeptLists, path: Path) -> None:
        self.path = path
        self._lists = lists
        self.was_late = False
        """Whether the server failed, or was late, in an earlier gateway, and was never listed."""

    def load(self) -> Offer | None:
        """Return the last offer of the server; ``None`` if none is kept, or it cannot be used."""
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
        self.was_late = kept.offer is None
        return kept.offer

    def save(self, offer: Offer | None) -> None:
        """Keep an offer, unless it is too large or cannot be written; ``None`` notes that the server was late."""
        data = encode(_File(form=1, saved=time.time(), offer=offer))
        try:
            if len(data) > MAX_BYTES:
                self.path.unlink(missing_ok=True)
                return
            self._lists.write(self.path, data)
        except OSError as error:
            log.warning("lists are not kept in %s: %s", self.path, error)


def _read(path: Path) -> bytes:
    with open_file(path, follow=False) as file:
        status = os.fstat(file.fileno())
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
