"""The screen itself: the queue, one request, and the actions, kept up to date while others decide elsewhere.

Owns what is shown, and the position in the queue. ``actions`` decides, ``views`` draws. The shown request stays until
the person moves, so that a key never applies to another request than the one that was read.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
from textual import events
from textual.app import App, ComposeResult
from textual.screen import Screen

from antiphon.cli.screen.actions import Acting
from antiphon.cli.screen.decision_guard import DEAD, Arming
from antiphon.cli.screen.drawn.pieces import Piece, fact, ours
from antiphon.cli.screen.drawn.request import draw, kept_only
from antiphon.cli.screen.editor import Editor, in_editor
from antiphon.cli.screen.forms import filtering
from antiphon.cli.screen.key_bindings import ACTIONS, ARMED, help_lines, offers
from antiphon.cli.screen.panes import Panes
from antiphon.cli.screen.partials import follow_partials, say_watching
from antiphon.cli.screen.records import GrantList, HistoryList, Records
from antiphon.cli.screen.sheet import Sheet, now
from antiphon.cli.screen.views import QueueView
from antiphon.cli.screen.watch import Bell, persisting, readable, watch
from antiphon.cli.screen.words import next_language, words
from antiphon.host.review.partials import Watching
from antiphon.host.review.question import Question
from antiphon.host.review.queue import UNDO, Queue
from antiphon.host.review.rows import ORDERS, Order, arranged, groups_of
from antiphon.host.review.shown import Shown, show
from antiphon.host.review.summary import outcome_text
from antiphon.host.store.base import Store

__all__ = ["ReviewStage", "Setting"]

T = TypeVar("T")


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """The dependencies and settings of the screen."""

    store: Store
    by: str
    """The name of the reviewer, for the record."""
    language: str = "en"
    dead: float = DEAD
    bell: bool = True
    undo: float = UNDO
    """Seconds for which a permission can be taken back before it takes effect."""
    editor: Editor | None = None
    """By default the person's own."""
    clock: Callable[[], float] = time.time
    known: Mapping[str, str] = {}
    """Where each configured server is found, by identity."""


class ReviewStage(Screen[None]):
    """Queue, request and keys."""

    def __init__(self, setting: Setting, program: App[None]) -> None:
        super().__init__()
        self._program = program
        self.queue = Queue(setting.store, clock=setting.clock, undo=setting.undo)
        self.words = words(setting.language)
        self.pending: list[Question] = []
        self.looked = False
        """Whether the queue has been read."""
        self.models: dict[str, str] = {}
        self.selected: set[str] = set()
        self.dead = setting.dead
        self.question: Question | None = None
        self.shown: Shown | None = None
        self.editor = setting.editor or in_editor(program)
        self.arming = Arming(setting.dead)
        self.panes = Panes(setting.clock)
        self._setting = setting
        self._acting = Acting(self, setting.by)
        self._records = Records(
            store=setting.store, queue=self.queue, known=setting.known, clock=setting.clock, program=program
        )
        self._turn = asyncio.Lock()
        """Held while what is shown changes."""
        self._busy = False
        self._raw = False
        self._whole = False
        """Whether long texts are shown completely."""
        self._order: Order = "time"
        self._wanted = ""
        """The text that listed questions must contain."""
        self._followed: dict[str, str] = {}
        """Questions decided here whose outcome is not known yet, each with the message that was shown about it."""
        self._place = 0
        """Position of the question in the queue, also after it is gone."""
        self._bell = Bell(self._ring)
        self._moves = self._movements()

    def _movements(self) -> dict[str, Callable[[], Awaitable[None]]]:
        """Return the actions of the keys that decide nothing about the question that is shown."""
        return {
            "next": lambda: self._move(1),
            "previous": lambda: self._move(-1),
            "risk": self._next_risk,
            "fold": self._toggle_fold,
            "raw": self._toggle_raw,
            "undo": self._acting.undo,
            "mark": self._select,
            "deny_marked": self._acting.deny_selected,
            "filter": self._filter,
            "sort": self._sort,
            "history": lambda: self._past(HistoryList(self._records, self.words)),
            "grants": lambda: self._past(GrantList(self._records, self.words)),
            "spending": self._spending,
            "language": self._change_language,
            "help": self._help,
        }

    def clock(self) -> float:
        """Return the seconds since the epoch."""
        return self._setting.clock()

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield self.panes

    async def on_mount(self) -> None:
        """Start watching the queue."""
        self.panes.rows.focus()
        await self._draw()
        self.set_interval(1.0, self._tick)
        self.run_worker(watch(self.queue, self.look, self._trouble), group="watch")
        watching = Watching(self._setting.store, self.clock)
        for follow in (
            lambda: say_watching(watching),
            lambda: follow_partials(self._setting.store, self.queue, lambda some: self.panes.grow(some, self.words)),
        ):
            self.run_worker(persisting(follow, self._trouble), group="partials")

    def on_resize(self, event: events.Resize) -> None:
        """Adapt to the size of the terminal."""
        self.panes.fit(event.size.width, event.size.height)
        self.call_after_refresh(self._draw_head)

    def say(self, text: str) -> None:
        """Show the person a line of text."""
        self.panes.say(text)

    async def ask(self, screen: Screen[T]) -> T | None:
        """Show a dialog over this, and wait for its result."""
        return await self._program.push_screen_wait(screen)

    async def open(self, id: str) -> None:
        """Show a question, as it is now."""
        async with self._turn:
            await self._open(id)

    async def _open(self, id: str) -> None:
        # Until it is on the screen, no key decides anything about it, or about the previous one.
        self.arming.hide()
        self.shown = None
        self._whole = False
        try:
            self.question = await self.queue.get(id)
        except LookupError:
            self.question = None
        self.panes.queue.choose(id)
        await self._draw()

    async def go_on(self, *, decided: bool) -> None:
        """Show the next question, or what has become of this one."""
        async with self._turn:
            question, ids = self.question, self.panes.queue.ids
            if question is None or not decided:
                await self._look()
                if question is not None:
                    await self._open(question.id)
                return
            at = ids.index(question.id) if question.id in ids else self._place
            self.question = None
            # The one after it, else the one before it.
            await self._look([*ids[at + 1 :], *reversed(ids[:at])])

    def on_key(self, event: events.Key) -> None:
        """Move about, or decide about what is shown."""
        name = event.character or event.key
        key = ACTIONS.get(name)
        if event.key == "enter":
            event.stop()
            self.panes.rows.focus()
        elif key is None or key.action in ("pane", "send", "close", "show", "revoke"):
            # These keys belong to the focused widget.
            return
        elif key.action == "quit":
            event.stop()
            self._program.exit()
        elif key.action in self._moves:
            if event.key not in ("up", "down"):
                event.stop()
                self._begin(self._moves[key.action])
        elif self._may(name, event.time):
            event.stop()
            shown, question = self.shown, self.question
            if shown is not None and question is not None:
                if key.action == "model":
                    self.panes.rows.jump(self.words("model.title"))
                self._begin(lambda: self._acting.act(key.action, shown, question))

    def on_screen_resume(self) -> None:
        """Restart the waiting time for what was hidden behind another screen."""
        self.arming.hide()
        self._arm()

    def on_queue_view_chosen(self, event: QueueView.Chosen) -> None:
        """Show the question that was clicked."""
        self._begin(lambda: self.open(event.chosen))

    def on_queue_view_moved(self, event: QueueView.Moved) -> None:
        """Show the question above or below."""
        self._begin(lambda: self._move(event.by))

    def on_descendant_focus(self, event: events.DescendantFocus) -> None:
        """Show the pane in use if there is room for only one."""
        self.panes.set_class(isinstance(event.widget, QueueView), "on-queue")

    def _may(self, key: str, pressed: float) -> bool:
        offered = self.shown is not None and any(offer.key == key for offer in offers(self.shown, self.words))
        return offered and (self.arming.armed(pressed) if key in ARMED else self.arming.seen(pressed))

    def _begin(self, act: Callable[[], Awaitable[None]]) -> None:
        """Run one action at a time: keys pressed meanwhile were meant for something else, and are dropped."""
        if not self._busy:
            self._busy = True
            self.run_worker(self._done(act), group="act")

    async def _done(self, act: Callable[[], Awaitable[None]]) -> None:
        try:
            await readable(act, self._trouble)
        finally:
            self._busy = False

    async def _move(self, by: int) -> None:
        self.say("")
        ids = self.panes.queue.ids
        if not ids:
            return
        current = "" if self.question is None else self.question.id
        # The position of a question that is gone is now that of the one after it.
        at = ids.index(current) + by if current in ids else self._place + min(by, 0)
        await self.open(ids[max(0, min(at, len(ids) - 1))])

    async def _toggle_raw(self) -> None:
        self._raw = not self._raw
        async with self._turn:
            await self._draw(keep_place=True)
        if self._raw:
            self.panes.rows.jump(self.words("raw.title"))

    async def _toggle_fold(self) -> None:
        self._whole = not self._whole
        async with self._turn:
            await self._draw(keep_place=True)

    async def _next_risk(self) -> None:
        """Mark the next place that needs a closer look; unfold the texts first, since folded ones may hide some."""
        rows = self.panes.rows
        if not self._whole:
            await self._toggle_fold()
        places = rows.document.places()
        if not places:
            self.say(self.words("risk.no_place"))
            return
        at = next((number for number, row in enumerate(places) if row > rows.marked), 0)
        rows.mark(places[at])
        self.say(self.words("risk.place", n=at + 1, total=len(places)))

    async def _select(self) -> None:
        if self.question is not None and self.question.state == "pending":
            self.selected ^= {self.question.id}
            self.panes.queue.select(self.selected)
            await self._move(1)

    async def _filter(self) -> None:
        wanted = await self.ask(filtering(self._wanted, self.words))
        if wanted is not None:
            self._wanted = wanted
            await self.look()

    async def _sort(self) -> None:
        self._order = ORDERS[(ORDERS.index(self._order) + 1) % len(ORDERS)]
        await self.look()
        self.say(self.words(f"sort.{self._order}"))

    def follow(self, ids: Iterable[str], said: str) -> None:
        """Report later what becomes of these decisions. ``said``: the message about them, which the report follows."""
        self._followed.update(dict.fromkeys(ids, said))

    def seen_whole(self) -> bool:
        """Tell whether everything has been visible that a person must see before an approval."""
        return self.panes.rows.seen_to >= self.panes.rows.document.end()

    async def _follow(self) -> None:
        for id, said in list(self._followed.items()):
            try:
                question = await self.queue.get(id)
            except LookupError:
                self._followed.pop(id, None)
                continue
            if question.outcome is not None:
                self._followed.pop(id, None)
                self.say(f"{said} {outcome_text(question.outcome, self.words)}")
            elif question.state == "pending":
                # It was taken back.
                self._followed.pop(id, None)

    async def _change_language(self) -> None:
        self.words = words(next_language(self.words.language))
        self.say("")
        async with self._turn:
            await self._look()
            await self._draw(keep_place=True)

    async def _past(self, listing: Screen[None]) -> None:
        await self.ask(listing)

    async def _spending(self) -> None:
        await self.ask(await self._records.spent(self.words))

    async def _help(self) -> None:
        pieces = [fact(offer.key, offer.label) for offer in help_lines(self.words)]
        pieces.append(ours(self.words("screen.marks"), "dim"))
        await self.ask(Sheet(self.words("help.title"), pieces, [], back=self.words("help.close"), dead=0.0))

    async def look(self) -> None:
        """Read the queue, and what has become of the question that is shown."""
        async with self._turn:
            await self._look()

    async def _look(self, wanted: Sequence[str] = ()) -> None:
        """Read the queue; if no question is shown, show the first of ``wanted`` that waits, else the first of all."""
        self.pending = await self.queue.pending()
        self.looked = True
        waiting = {question.id for question in self.pending}
        self._bell.hear(waiting)
        self.selected &= waiting
        groups = arranged(groups_of(self.pending), self._order, self._wanted)
        self.panes.list(groups, len(waiting), self.words, only=self._wanted)
        self.panes.queue.select(self.selected)
        await self._follow()
        question = self.question
        if question is None:
            following = next((id for id in (*wanted, *self.panes.queue.ids) if id in waiting), None)
            if following is None:
                await self._draw()
            else:
                await self._open(following)
        elif question.id in waiting:
            ids = self.panes.queue.ids
            self._place = ids.index(question.id) if question.id in ids else 0
            self.panes.queue.choose(question.id)
            now_asked = next(each for each in self.pending if each.id == question.id)
            if self.shown is None or self.shown.hash != now_asked.hash:
                # The store could not be read before, or the question has other content now.
                await self._open(question.id)
        elif question.state == "pending":
            await self._open(question.id)

    def _ring(self) -> None:
        if self._setting.bell:
            self._program.bell()

    def _trouble(self) -> None:
        self.say(self.words("screen.store"))

    def _tick(self) -> None:
        self.panes.queue.refresh()
        self._draw_head()
        if any(question.expires is not None and question.expires <= self.clock() for question in self.pending):
            self.run_worker(readable(self.look, self._trouble), group="tick", exclusive=True)

    async def _draw(self, *, keep_place: bool = False) -> None:
        # Beside the event loop: a request may be megabytes.
        shown, pieces = await asyncio.to_thread(self._drawn, self.question)
        await self.panes.rows.show(pieces, keep_place=keep_place)
        self.shown = shown
        self._draw_head()
        self._arm()

    def _drawn(self, question: Question | None) -> tuple[Shown | None, list[Piece]]:
        if question is None:
            return None, [ours(self.words("queue.empty_long"), "dim")] if self.looked else []
        shown = show(question)
        if shown is None:
            return None, list(kept_only(question, self.words))
        model = self.models.get(shown.id)
        return shown, list(draw(shown, self.words, raw=self._raw, model=model, whole=self._whole))

    def _arm(self) -> None:
        """Allow approval of what is shown, a moment after it has become visible."""
        if self.question is not None and self.question.state == "pending":
            self.call_after_refresh(self._armed, self.question.id)

    def _armed(self, id: str) -> None:
        if self.is_active and self.shown is not None and self.shown.id == id:
            self.arming.shown(now())
            self._draw_head()
            if self.dead:
                self.set_timer(self.dead, self._draw_head)

    def _draw_head(self) -> None:
        dead = () if self.arming.armed(now()) else ARMED
        self.panes.head(self.question, self.shown, self.clock(), self.words, dead=dead)
