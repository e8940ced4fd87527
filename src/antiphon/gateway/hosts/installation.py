"""Replace the servers in a host's configuration by the gateway, and restore the host's file.

What is replaced is kept twice: as a backup of the whole file, and as the list of servers that the gateway serves from
then on (in the ``mcpServers`` form, in the user's configuration folder). Only the user can read both files (mode 0600),
because entries hold keys.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from antiphon.client.connection.server_files import read_servers
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.documents import Document, read_document
from antiphon.gateway.hosts.known_hosts import HostFile
from antiphon.machine.files import replace_file

__all__ = ["ENTRY", "Change", "Installation", "Undone"]

ENTRY = "antiphon"
"""What our entry is called."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """What ``install`` will do to a file."""

    before: str
    after: str
    moved: Mapping[str, Any]
    """Entries that the gateway will serve."""
    left: Mapping[str, str]
    """Entries that stay where they are, each with the reason."""


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What ``uninstall`` did to a file."""

    exactly: bool
    """Whether the file is byte for byte what it was. Otherwise our entry was removed and the moved entries restored."""
    restored: Sequence[str]


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    after: str
    """SHA-256 of the file as it was left."""
    existed: bool
    is_whole: bool = True
    """Whether the backup has all entries of the host: none was added to the file between two installations."""
    moved: dict[str, Any] = {}


class Installation:
    """The gateway in the configuration of one host.

    Args:
        name: the name of the host on the command line.
        host: where and in which form the host keeps its servers.
        path: the host's configuration file.
        home: the user's configuration folder, for the entries that are moved.
        state: the user's state folder, for the backup.
    """

    def __init__(self, name: str, host: HostFile, path: Path, *, home: Path, state: Path) -> None:
        self._host = host
        # Follow a link, so that its target is changed and the link itself stays.
        self.path = Path(os.path.realpath(path))
        self.servers = home / "hosts" / f"{name}.json"
        """The file with the entries that the gateway serves."""
        self._record = state / "hosts" / f"{name}.json"
        self.backup = state / "hosts" / f"{name}.backup"

    def plan(self, command: str, *, keep: bool) -> Change:
        """Return what ``install`` will do; nothing is changed.

        Args:
            command: the full path of the program that serves the gateway, because hosts have a ``PATH`` of their own.
            keep: keep the host's servers beside the gateway.

        Raises:
            ConfigError: the file cannot be read, or its folder does not exist.
        """
        data = self._read()
        if data is None and not self.path.parent.is_dir():
            raise ConfigError(
                f"{self.path.parent}: no such folder: is {self._host.title} installed? --file names another"
            )
        document = read_document(self.path, data or b"", self._host.section)
        moved, left = ({}, {}) if keep else _movable(document, self.path)
        before = self._moved()
        # Without entries of the host the gateway serves the user's own configuration.
        args = ["gateway", "--config", str(self.servers)] if moved or before else ["gateway"]
        without = [*moved, *([ENTRY] if ENTRY in document.servers() else [])]
        after = document.changed(without=without, added={ENTRY: self._host.entry(command, args)})
        return Change(before=(data or b"").decode(), after=after, moved={**before, **moved}, left=left)

    def install(self, change: Change) -> None:
        """Carry out a change: write the backup first, then the entries, then the host's file.

        Raises:
            ConfigError: the file has changed meanwhile, or cannot be written.
        """
        data = self._read()
        if (data or b"").decode() != change.before:
            raise ConfigError(f"{self.path}: has changed meanwhile; try again")
        before = self._known() if self._record.exists() else None
        if before is None:
            _write(self.backup, data or b"", private=True)
        if change.moved:
            _write(self.servers, _pretty({"mcpServers": change.moved}), private=True)
        after = change.after.encode()
        record = _Record(
            path=str(self.path),
            after=_digest(after),
            existed=data is not None if before is None else before.existed,
            is_whole=before is None or (before.is_whole and before.after == _digest(data or b"")),
            moved=dict(change.moved),
        )
        _write(self._record, msgspec.json.encode(record), private=True)
        _write(self.path, after)

    def uninstall(self) -> Undone:
        """Restore the host's file.

        Raises:
            ConfigError: nothing was installed there, or the file cannot be written.
        """
        if not self._record.exists():
            raise ConfigError(f"{self._host.title}: antiphon has not been installed in {self.path}")
        record, data = self._known(), self._read()
        exactly = record.is_whole and data is not None and _digest(data) == record.after
        if exactly and not record.existed:
            self.path.unlink()
        elif exactly:
            _write(self.path, self.backup.read_bytes())
        elif data is not None:
            document = read_document(self.path, data, self._host.section)
            there = document.servers()
            ours = [ENTRY] if ENTRY in there else []
            back = {name: entry for name, entry in self._original(record).items() if name not in there}
            _write(self.path, document.changed(without=ours, added=back).encode())
        for file in (self.servers, self._record, self.backup):
            file.unlink(missing_ok=True)
        return Undone(exactly=exactly, restored=list(record.moved))

    # --- files ------------------------------------------------------------------------------------------------------

    def _original(self, record: _Record) -> dict[str, Any]:
        """Return the entries that were moved, in the host's own form if the backup has them."""
        kept = read_document(self.path, self.backup.read_bytes(), self._host.section).servers()
        return {name: kept.get(name, entry) for name, entry in record.moved.items()}

    def _moved(self) -> dict[str, Any]:
        return dict(self._known().moved) if self._record.exists() else {}

    def _known(self) -> _Record:
        try:
            record = msgspec.json.decode(self._record.read_bytes(), type=_Record)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._record}: cannot be read: {error}") from None
        if record.path != str(self.path):
            raise ConfigError(
                f"antiphon is installed in {record.path}: uninstall that first, with --file {record.path}"
            )
        return record

    def _read(self) -> bytes | None:
        try:
            return self.path.read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None


def _movable(document: Document, path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the entries that the gateway can serve, in the form that it reads, and the others with the reason."""
    moved: dict[str, Any] = {}
    left: dict[str, str] = {}
    for name, entry in document.servers().items():
        if name == ENTRY:
            continue
        said = _as_read(entry)
        if said is None:
            left[name] = "not a server that can be started or reached"
        elif said.get("disabled") is True or said.get("enabled") is False:
            left[name] = "switched off"
        elif "${input:" in json.dumps(said):
            left[name] = "its host asks for values"
        else:
            read = read_servers(_pretty({"mcpServers": {name: said}}), path.with_suffix(".json"))
            if read[name].fault is not None:
                left[name] = "has a form that is not known"
            else:
                moved[name] = said
    return moved, left


def _as_read(entry: Any) -> dict[str, Any] | None:
    """Convert an entry to the ``mcpServers`` form; ``None`` if it names neither a program nor an address."""
    if not isinstance(entry, Mapping):
        return None
    said = json.loads(json.dumps(dict(cast("Mapping[str, Any]", entry)), default=str))
    if "cmd" in said or "uri" in said:
        # Goose: {"cmd": ..., "args": ..., "envs": ...} or {"uri": ...}.
        said = {
            **({"command": said["cmd"], "args": said.get("args") or []} if "cmd" in said else {"url": said["uri"]}),
            **({"env": said["envs"]} if said.get("envs") else {}),
            **({"headers": said["headers"]} if said.get("headers") else {}),
            **({"enabled": said["enabled"]} if "enabled" in said else {}),
        }
    return said if {"command", "url", "serverUrl", "httpUrl"} & said.keys() else None


def _pretty(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file completely or not at all. An existing file keeps its mode; a ``private`` one gets mode 0600."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        mode = 0o600 if private or not path.exists() else path.stat().st_mode & 0o777
        replace_file(path, data, mode=mode)
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from None
