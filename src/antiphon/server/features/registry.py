"""What a server offers of one kind, in the order it was added: look-up by name, pages, and word of every change.

Owns order, uniqueness and cursors. Generic: knows nothing of tools, resources or prompts.

Every method is quick and leaves the registry whole at any point, so a tool that runs in a thread may add another tool.
A callback of ``on_change`` runs in the thread that made the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from antiphon.errors import ConfigError, InvalidParams

__all__ = ["Page", "Registry"]

T = TypeVar("T")

_MAX_CURSOR = 32
"""Ours are 3 to 21 characters long; nothing longer is looked at."""


class Page(NamedTuple, Generic[T]):
    """Some items in order, and the cursor of the page after them (``None`` on the last page)."""

    items: tuple[T, ...]
    next_cursor: str | None


class Registry(Generic[T]):
    """Named items in the order they were added.

    ``noun`` names one of them in error messages ("tool").
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.version = 0
        """Grows with every change; whoever keeps something made of the items can tell by it whether it is stale."""
        # Cursors of different lists differ, so that one cannot be mistaken for another.
        self._mark = "".join(word[0] for word in noun.split())
        self._items: dict[str, tuple[int, T]] = {}
        self._added = 0
        self._listeners: list[Callable[[], None]] = []

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        return iter([item for _, item in self._items.values()])

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def get(self, name: str) -> T | None:
        """Return the item of this name, or ``None``."""
        entry = self._items.get(name)
        return None if entry is None else entry[1]

    def names(self) -> list[str]:
        """List all names in order."""
        return list(self._items)

    def add(self, name: str, item: T, *, replace: bool = False) -> None:
        """Add an item behind all others; with ``replace`` it takes the place of one of the same name, if there is one.

        Raises ``ConfigError`` if the name is taken.
        """
        present = self._items.get(name)
        if present is not None and not replace:
            raise ConfigError(f"{self.noun} {name!r} is there already: choose another name, or remove it first")
        if present is None:
            self._added += 1
        self._items[name] = (self._added if present is None else present[0], item)
        self._changed()

    def remove(self, name: str) -> T:
        """Take an item out and return it. Raises ``KeyError`` if there is none of this name."""
        if name not in self._items:
            raise KeyError(f"no {self.noun} {name!r}")
        _, item = self._items.pop(name)
        self._changed()
        return item

    def page(self, cursor: str | None = None, size: int | None = None) -> Page[T]:
        """Return up to ``size`` items behind ``cursor`` (from the start without one; all without a size).

        A cursor stays good whatever is added or removed meanwhile: nothing that stays is skipped or repeated.
        Raises ``InvalidParams`` for a cursor that this registry cannot have given.
        """
        entries = list(self._items.values())
        start = 0 if cursor is None else bisect_right(entries, self._position(cursor), key=_number)
        chosen = entries[start:] if size is None else entries[start : start + size]
        more = chosen and start + len(chosen) < len(entries)
        return Page(tuple(item for _, item in chosen), f"{self._mark}.{chosen[-1][0]:x}" if more else None)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call ``callback`` after every change; returns a function that ends this."""
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop

    def _position(self, cursor: str) -> int:
        """Read a cursor: opaque to clients, so any that is not exactly as we write it is invalid."""
        kind, _, number = cursor.partition(".")
        if len(cursor) <= _MAX_CURSOR and kind == self._mark and number.isascii() and number.isalnum():
            try:
                position = int(number, 16)
            except ValueError:
                position = -1
            if 0 < position <= self._added and f"{position:x}" == number:
                return position
        raise InvalidParams("Invalid cursor")

    def _changed(self) -> None:
        self.version += 1
        for listener in list(self._listeners):
            listener()


def _number(entry: tuple[int, object]) -> int:
    return entry[0]
