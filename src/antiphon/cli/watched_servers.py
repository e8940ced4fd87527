"""The servers of configuration files, read again when a file changes, for a program that goes on meanwhile.

Nobody is asked anything: a file that is not trusted as it is now gives no servers, and one that is broken keeps those
it had.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

from antiphon.cli.config_files import Found, config_paths, entries_of, find_entries
from antiphon.cli.failures import Failed
from antiphon.cli.targets import target_of
from antiphon.client.connection.targets import Target
from antiphon.errors import ConfigError
from antiphon.host.checks.visible import inert
from antiphon.host.config.trust import Trust

__all__ = ["WatchedServers"]

log = logging.getLogger("antiphon.gateway")

EVERY = 1.0
"""Seconds between two looks at the files, a few microseconds each."""

_Look = tuple[tuple[int, int, int] | None, ...]
"""Time, size and number of each file; ``None`` for one that is not there."""


class WatchedServers:
    """The servers of some files, or else of those in which names are looked up.

    Args:
        files: the files; none for the usual ones.
        only: names to which they are restricted; none for all.
        chosen: names to which a profile restricts them; none for all.

    Raises:
        ConfigError: a file cannot be read, there are no servers, or one that was named is not there.
        Failed: a file is not trusted.
    """

    def __init__(self, files: Sequence[Path], only: Sequence[str], chosen: Sequence[str] = ()) -> None:
        self._files = list(files)
        self._choices = [frozenset(names) for names in (only, chosen) if names]
        self._seen = self._look()
        found = find_entries(files)
        missing = [name for name in (*only, *chosen) if name not in found]
        if missing or not found:
            places = ", ".join(map(str, files or config_paths()))
            what = f"is no server {missing[0]!r}" if missing else "are no servers"
            raise ConfigError(f"there {what} in {places}")
        self._last: dict[Path, dict[str, Found]] = {}
        for name, one in found.items():
            self._last.setdefault(one.path, {})[name] = one
        self.targets: Mapping[str, Target] = self._targets(found)
        """The servers as they are now, by name."""

    async def changes(self, every: float = EVERY) -> AsyncIterator[Mapping[str, Target]]:
        """Yield the servers anew whenever they have changed, for as long as it is asked.

        Args:
            every: seconds between two looks.
        """
        before = self._seen
        while True:
            await asyncio.sleep(every)
            now = self._look()
            # Only what stays for two looks: it may be in the middle of being written.
            is_steady, before = now == before, now
            if not is_steady or now == self._seen:
                continue
            self._seen = now
            try:
                targets = self._targets(self._read_again())
            except ConfigError as error:
                log.warning("%s; all servers stay as they were", inert(str(error)))
                continue
            if targets != self.targets:
                self.targets = targets
                log.warning("The servers have changed: %s", inert(", ".join(targets) or "none"))
                yield targets

    def _targets(self, found: Mapping[str, Found]) -> dict[str, Target]:
        served = [name for name in found if all(name in choice for choice in self._choices)]
        return {name: target_of(found[name], name) for name in served}

    def _read_again(self) -> dict[str, Found]:
        last: dict[Path, dict[str, Found]] = {}
        for path in self._files or [path for path in config_paths() if path.is_file()]:
            try:
                last[path] = entries_of(path, is_named=bool(self._files), may_ask=False)
            except Failed as error:
                log.warning("%s; its servers are stopped", inert(str(error)))
            except ConfigError as error:
                last[path] = self._last.get(path, {})
                log.warning("%s; its servers stay as they were", inert(str(error)))
        self._last = last
        found: dict[str, Found] = {}
        for entries in last.values():
            for name, one in entries.items():
                found.setdefault(name, one)
        return found

    def _look(self) -> _Look:
        # Trust may be given or withdrawn meanwhile, too.
        return tuple(_state(path) for path in (*(self._files or config_paths()), Trust().place))


def _state(path: Path) -> tuple[int, int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
