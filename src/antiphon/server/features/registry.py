"""What a server offers of one kind, in order of registration: look-up by name, pages, notification of changes.

Generic: knows nothing about tools, resources or prompts. Every method is short and leaves the registry consistent at
every point, so that a tool running in a thread may add another tool. Callbacks of ``on_change`` run in the thread that
made the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

from antiphon.errors import ConfigError, InvalidParams

__all__ = ["Page", "Registry"]

T = TypeVar("T")

_MAX_CURSOR = 32
"""Our cursors have 3 to 21 characters; longer ones are refused unread."""


class Page(NamedTuple, Generic[T]):
    """Some items in order, and the cursor of the next page (``None`` on the last page)."""

    items: tuple[T, ...]
    next_cursor: str | None


class Registry(Generic[T]):
    """Named items in the order they were added.

    Args:
        noun: what an item is called in error messages, such as ``"tool"``.
    """

    def __init__(self, noun: str) -> None:
        self.noun = noun
        self.version = 0
        """Increases with every change, so that values computed from the items can be recognised as stale."""
        # Cursors of different lists differ, so that one cannot be used for another.
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
        """Return the item of this name, or ``None``.

        Args:
            name: name of the item.
        """
        entry = self._items.get(name)
        return None if entry is None else entry[1]

    def names(self) -> list[str]:
        """List all names in order."""
        return list(self._items)

    def add(self, name: str, item: T, *, replace: bool = False) -> None:
        """Add an item after all others.

        Args:
            name: name of the item.
            item: the item.
            replace: let the item take the place of one with the same name.

        Raises:
            ConfigError: the name is taken.
        """
        present = self._items.get(name)
        if present is not None and not replace:
            raise ConfigError(f"{self.noun} {name!r} is there already: choose another name, or remove it first")
        if present is None:
            self._added += 1
        self._items[name] = (self._added if present is None else present[0], item)
        self._changed()

    def remove(self, name: str) -> T:
        """Remove an item and return it.

        Args:
            name: name of the item.

        Raises:
            KeyError: there is no item of this name.
        """
        if name not in self._items:
            raise KeyError(f"no {self.noun} {name!r}")
        _, item = self._items.pop(name)
        self._changed()
        return item

    def page(self, cursor: str | None = None, size: int | None = None) -> Page[T]:
        """Return one page of items. Items added or removed meanwhile cause no other item to be skipped or repeated.

        Args:
            cursor: the cursor of the page; by default the first page.
            size: most items in the page; all by default.

        Raises:
            InvalidParams: this registry cannot have issued the cursor.
        """
        entries = list(self._items.values())
        start = 0 if cursor is None else bisect_right(entries, self._position(cursor), key=_number)
        chosen = entries[start:] if size is None else entries[start : start + size]
        more = chosen and start + len(chosen) < len(entries)
        return Page(tuple(item for _, item in chosen), f"{self._mark}.{chosen[-1][0]:x}" if more else None)

    def on_change(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call a function after every change.

        Args:
            callback: the function, without arguments.

        Returns:
            A function that ends this.
        """
        self._listeners.append(callback)

        def stop() -> None:
            if callback in self._listeners:
                self._listeners.remove(callback)

        return stop

    def _position(self, cursor: str) -> int:
        """Read a cursor. Cursors are opaque to clients, so any that differs from what we write is invalid."""
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
