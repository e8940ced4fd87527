"""History, grants and spending over the queue: lists to move in, to search, and to open.

Owns the keys of these lists, and when the lists are read again. ``drawn.past`` draws the entries. Nothing here decides
about a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import ClassVar, TypeVar

import msgspec
from textual import events
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from antiphon.cli.screen.drawn import past
from antiphon.cli.screen.drawn.pieces import Piece, blank, ours
from antiphon.cli.screen.forms import searching
from antiphon.cli.screen.key_bindings import ACTIONS, offer
from antiphon.cli.screen.sheet import Sheet, key_line
from antiphon.cli.screen.views import RowsView
from antiphon.cli.screen.watch import readable
from antiphon.cli.screen.words import Words
from antiphon.host.audit.log import Audit
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.grants import Given, Grants
from antiphon.host.review.history import PAGE, server_names, sought_by, told
from antiphon.host.review.queue import Queue
from antiphon.host.review.spending import spending
from antiphon.host.store.asks import AskRow
from antiphon.host.store.base import BlockRow, Store

__all__ = ["GrantList", "HistoryList", "Records"]

T = TypeVar("T")

_PATIENCE = 0.3
"""Seconds for which new records are gathered before a list is shown; the rest is gathered while somebody reads."""
_MOST = 1_000
"""Most asks in one list: beyond that a search is of more use than reading on."""


_STEPS = {"next": 1, "previous": -1}


class Records(msgspec.Struct, frozen=True, kw_only=True):
    """The sources of these lists."""

    store: Store
    queue: Queue
    known: Mapping[str, str]
    """Names of servers that are configured, by identity."""
    clock: Callable[[], float]
    program: App[None]

    async def gather(self) -> int:
        """Let the store gather audit records, for ``_PATIENCE`` seconds. Returns how many are left."""
        loop = asyncio.get_running_loop()
        end = loop.time() + _PATIENCE
        while (left := await self.store.gather()) and loop.time() < end:
            pass
        return left

    async def names(self, identities: Iterable[str] = ()) -> dict[str, str]:
        """Return the targets of servers, by identity; see ``server_names``."""
        return await server_names(self.store, self.queue, self.known, identities)

    async def spent(self, words: Words) -> Sheet:
        """Make the sheet with the spending."""
        await self.gather()
        figures = await spending(self.store, Audit(self.store), self.clock())
        names = await self.names({line.identity for line in figures.lines})
        return Sheet(words("nav.spending"), past.spent(figures, names, words), [], back=words("key.close"), dead=0.0)


class _List(ModalScreen[None]):
    """Entries one below the other, one of them marked."""

    DEFAULT_CSS = """
    _List { align: center middle; }
    _List > Vertical { width: 96%; height: 96%; border: round ansi_default; }
    _List #title { text-style: bold; height: 1; padding: 0 1; }
    _List #notice { height: 1; padding: 0 1; text-style: bold; }
    _List #keys { height: auto; max-height: 2; padding: 0 1; }
    """
    AUTO_FOCUS: ClassVar[str | None] = None
    BINDINGS: ClassVar[list[BindingType]] = []

    def __init__(
        self, records: Records, words: Words, title: str, offers: Sequence[str], load: Callable[[], Awaitable[None]]
    ) -> None:
        """Prepare the list, which ``load`` reads.

        ``offers``: the actions of the keymap that work here, besides moving and going back.
        """
        super().__init__()
        self._load = load
        self.records = records
        self.words = words
        self._title = title
        self._offers = ("next", "previous", *offers, "close")
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {}
        self._starts: list[int] = []
        """The piece with which each entry begins."""
        self._rows = RowsView("listing")
        self.at = 0
        """The entry that is marked."""
        self.busy = False

    def compose(self) -> ComposeResult:
        """Lay out title, entries and keys."""
        with Vertical():
            yield Static(Content(inert_line(self._title)), id="title")
            yield self._rows
            yield Static(Content(""), id="notice")
            yield Static(Content(""), id="keys")

    def on_mount(self) -> None:
        """Read the list."""
        self._rows.focus()
        self.begin(self._load)

    def on_resize(self, event: events.Resize) -> None:
        """Arrange the keys for the width."""
        offers = [offer(action, self.words) for action in self._offers]
        self.query_one("#keys", Static).update(key_line(offers, event.size.width * 96 // 100 - 4))

    def on_key(self, event: events.Key) -> None:
        """Run the action of a key of this list; other keys scroll."""
        key = ACTIONS.get(event.character or event.key) or ACTIONS.get(event.key)
        if key is None or key.action not in self._offers:
            return
        event.stop()
        if key.action == "close":
            self.dismiss(None)
        elif key.action in _STEPS:
            self.say("")
            self.step(_STEPS[key.action])
        else:
            self.begin(self._acts[key.action])

    def begin(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run an action, unless another one is still running."""
        if not self.busy:
            self.busy = True
            self.run_worker(self._done(act))

    async def _done(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await readable(act, lambda: self.say(self.words("screen.store")))
        finally:
            self.busy = False

    def say(self, text: str) -> None:
        """Show the person a line of text."""
        self.query_one("#notice", Static).update(Content(inert_line(text)))

    async def ask(self, screen: Screen[T]) -> T | None:
        """Show a screen over this one, and wait for its result."""
        return await self.records.program.push_screen_wait(screen)

    async def show(self, entries: Iterable[Iterable[Piece]], empty: str, *, keep_place: bool = False) -> None:
        """Show other entries, at the first one or at the present position. ``empty``: the text if there are none."""
        pieces: list[Piece] = []
        self._starts = []
        for entry in entries:
            self._starts.append(len(pieces))
            pieces += [*entry, blank()]
        await self._rows.show(pieces or [ours(empty, "dim")])
        self.at = max(0, min(self.at, len(self._starts) - 1)) if keep_place else 0
        self.mark()

    def mark(self) -> None:
        """Mark the current entry."""
        if self._starts:
            self._rows.mark(self._rows.document.start(self._starts[self.at]))

    def step(self, by: int) -> None:
        """Go to another entry."""
        self.at = max(0, min(self.at + by, len(self._starts) - 1))
        self.mark()


class HistoryList(_List):
    """The history of decisions, the latest first. It can be searched, and each entry can be opened."""

    def __init__(self, records: Records, words: Words) -> None:
        super().__init__(records, words, words("nav.history"), ("show", "filter"), self.load)
        self._acts |= {"show": self._open, "filter": self._search}
        self._fields: dict[str, str] = {}
        self._found: list[AskRow] = []
        self._names: dict[str, str] = {}
        self._count = 0

    async def load(self) -> None:
        """Read the first page of what the filters match."""
        behind = await self.records.gather()
        self._names = await self.records.names()
        self._found = []
        await self._read_on()
        await self._show()
        if behind:
            self.say(self.words("history.behind", n=behind))
            self.set_timer(_PATIENCE, self._gather_on)

    def step(self, by: int) -> None:
        """Go to another entry; below the last one, read the next page."""
        if by < 0 or self.at < len(self._found) - 1 or len(self._found) >= self._count:
            super().step(by)
        elif len(self._found) >= _MOST:
            self.say(self.words("screen.history_long", n=_MOST))
        else:
            self.begin(self._next_page)

    async def _next_page(self) -> None:
        await self._read_on()
        await self._show(keep_place=True)
        super().step(1)

    def _gather_on(self) -> None:
        if self.busy:
            self.set_timer(_PATIENCE, self._gather_on)
        else:
            self.begin(self._refresh)

    async def _refresh(self) -> None:
        """Gather more records, and show new entries if the first entry is still the current one."""
        behind = await self.records.gather()
        if self.at == 0 and len(self._found) <= PAGE:
            self._found = []
            await self._read_on()
            await self._show(keep_place=True)
        self.say(self.words("history.behind", n=behind) if behind else "")
        if behind:
            self.set_timer(_PATIENCE, self._gather_on)

    async def _read_on(self) -> None:
        before = {"before": str(self._found[-1].seq)} if self._found else {}
        found = await self.records.store.asks(sought_by({**self._fields, **before}, self._names))
        self._count = found.count if not self._found else self._count
        self._found += found.rows

    async def _show(self, *, keep_place: bool = False) -> None:
        words = self.words
        limited = " · ".join(value for value in self._fields.values() if value)
        only = f" · {words('filter.on', text=limited)}" if limited else ""
        title = f"{words('nav.history')} · {words('history.found', n=self._count)}{only}"
        self.query_one("#title", Static).update(Content(inert_line(title)))
        entries = (past.row_of(row, self._names, words) for row in self._found)
        await self.show(entries, words("history.none"), keep_place=keep_place)

    async def _open(self) -> None:
        if not self._found:
            return
        row = await self.records.store.ask(self._found[self.at].seq)
        if row is None:
            return
        full = await told(self.records.store, row)
        title = f"{self.words('nav.history')} {row.seq}"
        pieces = await asyncio.to_thread(lambda: list(past.record(full, self._names, self.words)))
        await self.ask(Sheet(title, pieces, [], back=self.words("record.back"), dead=0.0))

    async def _search(self) -> None:
        wanted = await self.ask(searching(self._fields, self.words))
        if wanted is not None:
            self._fields = wanted
            await self.load()


class GrantList(_List):
    """The grants and the blocked servers; each can be withdrawn."""

    def __init__(self, records: Records, words: Words) -> None:
        super().__init__(records, words, words("nav.grants"), ("revoke",), self.load)
        self._acts |= {"revoke": self._revoke}
        self._listed: list[Given | BlockRow] = []

    async def load(self) -> None:
        """Read the grants in force, and the blocks."""
        store, words = self.records.store, self.words
        given: Collection[Given] = await Grants(store).all()
        rows = await store.blocks()
        await self.records.gather()
        names = await self.records.names([each.grant.identity for each in given])
        spent = {one.key.removeprefix("grant:"): one.spent.money for one in await store.balances("grant:")}
        self._listed = [*given, *rows]
        entries = [
            *(past.given(each, spent, names, words) for each in given),
            *(past.blocked(row, words) for row in rows),
        ]
        await self.show(entries, words("grants.none"), keep_place=True)

    async def _revoke(self) -> None:
        if not self._listed:
            return
        store, one = self.records.store, self._listed[self.at]
        if isinstance(one, Given):
            done = "done.revoke" if await Grants(store).revoke(one) else "problem.no_grant"
        else:
            await store.unblock(one.identity)
            done = "done.unblock"
        await self.load()
        self.say(self.words(done))
