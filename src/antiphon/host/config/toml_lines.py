"""The line of a key in a TOML text, for error messages.

The text has been parsed by ``tomllib`` before. A key that cannot be found is reported at the nearest table.
"""

from __future__ import annotations

import re

__all__ = ["Lines", "Place"]

Place = tuple[str | int, ...]
"""A path of keys; after the name of an array of tables stands the index of an entry, from 0."""

_HEADER = re.compile(r"\s*(?P<open>\[{1,2})(?P<keys>[^\[\]]+)\]{1,2}\s*(?:#.*)?$")
_WORD = r"""(?:[A-Za-z0-9_-]+|"(?:[^"\\]|\\.)*"|'[^']*')"""
_KEY = re.compile(rf"\s*(?P<keys>{_WORD}(?:\s*\.\s*{_WORD})*)\s*=(?P<value>.*)$")
_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'[^\']*\'|#.*')
_LONG = ('"""', "'''")


class Lines:
    """The lines of one text, by place."""

    def __init__(self, text: str) -> None:
        self._lines: dict[Place, int] = {(): 1}
        self._counts: dict[Place, int] = {}
        self._table: Place = ()
        self._closing: str | None = None
        """The end of the multi-line string that is being skipped."""
        self._depth = 0
        """Number of open brackets; the lines of a multi-line array have no keys."""
        for number, line in enumerate(text.splitlines(), 1):
            self._read(number, line)

    def of(self, place: Place) -> int:
        """Return the line of a key, or that of the nearest enclosing place that has one."""
        while place not in self._lines:
            place = place[:-1]
        return self._lines[place]

    def _read(self, number: int, line: str) -> None:
        if self._closing is not None:
            if self._closing in line:
                self._closing = None
            return
        if self._depth == 0 and (header := _HEADER.match(line)):
            self._enter(number, _split(header["keys"]), is_array=header["open"] == "[[")
            return
        key = _KEY.match(line) if self._depth == 0 else None
        if key:
            place: Place = (*self._table, *_split(key["keys"]))
            for end in range(len(self._table) + 1, len(place) + 1):
                self._lines.setdefault(place[:end], number)
        self._skip(key["value"] if key else line)

    def _enter(self, number: int, keys: list[str], *, is_array: bool) -> None:
        place: Place = ()
        for at, key in enumerate(keys):
            place = (*place, key)
            self._lines.setdefault(place, number)
            is_last = at == len(keys) - 1
            if is_array and is_last:
                self._counts[place] = self._counts.get(place, 0) + 1
            if place in self._counts:
                place = (*place, self._counts[place] - 1)
                self._lines.setdefault(place, number)
        self._table = place

    def _skip(self, value: str) -> None:
        """Detect a value that continues on the next line: a multi-line string, or an array."""
        for quotes in _LONG:
            if value.count(quotes) % 2:
                self._closing = quotes
                return
        bare = _STRING.sub("", value)
        self._depth = max(0, self._depth + bare.count("[") + bare.count("{") - bare.count("]") - bare.count("}"))


def _split(keys: str) -> list[str]:
    return [key.strip("\"'") for key in re.findall(_WORD, keys)]
