"""What the keys do: each action ends in a decision, or in none.

Owns the order of a decision: what is asked first, and what is reported. ``host.review.decisions`` makes decisions, and
the ``Queue`` accepts them.
"""

from __future__ import annotations

import asyncio
import math
import webbrowser
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeVar

import msgspec
from textual.screen import Screen

from antiphon.cli.screen.dialog import Dialog
from antiphon.cli.screen.drawn.pieces import Piece, blank, quoted
from antiphon.cli.screen.drawn.request import changed, draw
from antiphon.cli.screen.editor import Editor, edit_answer, edit_request
from antiphon.cli.screen.forms import Draft, answering, choosing, denying, filling, granting
from antiphon.cli.screen.key_bindings import Offer
from antiphon.cli.screen.sheet import Sheet
from antiphon.cli.screen.words import Words
from antiphon.host.review.decisions import Form, approval, filled
from antiphon.host.review.diff import differences
from antiphon.host.review.keymap import key_for
from antiphon.host.review.question import Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Queue
from antiphon.host.review.review import Answer, Decision, Deny, Edit, ElicitItem, Reach, Regenerate, ReviewItem, digest
from antiphon.host.review.shown import Shown, shape_of, show
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode
from antiphon.wire.sampling import CreateMessageRequestParams

__all__ = ["Acting", "Stage"]

T = TypeVar("T")
AnyDecision = Decision | ElicitResult
_EDIT = "edited"
"""The field of a draft that holds an edited request."""


class Stage(Protocol):
    """The parts of the screen that decisions need."""

    queue: Queue
    words: Words
    pending: list[Question]
    models: dict[str, str]
    """The model a person has chosen instead, by question."""
    selected: set[str]
    """The questions that were selected, to be denied together."""
    dead: float
    editor: Editor

    def clock(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def say(self, text: str) -> None:
        """Show the person a line of text."""
        ...

    def follow(self, ids: Iterable[str], said: str) -> None:
        """Report later what becomes of these decisions. ``said``: the message about them, which the report follows."""
        ...

    def seen_whole(self) -> bool:
        """Tell whether everything has been visible that a person must see before an approval."""
        ...

    async def ask(self, screen: Screen[T]) -> T | None:
        """Show a dialog over the screen, and wait for its result."""
        ...

    async def open(self, id: str) -> None:
        """Show a question, as it is now."""
        ...

    async def go_on(self, *, decided: bool) -> None:
        """Show the next question, or what has become of this one."""
        ...


class Acting:
    """The actions of the keys of one screen, by their names in the keymap."""

    def __init__(self, stage: Stage, by: str) -> None:
        self._stage = stage
        self._by = by
        """Who decides, for the record."""
        self._hashes: dict[str, str] = {}
        """Hashes of what is drawn, by question; decisions name them."""
        self._undoable: tuple[str, ...] = ()
        """The questions of the last decision."""
        self._acts: Mapping[str, Callable[[Shown, Question], Awaitable[None]]] = {
            "approve": self._approve,
            "second": self._approve_second,
            "edit": self._edit,
            "deny": self._deny,
            "reason": lambda shown, question: self._deny_with_reason(shown, question, "once"),
            "stop": lambda shown, question: self._deny_with_reason(shown, question, "call"),
            "block": lambda shown, question: self._deny_with_reason(shown, question, "server"),
            "cancel": lambda shown, _: self._decide({shown.id: ElicitResult(action="cancel")}, "screen.cancelled"),
            "answer": self._answer,
            "regenerate": self._again,
            "grant": self._grant,
            "model": self._model,
            "alike": self._alike,
            "open": self._open,
        }

    async def act(self, action: str, shown: Shown, question: Question) -> None:
        """Do what a key stands for, on the question that is shown."""
        self._hashes = {shown.id: shown.hash}
        await self._acts[action](shown, question)

    async def undo(self) -> None:
        """Take back the last permission, while it is held."""
        stage, words = self._stage, self._stage.words
        if not self._undoable:
            stage.say(words("undo.none"))
            return
        undone, self._undoable = self._undoable, ()
        try:
            for id in undone:
                await stage.queue.undo(id, by=self._by)
        except (AlreadyDecided, LookupError):
            stage.say(words("undo.late"))
            await stage.go_on(decided=False)
        else:
            stage.say(words("undo.done"))
            await stage.open(undone[0])

    async def deny_selected(self) -> None:
        """Deny the questions that were selected: all or none."""
        stage = self._stage
        chosen = [question for question in stage.pending if question.id in stage.selected]
        if not chosen:
            stage.say(stage.words("mark.none"))
            return
        stage.selected.clear()
        self._hashes = {question.id: question.hash for question in chosen}
        denials: dict[str, AnyDecision] = {question.id: Deny() for question in chosen}
        await self._decide(denials, "done.deny_marked", n=len(chosen))

    async def _approve(self, shown: Shown, question: Question) -> None:
        item = question.item
        if isinstance(item, ElicitItem):
            await self._fill(shown, item)
            return
        model = "" if shown.answer is not None else self._stage.models.get(shown.id, "")
        made = approval(Form([("digest", shown.digest), ("model", model)]), self._stage.clock())
        await self._decide({shown.id: made}, "done.approve")

    async def _approve_second(self, shown: Shown, question: Question) -> None:
        made = approval(Form([("digest", shown.rival_digest)]), self._stage.clock())
        await self._decide({shown.id: made}, "done.approve")

    async def _fill(self, shown: Shown, item: ElicitItem) -> None:
        stage = self._stage
        if not stage.seen_whole():
            stage.say(stage.words("form.read_on"))
            return
        if not shown.fields:
            await self._decide({shown.id: filled(Form([("action", "accept")]), item)}, "done.fill")
            return
        form = filling(item, shown.fields, stage.words, await self._draft(shown))
        if (result := await self._begun(shown, form)) is not None:
            await self._decide({shown.id: result}, "done.fill")

    async def _open(self, shown: Shown, question: Question) -> None:
        """Open an address in the person's browser; this accepts nothing yet."""
        stage = self._stage
        if not stage.seen_whole():
            stage.say(stage.words("form.read_on"))
        elif shown.url is None or not shown.opens or not await asyncio.to_thread(webbrowser.open, shown.url):
            stage.say(stage.words("form.strange"))

    async def _edit(self, shown: Shown, question: Question) -> None:
        item = question.item
        if not isinstance(item, ReviewItem):
            return
        try:
            made = await (self._edited(shown, item) if item.result is None else self._rewritten(shown))
        except ValueError as error:
            self._stage.say(f"{self._stage.words('screen.unchanged')} {error}")
            return
        if made is None:
            self._stage.say(self._stage.words("screen.unchanged"))
        else:
            await self._decide({shown.id: made}, "done.edit" if isinstance(made, Edit) else "done.answer")

    async def _draft(self, shown: Shown) -> Draft:
        return await self._stage.queue.draft(shown.id) or ()

    async def _begun(self, shown: Shown, dialog: Dialog[T]) -> T | None:
        """Show a dialog; if the person goes back, the input is kept for the next time."""
        made = await self._stage.ask(dialog)
        if made is None and dialog.typed:
            begun = {name for name, _ in dialog.typed}
            others = [(name, value) for name, value in await self._draft(shown) if name not in begun]
            await self._stage.queue.keep_draft(shown.id, [*others, *dialog.typed])
        return made

    async def _edited(self, shown: Shown, item: ReviewItem) -> Edit | None:
        """Edit a request until it may be sent, or is given up; the edited text is kept for the next time."""
        params = _kept_edit(await self._draft(shown)) or item.params
        while True:
            params = await edit_request(params, item.params, self._stage.editor)
            if params == item.params:
                return None
            await self._stage.queue.keep_draft(shown.id, [(_EDIT, encode(params).decode())])
            key = await self._preview(changed(differences(item.received, params), self._stage.words), "preview.send")
            if key == "a":
                model = self._stage.models.get(shown.id)
                return Edit(params=params, digest=digest(params), model=model)
            if key != "e":
                return None

    async def _rewritten(self, shown: Shown) -> Answer | None:
        """Edit an answer until it may be sent, or is given up."""
        text = shown.answer_text
        while True:
            text = await edit_answer(text, self._stage.editor)
            if text == shown.answer_text or not text.strip():
                return None
            key = await self._preview([quoted(text)], "rewrite.send")
            if key == "a":
                return Answer(result=text)
            if key != "e":
                return None

    async def _preview(self, pieces: Iterable[Piece], send: str) -> str | None:
        stage, words = self._stage, self._stage.words
        offers = [Offer("a", words(send)), Offer("e", words("screen.edit_on"))]
        return await stage.ask(
            Sheet(words("preview.title"), pieces, offers, back=words("edit.back"), armed="a", dead=stage.dead)
        )

    async def _deny(self, shown: Shown, question: Question) -> None:
        await self._decide({shown.id: Deny()}, "done.deny")

    async def _deny_with_reason(self, shown: Shown, question: Question, reach: Reach) -> None:
        dialog = denying(shown, self._stage.words, reach, await self._draft(shown))
        if (made := await self._begun(shown, dialog)) is not None:
            await self._decide({shown.id: made}, "done.deny")

    async def _answer(self, shown: Shown, question: Question) -> None:
        dialog = answering(shown, self._stage.words, await self._draft(shown))
        if (made := await self._begun(shown, dialog)) is not None:
            await self._decide({shown.id: made}, "done.answer")

    async def _again(self, shown: Shown, question: Question) -> None:
        await self._decide({shown.id: Regenerate(model=self._stage.models.get(shown.id))}, "done.regenerate")

    async def _grant(self, shown: Shown, question: Question) -> None:
        stage = self._stage
        made = await stage.ask(granting(shown, stage.words, stage.clock(), stage.models.get(shown.id)))
        if made is not None:
            await self._decide({shown.id: made}, "done.approve")

    async def _model(self, shown: Shown, question: Question) -> None:
        if not isinstance(question.item, ReviewItem):
            return
        models = self._stage.models
        chosen = await self._stage.ask(choosing(question.item, self._stage.words, models.get(shown.id)))
        if chosen is None:
            return
        models.pop(shown.id, None)
        if chosen:
            models[shown.id] = chosen
        await self._stage.go_on(decided=False)

    async def _alike(self, shown: Shown, question: Question) -> None:
        """Approve the requests with the same server, system prompt and tools: each is shown completely; all or none."""
        stage, words = self._stage, self._stage.words
        shape = shape_of(question)
        alike = [each for each in stage.pending if shape is not None and shape_of(each) == shape]
        pages = [page for each in alike if (page := show(each)) is not None]
        if not pages:
            stage.say(words("alike.none"))
            return
        offers = [Offer("a", words("screen.together", n=len(pages)))]
        sheet = Sheet(
            words("alike.title"), _each(pages, words), offers, back=words("edit.back"), armed="a", dead=stage.dead
        )
        self._hashes |= {page.id: page.hash for page in pages}
        if await stage.ask(sheet) == "a":
            now = stage.clock()
            made = {page.id: approval(Form([("digest", page.digest)]), now) for page in pages}
            await self._decide(made, "done.together")

    async def _decide(self, decisions: Mapping[str, AnyDecision], done: str, **values: object) -> None:
        """Decide all or none, and report the outcome."""
        stage, words = self._stage, self._stage.words
        decided = False
        try:
            await stage.queue.decide_all(decisions, self._hashes, by=self._by)
        except LookupError:
            stage.say(words("problem.gone"))
        except AlreadyDecided as late:
            stage.say(_lateness(late.question, words))
        except Mismatch as mismatch:
            stage.say(f"{words('problem.mismatch')} {mismatch}")
        else:
            decided = True
            said = words(done, **values)
            stage.say(await self._done(list(decisions), said))
            stage.follow(decisions, said)
        await stage.go_on(decided=decided)

    async def _done(self, ids: Sequence[str], done: str) -> str:
        """Report what was done, and for how long it can be undone."""
        self._undoable = ()
        question = await self._stage.queue.get(ids[0])
        if question.state != "held" or question.release is None:
            return done
        self._undoable = tuple(ids)
        key = key_for("undo", "screen").keys[0]
        left = math.ceil(question.release - self._stage.clock())
        return self._stage.words("undo.offer", done=done, press=key, n=left)


def _kept_edit(draft: Draft) -> CreateMessageRequestParams | None:
    kept = dict(draft).get(_EDIT)
    try:
        return None if kept is None else msgspec.json.decode(kept, type=CreateMessageRequestParams)
    except msgspec.MsgspecError:
        return None


def _lateness(question: Question, words: Words) -> str:
    if question.state in ("decided", "done") and question.by:
        return words("problem.late_by", by=question.by)
    return words("problem.late", state=words(f"state.{question.state}"))


def _each(pages: Iterable[Shown], words: Words) -> Iterator[Piece]:
    for page in pages:
        yield from draw(page, words, raw=False)
        yield blank()
