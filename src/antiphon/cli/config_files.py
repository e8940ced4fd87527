"""Targets as typed, and the configuration files that list servers: where they are, and whether they are trusted.

Owns the questions about trust: a project's file is shown before anything in it is used or substituted.
``server_files`` parses them, ``host.config.toml_files`` records what was allowed. A program that keeps running reads
the files again when they change, and asks nobody: a file that is not trusted in its present form has no servers; a file
that cannot be read keeps the servers that it had. The same holds for ``[gateway]`` of our own configuration.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import shutil
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import NamedTuple

from msgspec import structs

from antiphon.cli.output.formats import WRONG_USAGE, Failed
from antiphon.client.connection import server_files
from antiphon.client.connection.targets import Address, Target, describe_location, locate_target, split_line
from antiphon.errors import ConfigError
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import make_inert
from antiphon.host.config.settings import Config, GatewaySettings, Profile, Served
from antiphon.host.config.toml_files import Trust
from antiphon.host.store.store_location import config_folder
from antiphon.identity import command_of
from antiphon.machine.files import is_there, name_errors, read_file
from antiphon.machine.other_frameworks import suggest_similar
from antiphon.wire.origin import Origin, describe_target, identify_target, list_coarser

log = logging.getLogger("antiphon.gateway")

_PROJECT = (".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json")
"""Where projects keep them: Claude Code, VS Code, Cursor."""
_SHORT = 12
"""Characters up to which nothing of a secret is shown."""


class FoundEntry(NamedTuple):
    """An entry, and its file."""

    entry: server_files.ServerEntry
    path: Path
    may_inherit_env: bool = True
    """Whether the server may get our whole environment: not from a project's file, unless it is trusted with that."""


def config_paths() -> list[Path]:
    """Return the files that are read, whether they exist or not, in order of precedence.

    The user's own comes first: a project's may come from a stranger, and must not redefine a name that the user knows.
    """
    return [config_folder(os.environ) / "servers.json", *map(Path, _PROJECT)]


def is_own(path: Path) -> bool:
    """Return whether a file is in the user's own configuration folder, and so belongs to no project."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(config_folder(os.environ)))


def read_bytes(path: Path) -> bytes:
    """Read a file, as far as needed to see that it is too large."""
    with name_errors(path):
        return read_file(path, server_files.MAX_FILE + 1)


def read_config(path: Path) -> Mapping[str, server_files.ServerEntry]:
    """Read the servers in a file. Variables are not substituted."""
    return server_files.read_servers(read_bytes(path), path)


def _list_lookup_files(config: Path | None) -> list[Path]:
    """Return where a name is looked up: this file only, or the usual files and those of hosts behind the gateway."""
    own, *projects = config_paths()
    hosts = own.with_name("hosts")
    moved = sorted(hosts.glob("*.json")) if os.access(hosts, os.R_OK | os.X_OK) else []
    return [own, *moved, *projects] if config is None else [config]


def find_entry(name: str, config: Path | None) -> FoundEntry | None:
    """Look a name up in the given file, or else in those of ``config_paths``. Variables are substituted.

    A project's file must be trusted first; in a file that was named, only an entry with variables must be.
    """
    for path in _list_lookup_files(config):
        if config is None and not is_there(path):
            continue
        # Read once, so that exactly the bytes that are shown are trusted and used.
        data = read_bytes(path)
        servers = server_files.read_servers(data, path)
        if name in servers:
            if not is_own(path) and (config is None or server_files.variables_in(servers[name])):
                ask_for_trust(path, data, servers)
            return fill_entry(path, name, servers[name])
        if config is not None:
            raise ConfigError(f"{path}: there is no server {name!r} in it; {suggest_similar(name, list(servers))}")
    return None


def list_names(config: Path | None) -> list[str]:
    """Return the names of the servers in the files of ``find_entry``, as far as these can be read."""
    names: list[str] = []
    for path in _list_lookup_files(config):
        with contextlib.suppress(ConfigError):
            names += server_files.read_servers(read_bytes(path), path)
    return list(dict.fromkeys(names))


def find_entries(files: Sequence[Path]) -> dict[str, FoundEntry]:
    """Return the servers of some files, or else of those of ``config_paths``; the first of each name counts.

    Variables are substituted. Trust is as for ``find_entry``. Of the usual files one that cannot be used costs the
    others nothing: it is logged. Raises ``ConfigError``: a given file cannot be read, or none of the usual ones that
    exist. Raises ``Failed``: a given file is not trusted, and nobody can be asked; or none of the usual ones is.
    """
    found: dict[str, FoundEntry] = {}
    errors: list[ConfigError | Failed] = []
    for path in files or [path for path in config_paths() if is_there(path)]:
        try:
            entries = entries_of(path, is_named=bool(files))
        except (ConfigError, Failed) as error:
            if files:
                raise
            errors.append(error)
        else:
            found |= {name: one for name, one in entries.items() if name not in found}
    if errors and not found:
        raise errors[0]
    for error in errors:
        log.warning("%s; its servers are left out", make_inert(str(error)))
    return found


def entries_of(path: Path, *, is_named: bool, may_ask: bool = True) -> dict[str, FoundEntry]:
    """Return the servers of one file. Variables are substituted; an entry that cannot be used has a ``fault``.

    ``is_named``: the user has named this file, so that it must be trusted only if it wants variables. ``may_ask``: a
    person at the terminal may be asked to trust it. Raises ``ConfigError``: the file cannot be read. Raises ``Failed``:
    it is not trusted, and nobody can be asked.
    """
    data = read_bytes(path)
    belongs_to_project = not is_own(path)
    if belongs_to_project and not is_named and not may_ask:
        # Ask before the file is parsed, because a mistake in an untrusted file must not matter.
        ask_for_trust(path, data, {}, may_ask=False)
    servers = server_files.read_servers(data, path)
    if belongs_to_project and (not is_named or any(server_files.variables_in(entry) for entry in servers.values())):
        ask_for_trust(path, data, servers, may_ask=may_ask)
    may_inherit = not belongs_to_project or Trust().covers(path, data, environment=True)
    return {name: _fill_or_report(path, name, entry, may_inherit) for name, entry in servers.items()}


def _fill_or_report(path: Path, name: str, entry: server_files.ServerEntry, may_inherit: bool) -> FoundEntry:
    try:
        found = fill_entry(path, name, entry)
        return found._replace(may_inherit_env=found.may_inherit_env and may_inherit)
    except ConfigError as error:
        return FoundEntry(server_files.ServerEntry(fault=str(error)), path)


def fill_entry(path: Path, name: str, entry: server_files.ServerEntry) -> FoundEntry:
    """Substitute the variables in an entry of a file."""
    if entry.fault is not None:
        raise ConfigError(f"{path}: {entry.fault}")
    source, trust, may_inherit = path, Trust(), True
    if entry.origin is not None:
        source = Path(entry.origin.file)
        may_inherit = trust.has(source, entry.origin.sha256, environment=True)
        if not trust.has(source, entry.origin.sha256) and not trust.covers(path, read_bytes(path)):
            remedy = f"Look at it, then: antiphon trust add {path}"
            raise ConfigError(f"{path}: {name}: came from {source}, which is not trusted any more. {remedy}")
    project = server_files.find_project(source)
    filled = server_files.substitute_variables(entry, os.environ, project, f"{path}: {name}")
    return FoundEntry(filled, path, may_inherit)


def describe_servers(servers: Mapping[str, server_files.ServerEntry]) -> Iterator[str]:
    """Describe the content of a file for the person who decides about it: one line per server, and its environment."""
    for name, entry in servers.items():
        if entry.command is None and entry.url is None:
            yield make_inert(f"  {name}: {entry.fault or 'nothing that can be reached'}")
            continue
        said = f"connects to {entry.url}"
        if entry.url is None:
            said = f"starts {describe_target(describe_location(locate_target(entry.target)))}"
        yield make_inert(f"  {name}: {mask_text(said)}")
        if entry.env:
            yield make_inert(f"    with the variables {_list_values(entry.env, '=')}")
        if entry.env_file is not None:
            yield make_inert(f"    with those of the file {entry.env_file}")
        if entry.headers:
            yield make_inert(f"    with the headers {_list_values(entry.headers, ': ')}")
        if wanted := server_files.variables_in(entry):
            given = {name: os.environ.get(name) for name in wanted}
            said = [f"{name} ({_shorten_secret(value) if value else 'not set'})" for name, value in given.items()]
            yield make_inert(f"    is given from your environment: {', '.join(said)}")


def _list_values(texts: Mapping[str, str], mark: str) -> str:
    """Write names with their values; a long value is shortened, unless it is filled with variables."""
    return ", ".join(
        mask_text(f"{name}{mark}{text}")
        if "${" in text or len(text) <= _SHORT
        else f"{name}{mark}{_shorten_secret(text)}"
        for name, text in texts.items()
    )


def _shorten_secret(secret: str) -> str:
    """Write so much of a value that its owner recognizes it, and nobody else learns it."""
    return f"{secret[:2] if len(secret) > _SHORT else ''}…, {len(secret)} characters"


def ask_for_trust(
    path: Path, data: bytes, servers: Mapping[str, server_files.ServerEntry], *, may_ask: bool = True, option: str = ""
) -> None:
    """Have a person trust a file as it is, if nobody has.

    ``servers``: what is shown of it. ``option``: the remedy of a command that shows it also where nobody can be asked.
    Raises ``Failed``: it is not trusted, and nobody can be asked, or the person does not want it.
    """
    trust = Trust()
    if trust.covers(path, data):
        return
    was = "is not trusted, or has changed since"
    if not (may_ask and sys.stdin.isatty() and sys.stderr.isatty()):
        if option:
            print(*describe_servers(servers), sep="\n", file=sys.stderr)
        raise Failed(f"{path}: {was}. Look at it, then: antiphon trust add {path}{option}", WRONG_USAGE)
    print(
        make_inert(f"{path} {was}. It came with a project, and says:"),
        *describe_servers(servers),
        sep="\n",
        file=sys.stderr,
    )
    print("Trust it as it is now? [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise Failed(f"{path}: not trusted, nothing was started")
    trust.add(path, data)


_URL = re.compile(r"(?:https?|wss?)://", re.IGNORECASE)
_OBJECT = re.compile(r"(?P<file>.+\.py):(?P<name>\w+)")


def resolve_target(text: str, config: Path | None = None) -> str | list[str] | Mapping[str, object]:
    """Return the target for ``Client``. ``config``: the only file to look names up in."""
    if _URL.match(text):
        return text
    if text in list_names(config) and (found := find_entry(text, config)) is not None:
        # A name may have spaces, or be no command line at all, so the whole text is looked up first.
        return target_of(found, text)
    if not text.strip():
        raise ConfigError("the target is empty: give a command line, a .py file or the name of a configured server")
    words = [text] if text.endswith(".py") and Path(text).is_file() else split_line(text)
    named = _OBJECT.fullmatch(text)
    if named is not None and Path(named["file"]).is_file():
        # The path is absolute, because the same name in another folder is another server, with other grants. With -P
        # nothing is imported from the current folder, so the server is the same in every folder.
        return [sys.executable, "-P", "-m", "antiphon", "serve", f"{Path(named['file']).absolute()}:{named['name']}"]
    if words[0].endswith(".py"):
        if not Path(words[0]).is_file():
            raise ConfigError(f"no such file: {words[0]}")
        return [*command_of(words[0]), *words[1:]]
    if len(words) == 1:
        # Raises an error that names the unreadable file, or the given file without such a server.
        find_entry(text, config)
    if shutil.which(words[0]) is None and (len(words) == 1 or get_close_matches(text, list_names(config), n=1)):
        raise _report_unknown(text, config)
    return words


def address_of(target: Target) -> Address | None:
    """Return the address of a server; ``None`` for one that is started here."""
    found = locate_target(target)
    return found if isinstance(found, Address) else None


def _report_unknown(text: str, config: Path | None) -> ConfigError:
    """Name the files in which a server is not configured, and the name that was probably meant."""
    looked = ", ".join(map(str, config_paths() if config is None else [config]))
    address = "; an address begins with http, https, ws or wss" if "://" in text else ""
    known = list_names(config)
    meant = f"; {suggest_similar(text, known)}" if known else ""
    if Path(f"{(stem := text.partition(':')[0])}.py").is_file():
        meant = f"; did you mean '{stem}.py{text.removeprefix(stem)}'?"
    return ConfigError(f"{text!r} is no program, no .py file, and no server named in {looked}{address}{meant}")


def target_of(found: FoundEntry, name: str) -> Mapping[str, object]:
    """Return the target for ``Client`` from an entry of this name."""
    if found.entry.fault is not None:
        raise ConfigError(found.entry.fault)
    if found.entry.command is None and found.entry.url is None:
        raise ConfigError(f'{found.path}: {name}: needs "command" or "url"')
    target = found.entry.target
    if found.entry.start_timeout is not None:
        target["start_timeout"] = found.entry.start_timeout
    if found.entry.command is not None and not found.may_inherit_env:
        target["may_inherit_env"] = False
    return target


def origin_at(target: str) -> Origin:
    """Return what a host knows about a server, named as for ``antiphon call``, before it is connected."""
    if re.fullmatch(r"(?:url|command|memory|coarse):[\w.]*", target):
        return Origin(id="named", identity=target, target=target)
    found = describe_location(locate_target(resolve_target(target)))
    return Origin(
        id="named", identity=identify_target(found), coarser=list_coarser(found), target=describe_target(found)
    )


def names_of(config: Config) -> Mapping[str, str]:
    """Return the names of the configured servers, by identity."""
    return {entry.find_identity: said for entry in config.servers if (said := entry.described) is not None}


EVERY = 1.0
"""Seconds between two looks at the files, a few microseconds each."""

_Look = dict[Path, tuple[int, int, int] | None]
"""Time of change, size and inode of each file; ``None`` for a missing one."""


class WatchedServers:
    """The servers of some files, by default of those in which names are looked up.

    Args:
        files: the files; empty for the usual ones.
        only: names of the servers to use; empty for all.
        chosen: names of the servers that a profile chooses; empty for all.

    Raises ``ConfigError``: a file cannot be read, there are no servers, or there is none of a given name. Raises
    ``Failed``: a file is not trusted.
    """

    def __init__(self, files: Sequence[Path], only: Sequence[str], chosen: Sequence[str] = ()) -> None:
        self._files = list(files)
        self._only = only
        self._choices = [frozenset(names) for names in (only, chosen) if names]
        self._watched = FileWatch(lambda: (*(self._files or config_paths()), Trust().place))
        """Includes the record of trusted files, since trust may be given or withdrawn while the program runs."""
        self.settings: WatchedSettings | None = None
        """The settings of the gateway, which are watched as well, because a profile may choose other servers."""
        found = find_entries(files)
        missing = [name for name in (*only, *chosen) if name not in found]
        if missing or not found:
            places = ", ".join(map(str, files or config_paths()))
            what = f"is no server {missing[0]!r}" if missing else "are no servers"
            raise ConfigError(f"there {what} in {places}")
        self._last: dict[Path, dict[str, FoundEntry]] = {}
        for name, one in found.items():
            self._last.setdefault(one.path, {})[name] = one
        self.targets: Mapping[str, Target] = self._targets(found)
        """The servers as they are now, by name."""
        self.tools = _tool_globs(found)
        """The tools that their entries allow and deny, as globs by name of the server."""

    def log_unknown(self, said: GatewaySettings) -> None:
        """Log which settings are about servers that no file has: neither these, nor those where names are looked up."""
        known = [name for entries in (*self._last.values(), list_names(None)) for name in entries]
        for unknown in said.find_unknown_servers(list(dict.fromkeys(known))):
            log.warning("antiphon.toml: %s", make_inert(unknown))

    async def changes(self, every: float = EVERY) -> AsyncIterator[Mapping[str, Target]]:
        """Yield all servers again whenever they have changed, for as long as the caller iterates."""
        while True:
            await asyncio.sleep(every)
            has_new_settings = self.settings is not None and self.settings.look()
            if self.settings is not None:
                self._choices = [frozenset(names) for names in (self._only, self.settings.chosen) if names]
            if not self._watched.find_changes(self._watched.look()) and not has_new_settings:
                continue
            try:
                found = self._read_again()
                targets = self._targets(found)
            except ConfigError as error:
                log.warning("%s; all servers stay as they were", make_inert(str(error)))
                continue
            if (tools := _tool_globs(found)) != self.tools:
                self.tools = tools
                if self.settings is not None:
                    self.settings.apply()
            if targets != self.targets:
                self.targets = targets
                log.warning("The servers have changed: %s", make_inert(", ".join(targets) or "none"))
                yield targets

    def _targets(self, found: Mapping[str, FoundEntry]) -> dict[str, Target]:
        served = [name for name in found if all(name in choice for choice in self._choices)]
        return {name: _target_or_fault(found[name], name) for name in served}

    def _read_again(self) -> dict[str, FoundEntry]:
        last: dict[Path, dict[str, FoundEntry]] = {}
        for path in self._files or [path for path in config_paths() if is_there(path)]:
            try:
                last[path] = entries_of(path, is_named=bool(self._files), may_ask=False)
            except Failed as error:
                log.warning("%s; its servers are stopped", make_inert(str(error)))
            except ConfigError as error:
                last[path] = self._last.get(path, {})
                log.warning("%s; its servers stay as they were", make_inert(str(error)))
        self._last = last
        found: dict[str, FoundEntry] = {}
        for entries in last.values():
            for name, one in entries.items():
                found.setdefault(name, one)
        return found


def _target_or_fault(found: FoundEntry, name: str) -> Target:
    """Return a target that names the fault of an entry, so that it costs the other servers nothing."""
    try:
        return target_of(found, name)
    except ConfigError as error:
        return {"fault": str(error)}


def _tool_globs(found: Mapping[str, FoundEntry]) -> dict[str, tuple[str, ...]]:
    return {name: globs for name, one in found.items() if (globs := one.entry.tool_globs)}


class WatchedSettings:
    """``[gateway]`` of ``antiphon.toml`` with a profile, read again when a file changes.

    Args:
        files: the files, whether they exist or not.
        read: reads the configuration.
        profile: name of the profile in force; ``None`` without one.
        take_up: called with the settings and the profile when they have changed.
    """

    def __init__(
        self,
        files: Sequence[Path],
        read: Callable[[], Config],
        profile: str | None,
        take_up: Callable[[GatewaySettings, Profile], object],
    ) -> None:
        self._watched = FileWatch(lambda: files)
        self._read = read
        self._profile = profile
        self._take_up = take_up
        self._config = read()
        self.chosen = self._config.gateway.profile(profile).only or ()
        """The names of the servers that the profile chooses; empty for all."""

    def apply(self) -> None:
        """Call ``take_up`` with the settings in force, because the files with the servers have changed."""
        self._take_up(self._config.gateway, self._config.gateway.profile(self._profile))

    def look(self) -> bool:
        """Check the files once: apply what can change while the gateway runs, and log what needs a restart.

        Returns whether anything has changed.
        """
        if not self._watched.find_changes(self._watched.look()):
            return False
        before = self._config
        try:
            config = self._read()
            profile = config.gateway.profile(self._profile)
            if config.gateway != before.gateway:
                self._take_up(config.gateway, profile)
        except ConfigError as error:
            log.warning("%s; everything stays as it was", make_inert(str(error)))
            return False
        self._config, self.chosen = config, profile.only or ()
        if config.gateway != before.gateway:
            log.warning("antiphon.toml has changed: the new names, filters and profile are in force")
        if _of_the_start(config) != _of_the_start(before):
            log.warning(
                "antiphon.toml has changed: models, rules, budgets, [auth], search and all else but names, filters and "
                "profiles are taken up when the gateway is started again"
            )
        return config.gateway != before.gateway


def _of_the_start(config: Config) -> Config:
    """Return the parts of a configuration that apply only from the next start of the gateway."""
    said = config.gateway
    servers = {name: Served(start_timeout=seconds) for name, seconds in said.start_timeouts.items()}
    kept = GatewaySettings(
        search=said.search,
        as_tools=said.as_tools,
        model_api=said.model_api,
        list_timeout=said.list_timeout,
        environment=said.environment,
        servers=servers,
    )
    return structs.replace(config, gateway=kept, files=())


class FileWatch:
    """Some files, and which of them have changed.

    ``paths``: returns the paths of the files, whether they exist or not.
    """

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        self.seen = self._before = self.look()

    def find_changes(self, now: _Look) -> set[Path]:
        """Return the files that have changed since this method last returned some. ``now``: what ``look`` returned.

        A change counts only if two looks in a row see the same of the file, which may still be being written.
        """
        before, self._before = self._before, now
        changed = {path for path, _ in now.items() ^ self.seen.items() if now.get(path) == before.get(path)}
        # One that is still being written is compared with what it was before.
        others = {path: state for path, state in self.seen.items() if path not in changed}
        self.seen = others | {path: now[path] for path in changed & now.keys()}
        return changed

    def look(self) -> _Look:
        """Return the state of each file."""
        return {path: _read_state(path) for path in self._paths()}


def _read_state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
