"""``antiphon review`` at a terminal: the questions that wait, live; the person picks one and decides it.

Owns the order of list and decision. ``host.terminal`` shows a question and asks; ``host.review.queue`` accepts what was
decided. The list is drawn again whenever a question changes, in this process or another. Past decisions, grants and
blocked servers are rows of text, the same as on the page.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, TypeVar

import msgspec

from antiphon.cli.commands.review.queue_list import draw_list, explain_lateness, time_left
from antiphon.cli.options import By, user_name
from antiphon.cli.output.formats import format_time, is_interactive
from antiphon.cli.store import StoreOptions, open_chosen_store, ring_for_questions
from antiphon.errors import ConfigError
from antiphon.host.budget import format_dollars
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.given_grants import Given, Grants, approve_covered, find_covered
from antiphon.host.review.history import server_names, sought_by
from antiphon.host.review.keymap import describe_key, keys_on, label_key
from antiphon.host.review.question import Question
from antiphon.host.review.queue import UNDO, AlreadyDecided, Mismatch, NotShown, Queue
from antiphon.host.review.review import Approve
from antiphon.host.review.shown import show_item
from antiphon.host.review.summary import Texts, cut_name, load_texts, outcome_text, terminal_language
from antiphon.host.store.ask_rows import AskRow
from antiphon.host.store.base import BlockRow, Store
from antiphon.host.terminal.console import Console, Layout
from antiphon.host.terminal.forms import open_in_browser
from antiphon.host.terminal.reviewer import PAUSE, Talk
from antiphon.host.terminal.tty import find_terminal, open_terminal
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.web.page_texts import PAGE_WORDS

T = TypeVar("T")

_FEET = 6
"""Rows kept below the list: the number that is not shown, the keys, the last message and the prompt."""
_LAST = 20
"""Asks in the list of what was decided: the rest is found by a search, or by ``antiphon audit``."""
_READING = 1.0
"""Seconds to read records for the history; each look at it reads on."""
_AGAIN = 2.0
"""Seconds until another attempt to read a store that could not be read."""
_LEAST_PAUSE = 0.5
"""Least seconds between two lists, for a queue that changes all the time."""

_DIGITS = 20
"""Characters of an identity that are shown if no name is known, as on the page."""


async def decide_in_terminal(
    *, language: Literal["en", "zh"] | None = None, no_bell: bool = False, by: By = None, where: StoreOptions
) -> None:
    """Show what waits, live, and decide it; usual at a terminal.

    Type the beginning of an ID to see that request, and decide it; only Enter takes the first one. h shows what was
    decided, G your permissions, ? the keys. q leaves; requests that wait keep waiting.

    Usage:
        --language: English or 简体中文; by default that of your terminal.
        --no-bell: Stay silent when something arrives.
    """
    terminal = find_terminal() if is_interactive() else None
    if terminal is None:
        raise ConfigError("there is no terminal to ask you at; antiphon review list writes into a pipe")
    settings = where.settings
    bell = settings.notify.bell and not no_bell
    words = load_texts(terminal_language(language), PAGE_WORDS)
    async with open_chosen_store(where, make=True) as store, ring_for_questions(store, wanted=bell):
        with closing(open_terminal(terminal)) as tty:
            console = Console(tty, color=None, pause=PAUSE, words=words)
            person = ReviewQueue(store, console, words, by=by or user_name() or "terminal")
            person.undo_seconds = settings.review.undo
            person.names = settings.server_names
            await person.run()


class ReviewQueue:
    """The conversation with a person who decides what waits in a store."""

    def __init__(self, store: Store, console: Console, words: Texts, *, by: str) -> None:
        self._store = store
        self._console = console
        self._words = words
        self._by = by
        self.undo_seconds = UNDO
        """Seconds in which a permission can be taken back."""
        self.names: dict[str, str] = {}
        """Names of the configured servers, by identity."""
        self._pending: list[Question] = []
        self._followed: dict[str, None] = {}
        """Questions decided here whose outcome is not known yet."""
        self._undoable: tuple[str, float | None] | None = None
        self._changed = asyncio.Event()
        self._acts: dict[str, Callable[[], Awaitable[None]]] = {
            "undo": self._undo,
            "history": self._show_history,
            "grants": self._show_grants,
            "help": self._show_keys,
        }

    async def run(self) -> None:
        """List and decide until the person leaves."""
        self._queue = Queue(self._store, undo=self.undo_seconds)
        watching = asyncio.create_task(self._watch())
        try:
            while (typed := await self._pick()) is not None:
                action = next((key.action for key in keys_on("queue") if typed == key.keys[0]), None)
                if action == "quit":
                    return
                if action is not None:
                    await self._acts[action]()
                else:
                    await self._decide(typed)
        finally:
            await end_tasks(watching)

    async def _watch(self) -> None:
        from sqlalchemy.exc import SQLAlchemyError

        while True:
            try:
                async for _ in self._queue.changes():
                    self._changed.set()
                    await asyncio.sleep(_LEAST_PAUSE)
            except (OSError, SQLAlchemyError):
                await self._console.say(self._words("queue.store"))
                await asyncio.sleep(_AGAIN)

    async def _pick(self) -> str | None:
        """List what waits, again after each change, until the person has typed a line; ``None`` to leave."""
        while True:
            self._changed.clear()
            await self._report()
            self._pending = await self._queue.pending()
            waiting = max(len(self._pending), await self._queue.waiting())
            await self._console.show(self._rows(waiting))
            typing = self._console.line(self._words("queue.prompt"))
            over, typed = await _run_until(typing, self._changed.wait())
            if over:
                return typed
            await self._console.show([""])

    def _rows(self, waiting: int) -> Iterator[str]:
        """Draw the list, as much of it as the terminal has room for, and the keys."""
        layout, words = self._console.layout, self._words
        yield layout.title(words("queue.waiting", n=waiting) if waiting else words("queue.empty"))
        room = max(4, self._console.tty.rows - _FEET)
        for shown, rows in enumerate(draw_list(self._pending, layout, time.time(), words)):
            if shown and len(rows) > room:
                yield from layout.remark(words("queue.more", n=waiting - shown))
                break
            yield from rows
            room -= len(rows)
        yield "  ".join(f"[{key.keys[0]}] {label_key(key, words)}" for key in keys_on("queue"))

    async def _decide(self, typed: str) -> None:
        """Show the question that was picked, and store what the person decides."""
        known = [each for each in self._pending if typed or each.item is not None]
        found = [each for each in known if each.id.startswith(typed.lower())][: 1 if not typed else 2]
        if len(found) != 1:
            await self._console.say(self._words("queue.unknown"))
            return
        question = found[0]
        if question.item is None:
            await self._console.say(explain_lateness(question))
            return
        item = msgspec.structs.replace(question.item, expires_in=time_left(question, time.time()))
        shown = await asyncio.to_thread(show_item, item, question.kind)
        talk = Talk(self._console, item, shown, self._words, editor=None, opener=open_in_browser)
        over, made = await _run_until(talk.decision(), self._wait_for_end(question.id))
        if not over:
            await self._console.say(self._words("inline.withdrawn"))
            await self._console.arm()
        elif made is not None:
            await self._store_decision(question, made)

    async def _store_decision(self, question: Question, made: Any) -> None:
        decisions, hashes = {question.id: made}, {question.id: question.hash}
        also = find_covered(question, made.scope, self._pending, made.when) if isinstance(made, Approve) else []
        if also and await self._console.agrees(self._words("queue.also", n=len(also))):
            decisions = {**approve_covered(question, made, also)}
            hashes |= {each.id: each.hash for each in also}
        try:
            await self._queue.decide_all(decisions, hashes, by=self._by)
        except (AlreadyDecided, NotShown, LookupError):
            await self._console.say(self._words("queue.late"))
        except Mismatch as error:
            await self._console.say(str(error))
        else:
            self._followed[question.id] = None
            now = await self._queue.get(question.id)
            held = now.state == "held"
            self._undoable = (question.id, now.decided) if held else None
            await self._console.say(self._words("queue.held" if held else "over.decided"))

    async def _wait_for_end(self, id: str) -> None:
        """Wait until a question does not wait for a decision any more."""
        while (await self._queue.get(id)).state == "pending":
            self._changed.clear()
            await self._changed.wait()

    async def _report(self) -> None:
        """Say what became of the decisions that were made here."""
        for id in list(self._followed):
            question = await self._queue.get(id)
            if question.state == "pending":
                del self._followed[id]
            elif question.outcome is not None:
                del self._followed[id]
                await self._console.say(f"{id[:8]}: {outcome_text(question.outcome, self._words)}")

    async def _undo(self) -> None:
        undone, self._undoable = self._undoable, None
        said = "undo.none"
        if undone is not None:
            try:
                await self._queue.undo(undone[0], by=self._by, decided=undone[1])
                said = "undo.done"
            except (AlreadyDecided, LookupError):
                said = "undo.late"
        await self._console.say(self._words(said))

    async def _show_history(self) -> None:
        words, console = self._words, self._console
        sought = await console.line(words("queue.search"))
        end = time.monotonic() + _READING
        while await self._store.gather() and time.monotonic() < end:
            pass
        names = await server_names(self._store, self._queue, self.names)
        found = await self._store.asks(sought_by({"q": sought or ""}, names))
        await console.show([console.layout.title(f"{words('nav.history')} · {words('history.found', n=found.count)}")])
        for row in reversed(found.rows[:_LAST]):
            await console.show(draw_ask(row, names, console.layout, words))
        if found.behind:
            await console.say(words("history.behind", n=found.behind))

    async def _show_grants(self) -> None:
        """List grants and blocked servers, and withdraw the one that the person names."""
        words, console = self._words, self._console
        given: Sequence[Given] = list(await Grants(self._store).all())
        blocks: Sequence[BlockRow] = await self._store.blocks()
        names = await server_names(self._store, self._queue, self.names, [one.grant.identity for one in given])
        await console.show([console.layout.title(words("nav.grants"))])
        if not given and not blocks:
            await console.say(words("grants.none"))
            return
        for number, one in enumerate(given, 1):
            await console.show(draw_grant(one, str(number), names, console.layout, words))
        for number, row in enumerate(blocks, len(given) + 1):
            await console.show(draw_block(row, str(number), console.layout, words))
        typed = await console.line(words("queue.revoke"))
        at = int(typed) - 1 if typed and typed.isdecimal() and len(typed) < 9 else -1
        if 0 <= at < len(given):
            done = await Grants(self._store).revoke(given[at], by=self._by)
            await console.say(words("done.revoke" if done else "problem.no_grant"))
        elif len(given) <= at < len(given) + len(blocks):
            await self._queue.unblock(blocks[at - len(given)].identity, by=self._by)
            await console.say(words("done.unblock"))

    async def _show_keys(self) -> None:
        words = self._words
        rows = [f" {key.keys[0]}  {describe_key(key, words)}" for key in keys_on("queue")]
        await self._console.show([f" {words('queue.pick')}", *rows, f" {words('inline.marks')}"])


async def _run_until(acting: Coroutine[Any, Any, T], ending: Coroutine[Any, Any, object]) -> tuple[bool, T | None]:
    """Run two coroutines until one ends. Returns whether it was the first one, and its result."""
    act, end = asyncio.ensure_future(acting), asyncio.ensure_future(ending)
    try:
        await asyncio.wait({act, end}, return_when=asyncio.FIRST_COMPLETED)
        if act.done():
            return True, act.result()
        end.result()
        return False, None
    finally:
        await end_tasks(act, end)


def draw_ask(row: AskRow, names: Mapping[str, str], layout: Layout, words: Texts) -> Iterator[str]:
    """Draw one ask: time, server and tool; what was decided, the end and the cost; the first words."""
    server = row.server or names.get(row.identity, "") or row.identity[:_DIGITS]
    yield from layout.remark(" · ".join(filter(None, (format_time(row.at), server, cut_name(row.tool)))))
    cost = "" if row.money is None else format_dollars(row.money)
    facts = (_describe_decision(row, words), _describe_ending(row, words), cost)
    said = " · ".join(filter(None, facts))
    yield from layout.labelled("", f"{_translate_word('method', row.method, words)}: {said}")
    yield from layout.quoted(row.words or words("history.not_kept"), 2)


def draw_grant(given: Given, name: str, names: Mapping[str, str], layout: Layout, words: Texts) -> Iterator[str]:
    """Draw a grant: what it allows, on which condition, the server that has it, since when, and its use."""
    grant = given.grant
    yield from layout.labelled(name, _describe_grant(given, words), "1")
    if grant.when is not None:
        yield from layout.quoted(grant.when, 2)
    yield from layout.labelled("", names.get(grant.identity, "") or grant.identity[:_DIGITS])
    like = words("grants.like", n=grant.max_tokens) if grant.tool is None else words("grants.like_call")
    used = words("grants.used_times", n=given.used)
    yield from layout.labelled("", f"{like} {words('grants.given')} {format_time(given.given)} · {used}", "2")


def draw_block(row: BlockRow, name: str, layout: Layout, words: Texts) -> Iterator[str]:
    """Draw a server that is blocked: since when, and by whom."""
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    yield from layout.labelled(name, f"{words('blocked.since')}: {row.target}", "33")
    yield from layout.labelled("", f"{row.identity[:_DIGITS]} · {format_time(row.since)}{by}", "2")


def _describe_grant(given: Given, words: Texts) -> str:
    grant, terms = given.grant, given.grant.terms
    left = None if terms.uses is None else terms.uses - given.used
    kind = "every" if left is None else "next_one" if left == 1 else "next"
    if grant.tool is None:
        parts = [words(f"grants.{kind}", n=left)]
    else:
        said = words(f"grants.{kind}_calls" if kind == "next" else f"grants.{kind}_call", n=left)
        parts = [f"{said} {inert_line(cut_name(grant.tool))}"]
    if terms.money is not None:
        parts.append(words("grants.up_to", money=format_dollars(terms.money, rounding="none")))
    if terms.until is not None:
        parts.append(f"{words('grants.before')} {format_time(terms.until)}")
    return words("grants.comma").join([*parts, words(f"grants.scope.{grant.scope}")])


def _describe_decision(row: AskRow, words: Texts) -> str:
    by = f" {words('history.by_whom', by=row.by)}" if row.by else ""
    reason = f" “{row.reason}”" if row.reason else ""
    return f"{_translate_word('decision', row.decision, words)}{by}{reason}".strip()


def _describe_ending(row: AskRow, words: Texts) -> str:
    said = _translate_word("ending", row.ending, words)
    cause, _, detail = row.outcome.partition(":")
    if row.ending == "refused" and cause != "user":
        return f"{said} {_translate_word('cause', cause, words)}{f' ({detail})' if detail else ''}"
    if row.arrival is not None:
        why = f"became.why.{row.arrival.why}"
        if words.has(why):
            return f"{said} {words('became.late_because', why=words(why))}"
        return f"{said} {words(f'became.{row.arrival.became}')}"
    return f"{said} {row.outcome}" if row.outcome and row.ending not in ("refused", "answered") else said


def _translate_word(kind: str, name: str, words: Texts) -> str:
    """Return a word of a record in the person's language; an unknown word unchanged."""
    key = f"{kind}.{name}"
    return words(key) if name and words.has(key) else name
