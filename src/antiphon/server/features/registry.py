"""What a server offers of one kind, in order of registration: look-up by name, pages, notification of changes.

A registry can *include* another one: it then always holds the same items as the other, under names of its own. So a
mounted server's features are found in one look-up, however many servers are mounted.

Generic: knows nothing about tools, resources or prompts. Every method is short and leaves the registry consistent at
every point, so that a tool running in a thread may add another tool. Callbacks of ``on_change`` run in the thread that
made the change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator
from operator import itemgetter
from threading import Lock
from typing import Any, Generic, NamedTuple, TypeVar

from msgspec import Struct

from antiphon.errors import ConfigError, InvalidParams

T = TypeVar("T")

_MAX_CURSOR = 32
"""Our cursors have 3 to 21 characters; longer ones are refused unread."""


class Page(NamedTuple, Generic[T]):
    """Some items in order, and the cursor of the next page (``None`` on the last page)."""

    items: tuple[T, ...]
    next_cursor: str | None


class Via(NamedTuple):
    """How an item came into a registry that includes the one it was added to."""

    mount: Any
    """The ``Mount``; typed by ``mounts``, since features know nothing of servers."""
    name: str
    """The item's name, or URI, on the mounted server."""


class _Inclusion(Struct, Generic[T], eq=False):
    """One registry that includes another. See ``Registry.include_in`` for the arguments."""

    _into: Registry[T]
    server: str
    _rename: Callable[[str], str]
    _make: Callable[[T, str], T]
    _held: dict[str, T] = {}

    def check(self, name: str) -> None:
        """Raise ``ConfigError``, which names both servers, if the name of an item is taken here."""
        here = self._rename(name)
        if name not in self._held:
            self._into.check_free(here, f"the server {self.server!r}")

    def put(self, name: str, item: T) -> None:
        """Include an item that was checked."""
        here = self._rename(name)
        made = self._held[name] = self._make(item, here)
        self._into.put(here, made, self.server)

    def remove(self, name: str) -> None:
        """Remove an item, unless something else has its name by now."""
        here, made = self._rename(name), self._held.pop(name, None)
        if made is not None and self._into.get(here) is made:
            self._into.remove(here)


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
        self._lock = Lock()
        self._listeners: list[Callable[[], None]] = []
        self._inclusions: list[_Inclusion[T]] = []
        """The registries that include this one."""
        self._servers: dict[str, str] = {}
        """The servers that included items come from, by the items' names here."""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        # From a copy, since another thread may add items meanwhile.
        return iter([item for _, item in list(self._items.values())])

    def __contains__(self, name: object) -> bool:
        return name in self._items

    def get(self, name: str) -> T | None:
        """Return the item of this name, or ``None``.

        Args:
            name: name of the item.
        """
        return self._items.get(name, (0, None))[1]

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
        if not replace:
            self.check_free(name)
        for inclusion in self._inclusions:
            inclusion.check(name)
        self.put(name, item)

    def check_free(self, name: str, wanted_by: str | None = None) -> None:
        """Check that a name can be added, here and wherever this registry is included.

        Args:
            name: the name.
            wanted_by: which server wants the name, for the message; by default this one.

        Raises:
            ConfigError: it is taken; the message names the server that has it, and the server that wants it.
        """
        if name in self._items:
            raise ConfigError(self._taken(name, wanted_by))
        if wanted_by is not None:
            for inclusion in self._inclusions:
                inclusion.check(name)

    def _taken(self, name: str, wanted_by: str | None) -> str:
        server = self._servers.get(name)
        if server is None and wanted_by is None:
            return f"{self.noun} {name!r} is there already: choose another name, or remove it first"
        has = f"the server {server!r}" if server is not None else "the server that it would be mounted on"
        wants = wanted_by or "this server"
        return f"{self.noun} {name!r} is there already: {has} has it, and {wants} has one of that name, too"

    def put(self, name: str, item: T, server: str | None = None) -> None:
        """Add an item that was checked, or replace one.

        Args:
            name: name of the item.
            item: the item.
            server: the mounted server that it comes from; none by default.
        """
        with self._lock:
            present = self._items.get(name)
            if present is None:
                self._added += 1
            self._items[name] = (self._added if present is None else present[0], item)
        if server is not None:
            self._servers[name] = server
        else:
            self._servers.pop(name, None)
        for inclusion in self._inclusions:
            inclusion.put(name, item)
        self._changed()

    def include_in(
        self, into: Registry[T], *, server: str, rename: Callable[[str], str], make: Callable[[T, str], T]
    ) -> Callable[[], None]:
        """Check that another registry has free names for all items, and return a function that includes them there.

        Args:
            into: the other registry.
            server: name of the server that the items come from, for messages.
            rename: returns the name of an item there, given its name here; raises ``ConfigError`` if it has none.
            make: returns the item as it is held there, given the item and its name there.

        Returns:
            A function that includes the items; from then on the other registry follows all changes of this one.

        Raises:
            ConfigError: a name is taken there; the message names both servers.
        """
        inclusion = _Inclusion(into, server, rename, make)
        for name in list(self._items):
            inclusion.check(name)

        def include() -> None:
            self._inclusions.append(inclusion)
            for name, (_, item) in list(self._items.items()):
                inclusion.put(name, item)

        return include

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
        self._servers.pop(name, None)
        for inclusion in self._inclusions:
            inclusion.remove(name)
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
        # Clients in Go write an empty cursor for none.
        start = 0 if not cursor else bisect_right(entries, self._position(cursor), key=itemgetter(0))
        chosen = entries[start:] if size is None else entries[start : start + size]
        more = chosen and start + len(chosen) < len(entries)
        return Page(tuple(item for _, item in chosen), f"{self._mark}.{chosen[-1][0]:x}" if more else None)

    def on_change(self, callback: Callable[[], None]) -> None:
        """Call a function after every change.

        Args:
            callback: the function, without arguments.
        """
        self._listeners.append(callback)

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
        with self._lock:
            self.version += 1
        for listener in list(self._listeners):
            listener()
