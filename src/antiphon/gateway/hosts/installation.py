"""Replace the servers in a host's configuration by the gateway, and restore the host's file.

What is replaced is kept twice: as a backup of the whole file, and as the list of servers that the gateway serves from
then on (in the ``mcpServers`` form, in the user's configuration folder). Only the user can read both files (mode 0600),
because entries hold keys. The table of hosts is ``hosts.toml``, that of the members of their entries
``entry_members.toml``: a member in none of its rows may be an order that the gateway would ignore, so an entry with one
stays at its host.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import sys
import tomllib
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal, cast

import msgspec
from msgspec import Struct, field

from antiphon.client.connection.server_files import ServerEntry, is_switched_off, read_servers, variables_in
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.host_documents import HostDocument, read_document
from antiphon.json_schema.validator import suggest_name
from antiphon.machine.files import find_home, name_errors, read_file, replace_file

_ASKED = re.compile(r"\$\{(?:input|command|file):|\{file:")
_BARE_VARIABLE = re.compile(r"\$([A-Za-z_]\w*)")


class MemberRule(Struct, frozen=True, kw_only=True):
    """What becomes of one member of an entry."""

    fate: Literal["translated", "kept", "refused"]
    """``translated``: the gateway does the same. ``kept``: it concerns the host only, or permits calls that the gateway
    asks about anyway; it comes back with ``uninstall``. ``refused``: the gateway cannot do the same, so that the entry
    stays at its host unless the member is empty."""
    to: str = ""
    """The member that it becomes; otherwise the reason, for people, if they should hear of it."""
    factor: float = 1
    """What a number is multiplied by."""


def _read_members() -> dict[str, dict[str, MemberRule]]:
    """Return what becomes of each documented member, by host (``entry_members.toml``)."""
    table = tomllib.loads(Path(__file__).with_name("entry_members.toml").read_text("utf-8"))
    shared, members = table.pop("shared"), dict[str, dict[str, MemberRule]]()
    for host, said in table.items():
        members[host] = {}
        for part in [shared[name] for name in ("every", *said.pop("with", ()))] + [said]:
            for name, to in part.get("translated", {}).items():
                target: dict[str, Any] = {"to": to} if isinstance(to, str) else to
                members[host][name] = MemberRule(fate="translated", **target)
            for fate in ("kept", "refused"):
                for reason, names in part.get(fate, {}).items():
                    members[host] |= {name: MemberRule(fate=fate, to=reason) for name in names}
    return members


MEMBERS: Mapping[str, Mapping[str, MemberRule]] = _read_members()


RULES = {
    "claude-code": (".claude/settings.json", "permissions"),
    "gemini": (None, "mcp"),
    "qwen": (None, "mcp"),
    "opencode": (None, "tools"),
}
"""Where hosts have rules about servers beside the entries: the file, unless it is the same, and the section in it."""


def find_rule(host: str, name: str, rules: Mapping[str, Any]) -> str | None:
    """Return a rule that forbids a server or some of its tools; behind the gateway it would not hold."""
    if host == "opencode":
        return next(
            (glob for glob, may in rules.items() if may is False and fnmatchcase(f"{name}_", glob[: len(name) + 1])),
            None,
        )
    prefix = f"mcp__{re.sub(r'[^a-zA-Z0-9_-]', '_', name)}"
    denied = [str(rule) for rule in rules.get("deny") or () if f"{rule}__".startswith(f"{prefix}__")]
    if name in (rules.get("excluded") or ()):
        denied.append("mcp.excluded")
    if name not in rules.get("allowed", [name]):
        denied.append("mcp.allowed")
    return denied[0] if denied else None


def translate_entry(host: str, entry: object) -> tuple[dict[str, Any], dict[str, str]]:
    """Return an entry in the form that the gateway reads, and the members that do not move, each with the reason.

    Raises ``ConfigError``, whose message is the reason, if the entry has to stay at the host.
    """
    rules = MEMBERS[host]
    said = cast("dict[str, Any]", json.loads(json.dumps(entry, default=str)) if isinstance(entry, Mapping) else {})
    translated = {rule.to for name in said if (rule := rules.get(name)) is not None and rule.fate == "translated"}
    unknown = next((name for name in said if name not in rules), None)
    if unknown is not None:
        raise ConfigError(f"its member {unknown!r} is not known{suggest_name(unknown, rules)}")
    if translated.isdisjoint(("command", "url")):
        raise ConfigError("not a server that can be started or reached")
    if is_switched_off(said):
        raise ConfigError("switched off")
    if _ASKED.search(json.dumps(said)):
        raise ConfigError("its host asks for values")
    moved: dict[str, Any] = {}
    kept: dict[str, str] = {}
    for name, value in said.items():
        rule = rules[name]
        is_empty = value is None or value is False or value in ("", [], {})
        if rule.fate == "refused" and not is_empty:
            raise ConfigError(f"{name}: {rule.to}")
        if rule.fate == "kept" and rule.to and not is_empty:
            kept[name] = rule.to
        # An empty list of Goose stands for all tools, those of the others for none.
        if rule.fate == "translated" and rule.to and not (name == "available_tools" and is_empty):
            moved[rule.to] = value * rule.factor if isinstance(value, float | int) and rule.factor != 1 else value
    if host in ("gemini", "qwen"):
        # They also write a variable without braces, and leave the text as it is where it is not set.
        moved = json.loads(_BARE_VARIABLE.sub(r"${\1:-$\1}", json.dumps(moved)))
    return moved, kept


class FileChange(msgspec.Struct, frozen=True, kw_only=True):
    """What ``install`` will do to a file."""

    before: str
    after: str
    served: Mapping[str, Any]
    """Entries that the gateway will serve: those that move now, and those that it has already."""
    moved: Mapping[str, Any]
    """Entries that move now, as the gateway reads them."""
    left: Mapping[str, str]
    """Entries that stay where they are, each with the reason."""
    kept: Mapping[str, Mapping[str, str]]
    """Members of the moved entries that do not move with them, each with the reason."""

    @property
    def servers(self) -> Mapping[str, ServerEntry]:
        """The entries that move now."""
        return _convert_entries(self.moved)


class Undone(msgspec.Struct, frozen=True, kw_only=True):
    """What ``uninstall`` did to a file."""

    exactly: bool
    """Whether the file is byte for byte what it was. Otherwise our entry was removed and the moved entries restored."""
    restored: Sequence[str]
    edited: Path | None
    """Where the entries that the gateway served are kept, if somebody has changed them since they were moved."""


class _Record(msgspec.Struct, frozen=True, kw_only=True):
    path: str
    after: str
    """SHA-256 of the file as it was left."""
    existed: bool
    is_whole: bool = True
    """Whether the backup has all entries of the host: none was added to the file between two installations."""
    moved: dict[str, Any] = {}
    """The entries that were moved, as the host had them."""
    served: str = ""
    """SHA-256 of the file with the moved entries as it was written."""


class Installation:
    """The gateway in the configuration of one host.

    ``home`` is the user's configuration folder, for the entries that are moved; ``state`` the user's state folder, for
    the backup. ``is_users``: whether ``path`` is the file of the user that the host reads everywhere. Entries of any
    other file keep the trust of their source.
    """

    def __init__(
        self, name: str, host: HostFile, path: Path, *, home: Path, state: Path, is_users: bool = True
    ) -> None:
        self._host = host
        self._kind = next(known for known, one in KNOWN.items() if one is host)
        self.is_users = is_users
        # Two names, so that neither hides the other; long names of tools need them short.
        self._entry = "antiphon" if is_users else "project"
        # Follow a link, so that its target is changed and the link itself stays.
        self.path = Path(os.path.realpath(path))
        self.servers = home / "hosts" / f"{name}.json"
        """The file with the entries that the gateway serves."""
        self._record = state / "hosts" / f"{name}.json"
        self.backup = state / "hosts" / f"{name}.backup"

    @property
    def is_installed(self) -> bool:
        """Whether ``install`` was carried out, and not undone."""
        return os.access(self._record, os.F_OK)

    def plan(self, command: str, *, keep: bool, variables: Sequence[str] = ()) -> FileChange:
        """Return what ``install`` will do; nothing is changed. Raises ``ConfigError`` if the file cannot be read.

        ``command``: the full path of the program that serves the gateway, because hosts have a ``PATH`` of their own.
        ``keep``: keep the host's servers beside the gateway. ``variables``: variables that the gateway needs, for a
        host that passes on only those that are named.
        """
        data = self._read_file()
        if data is None and not self.path.parent.is_dir():
            raise ConfigError(
                f"{self.path.parent}: no such folder: is {self._host.title} installed? --file names another"
            )
        document = read_document(self.path, data or b"", self._host.section)
        moved, kept, left = ({}, {}, {}) if keep else self._movable(document)
        if not self.is_users:
            origin = {"file": str(self.path), "sha256": _compute_digest(data or b"")}
            moved = {name: {**entry, "origin": origin} for name, entry in moved.items()}
        # What somebody has changed in the file stays as it is.
        served = {**(self._read_served() if self._read_record() is not None else {}), **moved}
        # Without entries of the host the gateway serves the user's own configuration.
        args = ["gateway", "--config", str(self.servers)] if served else ["gateway"]
        named = [name for entry in _convert_entries(moved).values() for name in variables_in(entry)]
        ours = self._host.entry(command, args, list(dict.fromkeys([*variables, *named])))
        after = document.changed(without=[*moved, *self._ours(document)], added={self._entry: ours})
        left |= self._of_projects(data or b"")
        return FileChange(before=(data or b"").decode(), after=after, served=served, moved=moved, kept=kept, left=left)

    def install(self, change: FileChange) -> None:
        """Write the backup, the entries, and the host's file; raise ``ConfigError`` if that has changed meanwhile."""
        data = self._read_file()
        if (data or b"").decode() != change.before:
            raise ConfigError(f"{self.path}: has changed meanwhile; try again")
        before = self._read_record()
        is_edited = before is not None and self._is_edited(before)
        if before is None:
            _write_file(self.backup, data or b"", private=True)
        if change.served:
            _write_file(self.servers, _encode_pretty({"mcpServers": change.served}), private=True)
        after = change.after.encode()
        there = read_document(self.path, data or b"", self._host.section).servers()
        moved = {name: json.loads(json.dumps(there[name], default=str)) for name in change.moved}
        record = _Record(
            path=str(self.path),
            after=_compute_digest(after),
            existed=data is not None if before is None else before.existed,
            is_whole=before is None or (before.is_whole and before.after == _compute_digest(data or b"")),
            moved={**({} if before is None else before.moved), **moved},
            served="" if is_edited else self._digest_of_served(),
        )
        _write_file(self._record, msgspec.json.encode(record), private=True)
        _write_file(self.path, after)

    def uninstall(self) -> Undone:
        """Restore the host's file; raise ``ConfigError`` if nothing was installed, or it cannot be written."""
        record, data = self._read_record(), self._read_file()
        if record is None:
            raise ConfigError(f"{self._host.title}: antiphon has not been installed in {self.path}")
        exactly = record.is_whole and data is not None and _compute_digest(data) == record.after
        if exactly and not record.existed:
            self.path.unlink()
        elif exactly:
            _write_file(self.path, read_file(self.backup))
        elif data is not None or record.moved:
            # Restored into a new file if somebody has deleted the host's: there is no other copy of the entries.
            document = read_document(self.path, data or b"", self._host.section)
            ours = self._ours(document)
            there = [name for name in document.servers() if name not in ours]
            # In the host's own form if the backup has it.
            kept = read_document(self.path, read_file(self.backup), self._host.section).servers()
            back = {name: kept.get(name, entry) for name, entry in record.moved.items() if name not in there}
            _write_file(self.path, document.changed(without=ours, added=back).encode())
        edited = None
        if self._is_edited(record):
            edited = self.servers.with_suffix(f".{self._digest_of_served()[:8]}.edited")
            self.servers.replace(edited)
        for file in (self.servers, self._record, self.backup):
            file.unlink(missing_ok=True)
        return Undone(exactly=exactly, restored=list(record.moved), edited=edited)

    def check(self) -> str | None:
        """Return what is wrong with the installation; ``None`` if the host would start the gateway."""
        document = read_document(self.path, self._read_file() or b"", self._host.section)
        entry = document.servers().get(self._entry)
        if entry is None or not self._ours(document):
            return f"{self.path} has no entry of the gateway any more"
        command = _get_words(entry)[0]
        return None if Path(command).is_file() else f"{self.path} starts {command}, which is not there"

    # --- entries ----------------------------------------------------------------------------------------------------

    def _movable(self, document: HostDocument) -> tuple[dict[str, Any], dict[str, Mapping[str, str]], dict[str, str]]:
        """Return the entries that move, their members that do not, and the entries that stay with the reason."""
        moved: dict[str, Any] = {}
        kept: dict[str, Mapping[str, str]] = {}
        left: dict[str, str] = {}
        ours, rules = self._ours(document), self._rules()
        for name, entry in document.servers().items():
            if name in ours:
                continue
            if rule := find_rule(self._kind, name, rules):
                remedy = f"write it as [gateway.servers.{name}] tools in antiphon.toml, and take it out there"
                left[name] = f"its host has a rule about it, {rule}: {remedy}"
                continue
            try:
                said, stays = translate_entry(self._kind, entry)
            except ConfigError as error:
                left[name] = str(error)
                continue
            if _convert_entries({name: said})[name].fault is not None:
                left[name] = "has a form that is not known"
                continue
            moved[name] = said
            kept |= {name: stays} if stays else {}
        return moved, kept, left

    def _rules(self) -> Mapping[str, Any]:
        """Return what the host's settings say of servers beside their entries."""
        file, section = RULES.get(self._kind, (None, self._host.section))
        path = self.path if file is None else self.path.parent / file
        if self._kind not in RULES or not path.is_file():
            return {}
        return read_document(path, read_file(path), section).servers()

    def _ours(self, document: HostDocument) -> list[str]:
        """Return the name of our entry, if it is in the file."""
        return [self._entry] if "gateway" in _get_words(document.servers().get(self._entry))[1:2] else []

    def _of_projects(self, data: bytes) -> dict[str, str]:
        """Return the servers that the file has for single projects, which the gateway does not get."""
        projects = read_document(self.path, data, "projects").servers() if self._host.has_projects else {}
        remedy = "only for that folder: there, claude mcp remove it, add it with --scope user, and install again"
        return {
            f"{name} in {folder}": remedy
            for folder, project in projects.items()
            for name in _check_mapping(_check_mapping(project).get("mcpServers"))
        }

    # --- files ------------------------------------------------------------------------------------------------------

    def _read_served(self) -> dict[str, Any]:
        """Return the entries that the gateway serves now."""
        if not self.servers.exists():
            return {}
        return read_document(self.servers, read_file(self.servers), "mcpServers").servers()

    def _digest_of_served(self) -> str:
        return _compute_digest(read_file(self.servers)) if self.servers.exists() else ""

    def _is_edited(self, record: _Record) -> bool:
        return self.servers.exists() and self._digest_of_served() != record.served

    def _read_record(self) -> _Record | None:
        if not self.is_installed:
            return None
        try:
            record = msgspec.json.decode(read_file(self._record), type=_Record)
        except (OSError, msgspec.DecodeError) as error:
            raise ConfigError(f"{self._record}: cannot be read: {error}") from None
        if record.path != str(self.path):
            raise ConfigError(
                f"antiphon is installed in {record.path}: uninstall that first, with --file {record.path}"
            )
        return record

    def _read_file(self) -> bytes | None:
        try:
            return read_file(self.path)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigError(f"{self.path}: {error.strerror}") from None


def _convert_entries(moved: Mapping[str, Any]) -> Mapping[str, ServerEntry]:
    return read_servers(_encode_pretty({"mcpServers": moved}), Path("mcp.json"))


def _get_words(entry: Any) -> list[str]:
    """Return the command line of an entry, in any host's form."""
    said = _check_mapping(entry)
    command: Any = said.get("command", said.get("cmd", ""))
    words: list[Any] = cast("list[Any]", command) if isinstance(command, list) else [command]
    args: list[Any] = said.get("args") or []
    return [str(word) for word in (*words, *args)]


def _check_mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _encode_pretty(value: object) -> bytes:
    return json.dumps(value, indent=2, ensure_ascii=False).encode() + b"\n"


def _compute_digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write_file(path: Path, data: bytes, *, private: bool = False) -> None:
    """Write a file completely or not at all. An existing file keeps its mode; a ``private`` one gets mode 0600."""
    with name_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700 if private else 0o777)
        mode = 0o600 if private or not path.exists() else path.stat().st_mode & 0o777
        replace_file(path, data, mode=mode)


class HostFile(Struct, frozen=True, kw_only=True):
    """Where a host keeps its servers, and in which form; ``hosts.toml`` explains the members."""

    title: str
    section: str
    places: Mapping[str, str]
    form: Mapping[str, Any] = field(default_factory=lambda: {"command": "$command", "args": "$args"})
    has_projects: bool = False

    def entry(self, command: str, args: Sequence[str], variables: Sequence[str] = ()) -> dict[str, Any]:
        """Write the entry of a program as this host reads it; ``variables`` are names, for a host that wants them."""
        given: dict[str, Any] = {"$command": command, "$args": [*args], "$line": [command, *args]}
        given["$variables"] = [*variables]
        return {name: given.get(said, said) if isinstance(said, str) else said for name, said in self.form.items()}


KNOWN: Mapping[str, HostFile] = msgspec.toml.decode(
    Path(__file__).with_name("hosts.toml").read_bytes(), type=dict[str, HostFile]
)
"""The known hosts, by their names on the command line."""


def place_of(host: HostFile, environ: Mapping[str, str]) -> Path:
    """Return the path of a host's file on this machine, whether the file exists or not."""
    place = host.places.get(sys.platform, host.places["*"])
    home = environ.get("HOME") or environ.get("USERPROFILE") or str(find_home())
    return Path(place.replace("$APPDATA", environ.get("APPDATA", "~/AppData/Roaming")).replace("~", home, 1))
