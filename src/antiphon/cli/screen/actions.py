"""What the keys do: each ends in a decision, or in none.

Owns the order of a decision: what is asked first, who is told what. Which decisions there are is the page's
``deciding``, whether one counts the ``Queue``'s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Protocol, TypeVar

from textual.screen import Screen

from antiphon.cli.screen.editor import Editor, edit_answer, edit_request
from antiphon.cli.screen.forms import answering, choosing, denying, filling, granting
from antiphon.cli.screen.keys import Offer
from antiphon.cli.screen.pieces import Piece, blank, quoted
from antiphon.cli.screen.request import changed, draw
from antiphon.cli.screen.sheet import Sheet
from antiphon.cli.screen.words import Words
from antiphon.host.review.decisions import Form, approval, filled
from antiphon.host.review.diff import differences
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Question, Queue
from antiphon.host.review.review import Answer, Decision, Deny, Edit, ElicitItem, Reach, Regenerate, ReviewItem, digest
from antiphon.host.review.shown import Shown, shape_of, show
from antiphon.wire.elicitation import ElicitResult

__all__ = ["Acting", "Stage"]

T = TypeVar("T")
AnyDecision = Decision | ElicitResult


class Stage(Protocol):
    """The screen, as far as decisions need it."""

    queue: Queue
    words: Words
    pending: list[Question]
    models: dict[str, str]
    """The model a person has chosen instead, by question."""
    dead: float
    editor: Editor

    def clock(self) -> float:
        """Return the seconds since the epoch."""
        ...

    def say(self, text: str) -> None:
        """Tell the person something, in one line."""
        ...

    async def ask(self, screen: Screen[T]) -> T | None:
        """Show something over the screen, and wait for its end."""
        ...

    async def go_on(self, *, decided: bool) -> None:
        """Show the next question, or what has become of this one."""
        ...


class Acting:
    """The keys of one screen."""

    def __init__(self, stage: Stage, by: str) -> None:
        self._stage = stage
        self._by = by
        self._hashes: dict[str, str] = {}
        """Of what is drawn, by question: decisions name them."""
        """Who decides, for the record."""
        self._acts: Mapping[str, Callable[[Shown, Question], Awaitable[None]]] = {
            "a": self._approve,
            "e": self._edit,
            "d": self._deny,
            "r": lambda shown, _: self._deny_with_reason(shown, "once"),
            "s": lambda shown, _: self._deny_with_reason(shown, "call"),
            "b": lambda shown, _: self._deny_with_reason(shown, "server"),
            "c": lambda shown, _: self._decide({shown.id: ElicitResult(action="cancel")}, "screen.cancelled"),
            "w": self._answer,
            "n": self._again,
            "g": self._grant,
            "m": self._model,
            "A": self._alike,
        }

    async def act(self, key: str, shown: Shown, question: Question) -> None:
        """Do what a key stands for, about what is shown."""
        self._hashes = {shown.id: shown.hash}
        await self._acts[key](shown, question)

    async def _approve(self, shown: Shown, question: Question) -> None:
        item = question.item
        if isinstance(item, ElicitItem):
            result = (
                await self._stage.ask(filling(item, shown.fields, self._stage.words))
                if shown.fields
                else filled(Form([("action", "accept")]), item)
            )
            if result is not None:
                await self._decide({shown.id: result}, "done.fill")
            return
        model = "" if shown.answer is not None else self._stage.models.get(shown.id, "")
        made = approval(Form([("digest", shown.digest), ("model", model)]), self._stage.clock())
        await self._decide({shown.id: made}, "done.approve")

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

    async def _edited(self, shown: Shown, item: ReviewItem) -> Edit | None:
        """Edit a request until it may be sent, or is given up."""
        params = item.params
        while True:
            params = await edit_request(params, item.params, self._stage.editor)
            if params == item.params:
                return None
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
        is_form = isinstance(question.item, ElicitItem)
        await self._decide({shown.id: ElicitResult(action="decline") if is_form else Deny()}, "done.deny")

    async def _deny_with_reason(self, shown: Shown, reach: Reach) -> None:
        made = await self._stage.ask(denying(shown, self._stage.words, reach))
        if made is not None:
            await self._decide({shown.id: made}, "done.deny")

    async def _answer(self, shown: Shown, question: Question) -> None:
        made = await self._stage.ask(answering(shown, self._stage.words))
        if made is not None:
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
        """Approve the requests with the same server, system prompt and tools: each is shown whole, all or none."""
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

    async def _decide(self, decisions: Mapping[str, AnyDecision], done: str) -> None:
        """Decide all or none, and say what came of it."""
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
            stage.say(words(done))
        await stage.go_on(decided=decided)


def _lateness(question: Question, words: Words) -> str:
    if question.state in ("decided", "done") and question.by:
        return words("problem.late_by", by=question.by)
    return words("problem.late", state=words(f"state.{question.state}"))


def _each(pages: Iterable[Shown], words: Words) -> Iterator[Piece]:
    for page in pages:
        yield from draw(page, words, raw=False)
        yield blank()
