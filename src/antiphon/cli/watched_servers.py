"""The servers of configuration files, read again when a file changes, for a program that keeps running.

No person is asked. A file that is not trusted in its present form has no servers; a file that cannot be read keeps the
servers that it had. The same holds for ``[gateway]`` of our own configuration.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from pathlib import Path

from msgspec import structs

from antiphon.cli.config_files import FoundEntry, config_paths, entries_of, find_entries, target_of
from antiphon.cli.output.formats import Failed
from antiphon.client.connection.targets import Target
from antiphon.errors import ConfigError
from antiphon.host.checks.visible import make_inert
from antiphon.host.config.settings import Config, GatewaySettings, Profile, Served
from antiphon.host.config.toml_files import Trust

log = logging.getLogger("antiphon.gateway")

EVERY = 1.0
"""Seconds between two looks at the files, a few microseconds each."""

_Look = tuple[tuple[int, int, int] | None, ...]
"""Time of change, size and inode of each file; ``None`` for a missing one."""


class WatchedServers:
    """The servers of some files, by default of those in which names are looked up.

    Args:
        files: the files; empty for the usual ones.
        only: names of the servers to use; empty for all.
        chosen: names of the servers that a profile chooses; empty for all.

    Raises:
        ConfigError: a file cannot be read, there are no servers, or there is none of a given name.
        Failed: a file is not trusted.
    """

    def __init__(self, files: Sequence[Path], only: Sequence[str], chosen: Sequence[str] = ()) -> None:
        self._files = list(files)
        self._only = only
        self._choices = [frozenset(names) for names in (only, chosen) if names]
        self._watched = _Files(lambda: (*(self._files or config_paths()), Trust().place))
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

    async def changes(self, every: float = EVERY) -> AsyncIterator[Mapping[str, Target]]:
        """Yield all servers again whenever they have changed, for as long as the caller iterates."""
        while True:
            await asyncio.sleep(every)
            has_new_settings = self.settings is not None and self.settings.look()
            if self.settings is not None:
                self._choices = [frozenset(names) for names in (self._only, self.settings.chosen) if names]
            if not self._watched.have_changed() and not has_new_settings:
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
        for path in self._files or [path for path in config_paths() if path.is_file()]:
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
        self._watched = _Files(lambda: files)
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
        if not self._watched.have_changed():
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


class _Files:
    """Some files, and whether any of them has changed.

    ``paths``: returns the paths of the files, whether they exist or not.
    """

    def __init__(self, paths: Callable[[], Iterable[Path]]) -> None:
        self._paths = paths
        self._seen = self._before = self._look()

    def have_changed(self) -> bool:
        """Return whether the files have changed since this method last returned true.

        A change counts only if two calls in a row see the same, because a file may still be being written.
        """
        before, self._before = self._before, self._look()
        if self._before != before or before == self._seen:
            return False
        self._seen = before
        return True

    def _look(self) -> _Look:
        return tuple(_read_state(path) for path in self._paths())


def _read_state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
