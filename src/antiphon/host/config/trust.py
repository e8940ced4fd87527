"""The files of projects that a person has allowed, each bound to its content.

A project's file may come from a stranger, and names programs to start and addresses to send variables to. So nothing in
it is used before a person has allowed exactly these bytes. Owns the record of permissions; the reader of such a file
asks the person.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.store.store_location import state_folder
from antiphon.machine.files import open_file, replace_file

_LARGEST = 4 * 1024 * 1024
"""Most bytes of the record; one entry takes about 200."""


class Trusted(msgspec.Struct, frozen=True, kw_only=True):
    """A file that was allowed, with its content at that time."""

    path: str
    """Its path, links followed."""
    digest: str
    """SHA-256 of its content."""
    since: float
    """Seconds since the epoch."""
    environment: bool = False
    """Whether its servers may get the user's whole environment behind a gateway."""
    is_moved: bool = False
    """Whether its servers were moved behind a gateway, which needs this permission though the file has changed."""


class Trust:
    """The files that a user has allowed, kept in one file of the user (mode 0600)."""

    def __init__(self, environ: Mapping[str, str] | None = None) -> None:
        """Use the user's state folder, found from ``environ`` (by default the process's environment)."""
        self.place = state_folder(os.environ if environ is None else environ) / "trusted.json"

    def covers(self, path: Path, data: bytes, *, environment: bool = False) -> bool:
        """Return whether this file was allowed with exactly these bytes, and its ``environment``."""
        return self.has(path, _compute_digest(data), environment=environment)

    def has(self, path: Path, digest: str, *, environment: bool = False) -> bool:
        """Return whether a file was allowed with content of this SHA-256; ``environment`` as for ``covers``."""
        wanted = (_name_file(path), digest)
        return any((one.path, one.digest) == wanted and one.environment >= environment for one in self.all())

    def add(self, path: Path, data: bytes, *, environment: bool = False, is_moved: bool = False) -> None:
        """Allow a file with this content; an earlier permission for it ends, unless its servers were moved.

        ``environment``: its servers may also get the user's whole environment.
        """
        kept = [one for one in self.all() if one.path != _name_file(path) or one.is_moved or is_moved]
        new = Trusted(path=_name_file(path), digest=_compute_digest(data), since=time.time())
        self._write([*kept, msgspec.structs.replace(new, environment=environment, is_moved=is_moved)])

    def end_move(self, path: Path) -> None:
        """Forget the permissions that servers of a file needed behind a gateway."""
        self._write([one for one in self.all() if one.path != _name_file(path) or not one.is_moved])

    def revoke(self, path: Path) -> bool:
        """Withdraw the permission for a file. Returns whether there was one."""
        found = self.all()
        kept = [one for one in found if one.path not in (_name_file(path), str(path))]
        if len(kept) < len(found):
            self._write(kept)
        return len(kept) < len(found)

    def all(self) -> list[Trusted]:
        """Return the allowed files, oldest first; raise ``ConfigError`` if others may write the record."""
        try:
            with open_file(self.place) as file:
                if os.name == "posix" and os.fstat(file.fileno()).st_mode & 0o022:
                    raise ConfigError(f"{self.place}: others may write it; chmod 600 {self.place}")
                data = file.read(_LARGEST)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise ConfigError(f"{self.place}: {error.strerror}") from None
        try:
            return msgspec.json.decode(data, type=list[Trusted])
        except msgspec.DecodeError as error:
            raise ConfigError(f"{self.place}: {error}; remove it, and trust again what you know") from None

    def _write(self, trusted: list[Trusted]) -> None:
        """Replace the record atomically: a process that is killed leaves the old one or the new one."""
        try:
            self.place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            replace_file(self.place, msgspec.json.format(msgspec.json.encode(trusted), indent=1))
        except OSError as error:
            raise ConfigError(f"{self.place}: {error.strerror}") from None


def _name_file(path: Path) -> str:
    return os.path.realpath(path)


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
