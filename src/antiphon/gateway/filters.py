"""Which tools of which server pass a gateway, by globs over the servers' own names for them.

A glob that begins with ``!`` denies, any other allows. A deny outranks every allow, wherever it stands. If a list has a
glob that allows, every tool that none of its globs allows is denied; a list of denials alone allows the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from fnmatch import translate

from antiphon.errors import ConfigError

__all__ = ["ALL", "EVERY", "MAX_GLOBS", "Filters"]

EVERY = "*"
"""Stands for every server in place of a server's name."""
MAX_GLOBS = 1_000
"""Most globs of one list."""


class Filters:
    """The lists in force: those for every server, and those of each server. A tool must pass all of them.

    Args:
        lists: a list of globs by the configured name of a server, or ``"*"``; ``with_more`` adds further lists.

    Raises:
        ConfigError: a list or a glob is empty, or a list is too long.
    """

    def __init__(self, lists: Mapping[str, Sequence[str]] = {}) -> None:
        self._lists: list[tuple[str, re.Pattern[str] | None, re.Pattern[str] | None]] = []
        self._add(lists)

    def with_more(self, lists: Mapping[str, Sequence[str]]) -> Filters:
        """Return filters that a tool must pass in addition: those of a profile, or of a person at the page.

        Args:
            lists: as for the class.
        """
        more = Filters()
        more._lists = list(self._lists)
        more._add(lists)
        return more

    def passes(self, server: str, tool: str) -> bool:
        """Tell whether a tool is listed and can be called.

        Args:
            server: its server, by its configured name.
            tool: the server's own name of the tool.
        """
        for name, allowed, denied in self._lists:
            if name not in (EVERY, server):
                continue
            if denied is not None and denied.match(tool):
                return False
            if allowed is not None and not allowed.match(tool):
                return False
        return True

    def _add(self, lists: Mapping[str, Sequence[str]]) -> None:
        for server, globs in lists.items():
            if len(globs) > MAX_GLOBS:
                raise ConfigError(f"the tools of {server}: at most {MAX_GLOBS} globs")
            if not globs:
                raise ConfigError(f'the tools of {server}: the list is empty; write "*" for all, or "!*" for none')
            if any(not glob.removeprefix("!") for glob in globs):
                raise ConfigError(f"the tools of {server}: a glob is empty")
            denied = [glob[1:] for glob in globs if glob.startswith("!")]
            allowed = [glob for glob in globs if not glob.startswith("!")]
            self._lists.append((server, _any_of(allowed), _any_of(denied)))


def _any_of(globs: Sequence[str]) -> re.Pattern[str] | None:
    """Return one pattern for several globs; ``None`` for none."""
    return re.compile("|".join(f"(?:{translate(glob)})" for glob in globs)) if globs else None


ALL = Filters()
"""Lets every tool pass."""
