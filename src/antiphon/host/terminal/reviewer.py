"""``TerminalReviewer``: one request at a time, shown completely, decided by the person at the terminal.

Owns the order of the conversation. ``request_text`` shows the content, ``console`` asks the person.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Sequence

import msgspec

from antiphon.host.budget import format_dollars
from antiphon.host.checks.labels import LABELS, Label
from antiphon.host.checks.visible import inert_line
from antiphon.host.review import review
from antiphon.host.review.decisions import list_rule_words, read_likenesses, write_condition
from antiphon.host.review.keymap import Key, describe_key, find_subject, key_for, label_key, list_offered_keys
from antiphon.host.review.question import AnyDecision, AnyItem, Outcome
from antiphon.host.review.queue import UNDO
from antiphon.host.review.shown import Shown, show_item
from antiphon.host.review.summary import Texts, headline_of, load_texts, outcome_text, terminal_language, who_of
from antiphon.host.store.base import ReviewKind
from antiphon.host.terminal import forms
from antiphon.host.terminal.console import Console, Layout, fold_rows
from antiphon.host.terminal.request_text import show_elicitation, show_request, show_result, show_tool
from antiphon.host.terminal.tty import Tty, find_terminal, open_terminal, reads_keys
from antiphon.wire.content import TextContent
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.origin import Origin

PAUSE = 0.4
"""Seconds during which a request that was just shown cannot be decided."""

_LONG = 200_000
"""Most characters of a question that is drawn in the event loop, which takes some milliseconds."""
_FOLLOWED = 100
"""Most answers whose end is not known yet and will be reported; the oldest are dropped."""
_SCOPES: dict[str, review.Scope] = {"1": "call", "2": "session", "3": "always"}
_TEMPLATES = ("scope", "secret", "cost", "unclear")


class TerminalReviewer:
    """Asks the person at the terminal. Needs a terminal; ``available`` says whether there is one."""

    def __init__(
        self,
        *,
        terminal: str | None = None,
        editor: str | None = None,
        color: bool | None = None,
        pause: float = PAUSE,
        opener: forms.Opener | None = None,
        undo: float = UNDO,
        language: str | None = None,
    ) -> None:
        """Choose the parts; each has a default that suits a person.

        ``terminal`` is the path of a terminal device, ``editor`` a command, ``color=None`` decides by the environment,
        ``pause`` is in seconds, ``opener`` opens an address in a browser. ``undo``: seconds in which a permission can
        be taken back, at most a quarter of the time there is. ``language``: ``"en"`` or ``"zh"``; by default that of
        the terminal's locale.
        """
        self._terminal = terminal
        self._editor = editor
        self._color = color
        self._pause = pause
        self._opener = opener or forms.open_in_browser
        self._undo = undo
        self._words = load_texts(terminal_language(language))
        self._turn = asyncio.Lock()
        self._followed: deque[str] = deque(maxlen=_FOLLOWED)
        self._news: deque[str] = deque(maxlen=_FOLLOWED)
        self._waiting = 0

    @property
    def available(self) -> bool:
        """Whether a person can be asked now."""
        return self.obstacle is None

    @property
    def obstacle(self) -> str | None:
        """Why no person can be asked now; ``None`` if one can."""
        path = self._path()
        if path is None:
            return "there is no terminal here"
        return "a full-screen program uses this terminal" if reads_keys(path) else None

    async def review(self, item: review.ReviewItem) -> review.Decision:
        """Show a request, or an answer if ``item.result`` is set; wait for the decision, or raise ``NoReviewer``."""
        return _get_decision(await self._talk(item, "request" if item.result is None else "response"))

    async def confirm(self, item: review.ToolItem) -> review.Decision:
        """Show the call of a tool; wait for the decision, or raise ``NoReviewer``."""
        return _get_decision(await self._talk(item, "tool"))

    async def elicit(self, item: review.ElicitItem) -> ElicitResult | review.Filled | review.Deny:
        """Let the person fill in a form, accept an address, or refuse; raise ``NoReviewer`` without a terminal."""
        made = await self._talk(item, "elicitation")
        return made if isinstance(made, ElicitResult | review.Filled | review.Deny) else review.Deny()

    def handed_over(self, origin: Origin, why: str | None) -> None:
        """Report what became of an answer that the person allowed; after the question, if one is being asked now."""
        if origin.id not in self._followed:
            return
        self._followed.remove(origin.id)
        outcome = Outcome(became="handed-over") if why is None else Outcome(became="late", why=why)
        self._news.append(f"{headline_of(who_of(origin), None, self._words)}: {outcome_text(outcome, self._words)}")
        path = self._path()
        if path is None or not self.available or self._turn.locked():
            return
        with contextlib.suppress(review.NoReviewer), contextlib.closing(open_terminal(path)) as tty:
            self._tell(tty)

    def _tell(self, tty: Tty) -> None:
        layout = Layout(columns=tty.columns)
        while self._news:
            tty.write_now("".join(f"{row}\n" for row in layout.remark(self._news.popleft())))

    async def _talk(self, item: AnyItem, kind: ReviewKind) -> AnyDecision | review.Filled:
        undone: list[str] = []
        async with self._conversation(item.expires_in) as console:
            shown = await asyncio.to_thread(show_item, item, kind) if _is_long(item) else show_item(item, kind)
            talk = Talk(console, item, shown, self._words, editor=self._editor, opener=self._opener)
            while True:
                made = await talk.decision()
                if made is None:
                    # A person who left allows nothing.
                    made = ElicitResult(action="cancel") if isinstance(item, review.ElicitItem) else review.Deny()
                seconds = self._undo if item.expires_in is None else min(self._undo, item.expires_in / 4)
                if review.is_refusal(made) or isinstance(made, review.Regenerate):
                    return _add_undone(undone, made)
                undo = key_for("undo", "inline").keys[0]
                prompt = self._words("inline.undo", press=undo, n=math.ceil(seconds))
                if seconds <= 0 or await console.ask_within(prompt, seconds) != undo:
                    if item.origin.id not in self._followed:
                        self._followed.append(item.origin.id)
                    return _add_undone(undone, made)
                undone.append(review.name_of(made))

    def _path(self) -> str | None:
        return self._terminal or find_terminal()

    @contextlib.asynccontextmanager
    async def _conversation(self, expires_in: float | None) -> AsyncGenerator[Console, None]:
        """Wait for our turn and open the terminal; report it if the question is withdrawn before it was answered."""
        loop = asyncio.get_running_loop()
        # The clock of the caller began a little earlier, so a question that ends in its last second has expired.
        deadline = None if expires_in is None else loop.time() + expires_in - min(1.0, expires_in / 2)
        self._waiting += 1
        try:
            async with self._turn:
                path, obstacle = self._path(), self.obstacle
                if path is None or obstacle is not None:
                    raise review.NoReviewer(obstacle)
                with contextlib.closing(open_terminal(path)) as tty:
                    try:
                        await tty.write("\n")
                        yield Console(
                            tty,
                            color=self._color,
                            pause=self._pause,
                            waiting=lambda: self._waiting - 1,
                            words=self._words,
                        )
                    except asyncio.CancelledError:
                        expired = deadline is not None and loop.time() >= deadline
                        over = self._words("inline.expired" if expired else "inline.withdrawn")
                        tty.write_now(f"\r\x1b[K ▪ {over}\n")
                        raise
                    finally:
                        self._tell(tty)
        finally:
            self._waiting -= 1


class Talk:
    """The conversation with the person about one question. ``shown`` is ``item`` as it is shown."""

    def __init__(
        self, console: Console, item: AnyItem, shown: Shown, words: Texts, *, editor: str | None, opener: forms.Opener
    ) -> None:
        self._console = console
        self._item = item
        self._shown = shown
        self._words = words
        self._editor = editor
        self._opener = opener
        self._params = item.params if isinstance(item, review.ReviewItem) else None
        self._model = item.model if isinstance(item, review.ReviewItem) else None
        self._drawn = False
        self._folded = False

    async def decision(self) -> AnyDecision | None:
        """Show the question, and ask until it is decided; ``None`` if the person left without a decision."""
        console = self._console
        if not self._drawn:
            self._drawn = True
            await self._draw(whole=False)
            await console.arm()
            if self._shown.url is not None and not await forms.read_address(console, self._shown.url, self._words):
                return None
        acts: dict[str, Callable[[], Awaitable[AnyDecision | None]]] = {
            "approve": self._approve,
            "edit": self._edit_or_rewrite,
            "deny": lambda: self._deny("once", with_reason=False),
            "reason": lambda: self._deny("once"),
            "stop": lambda: self._deny("call"),
            "block": lambda: self._deny("server"),
            "answer": self._answer,
            "regenerate": self._again,
            "grant": self._grant,
            "cancel": self._cancel,
            "model": self._choose_model,
            "open": lambda: forms.open_address(console, self._shown.url or "", self._opener, self._words),
            "fold": lambda: self._draw(whole=True),
            "raw": lambda: self._console.show(self._console.layout.quoted(self._shown.raw)),
            "help": self._help,
        }
        while True:
            keys = self._keys()
            about = find_subject(self._shown)
            folded = {key.keys[0] for key, _ in keys if about in key.permits} if self._folded else set[str]()
            typed = await console.choose({key.keys[0]: said for key, said in keys}, folded)
            if typed is None:
                return None
            action = next(key.action for key, _ in keys if key.keys[0] == typed)
            made = await acts[action]()
            if made is not None:
                return made

    def _keys(self) -> list[tuple[Key, str]]:
        """List the keys that can be used now, each with its label."""
        words, about = self._words, find_subject(self._shown)
        # A grant covers what the server sends, which is not what was approved.
        lacking = {"grant"} if self._edit_request else set[str]()
        if self._shown.url is not None and not forms.may_open(self._shown.url):
            lacking.add("open")
        keys = [key for key in list_offered_keys(self._shown, "inline") if key.action not in lacking]
        further = ("fold", "raw", "help") if self._folded else ("raw", "help")
        keys += [key_for(action, "inline") for action in further]
        said = {key.action: label_key(key, words, about) for key in keys}
        if self._edit_request:
            said["approve"] = words("preview.send")
        item = self._item
        if isinstance(item, review.ReviewItem) and "model" in said:
            said["model"] = words("inline.instead", label=said["model"], model=inert_line(self._model or item.provider))
        return [(key, said[key.action]) for key in keys]

    @property
    def _edit_request(self) -> bool:
        return isinstance(self._item, review.ReviewItem) and self._params is not self._item.params

    async def _draw(self, *, whole: bool) -> None:
        """Show the question; if it does not fit the terminal, long texts are folded first."""
        console, words = self._console, self._words
        layout = console.layout
        if not whole:
            layout = fold_rows(console, self._rows, words("fold.inline", press=key_for("fold", "inline").keys[0]))
        self._folded = layout.fold > 0
        await console.show(self._rows(layout))

    def _rows(self, layout: Layout) -> Iterator[str]:
        item, words = self._item, self._words
        if isinstance(item, review.ToolItem):
            return show_tool(item, layout, words)
        if isinstance(item, review.ElicitItem):
            return show_elicitation(item, layout, words)
        if item.result is not None:
            return show_result(item, item.result, layout, words)
        return show_request(self._as_it_would_be_sent(item), layout, words)

    def _as_it_would_be_sent(self, item: review.ReviewItem) -> review.ReviewItem:
        """Return the request as the person changed it: the text, the model, and the most that it then costs."""
        params, costs = self._params or item.params, item.costs
        most = review.most_of(item, self._model, params if self._edit_request else None)
        if costs is not None and most is not None:
            costs = msgspec.structs.replace(costs, worst=msgspec.structs.replace(costs.worst, money=most))
        return msgspec.structs.replace(item, params=params, model=self._model, costs=costs)

    async def _approve(self) -> AnyDecision | None:
        item = self._item
        if isinstance(item, review.ElicitItem):
            if item.params.mode == "url":
                return ElicitResult(action="accept")
            return await forms.fill_in(self._console, item.params, self._words)
        if isinstance(item, review.ToolItem) and item.labels is not None:
            return await self._approve_with_labels(item.labels)
        return self._approval("once", None)

    async def _approve_with_labels(self, labels: tuple[Label, ...]) -> review.Decision | None:
        """Let the person check the labels of a tool that is used the first time."""
        console, words = self._console, self._words
        await console.show(f" {label[0]}  {words(f'label.{label}')}" for label in LABELS)
        typed = await console.line(words("inline.labels", now="".join(label[0] for label in labels) or "-"))
        if typed is None or set(typed) - set("puo-"):
            await console.say(words("inline.unchanged"))
            return None
        chosen: tuple[Label, ...] = tuple(label for label in LABELS if label[0] in typed) if typed else labels
        return review.Approve(digest=self._shown.digest, labels=chosen)

    def _approval(self, scope: review.Scope, terms: review.Terms | None) -> review.Decision:
        if self._edit_request and self._params is not None:
            return review.Edit(params=self._params, digest=review.digest(self._params), model=self._other_model())
        return review.Approve(digest=self._shown.digest, scope=scope, terms=terms, model=self._other_model())

    async def _grant(self) -> review.Decision | None:
        console, words = self._console, self._words
        scopes: dict[str, review.Scope] = {at: each for at, each in _SCOPES.items() if each in self._shown.scopes}
        named = ", ".join(f"{number} {words(f'scope.{scope}')}" for number, scope in scopes.items())
        item = self._item if "always" in self._shown.scopes and isinstance(self._item, review.ToolItem) else None
        named += "" if item is None else f", 4 {words('inline.like')}"
        typed = await console.line(words("inline.scope", choices=named)) or ""
        if item is not None and typed == "4":
            return await self._grant_like(item)
        scope = scopes.get(typed)
        if scope is None:
            await console.say(words("inline.unchanged"))
            return None
        if scope == "always" and self._shown.who.kind == "command":
            await console.say(words("grant.script"))
        usual = review.usual_terms(self._item)
        at_most = "inline.uses" if usual.money is None else "inline.uses_and_cost"
        money = "" if usual.money is None else format_dollars(usual.money, rounding="none")
        typed = await console.line(words(at_most, n=usual.uses, money=money))
        if typed is None or (typed not in ("", "-") and not (typed.isdecimal() and int(typed[:9]) > 0)):
            await console.say(words("problem.number"))
            return None
        if typed == "-":
            return self._approval(scope, review.UNBOUNDED)
        return self._approval(scope, msgspec.structs.replace(usual, uses=int(typed[:9])) if typed else usual)

    async def _grant_like(self, item: review.ToolItem) -> review.Decision | None:
        """Show the rule for calls with the same arguments, and keep it if the person wants it."""
        likenesses = read_likenesses(item, {})
        await self._console.show(f" {row}" for row in list_rule_words(item, likenesses, self._words))
        if await self._console.agrees(self._words("inline.keep")):
            when = write_condition(item, likenesses)
            return review.Approve(digest=self._shown.digest, scope="always", terms=review.UNBOUNDED, when=when)
        await self._console.say(self._words("inline.unchanged"))
        return None

    async def _deny(self, reach: review.Reach, *, with_reason: bool = True) -> review.Deny:
        if not with_reason:
            return review.Deny(reach=reach)
        console, words = self._console, self._words
        usual = [words(f"deny.preset.{name}") for name in _TEMPLATES]
        await console.show(f" {number}  {reason}" for number, reason in enumerate(usual, 1))
        typed = await console.line(words("inline.reason")) or ""
        reason = usual[int(typed) - 1] if typed in ("1", "2", "3", "4") else typed
        if not reason:
            return review.Deny(reach=reach)
        tell = self._shown.can_tell and await console.agrees(self._choose_text("inline.tell"))
        return review.Deny(reason=reason[: review.MAX_REASON], reach=reach, tell=tell)

    async def _cancel(self) -> AnyDecision:
        return ElicitResult(action="cancel")

    async def _again(self) -> review.Decision:
        return review.Regenerate(model=self._other_model())

    async def _help(self) -> None:
        about, words = find_subject(self._shown), self._words
        rows = [f" {key.keys[0]}  {describe_key(key, words, about)}" for key, _ in self._keys()]
        await self._console.show([*rows, f" {words('inline.marks')}"])

    async def _answer(self) -> review.Answer | None:
        text = await self._console.text(self._choose_text("inline.rewrite"))
        if text.strip():
            return review.Answer(result=text)
        await self._console.say(self._words("inline.empty"))
        return None

    def _choose_text(self, key: str) -> str:
        return self._words(f"{key}.tool" if isinstance(self._item, review.ToolItem) else key)

    def _other_model(self) -> str | None:
        item = self._item
        return None if not isinstance(item, review.ReviewItem) or self._model == item.model else self._model

    async def _choose_model(self) -> None:
        item, console = self._item, self._console
        if not isinstance(item, review.ReviewItem):
            return
        names = [name for name in (item.model, *item.models) if name is not None]
        await console.show(f" {number}  {self._with_price(item, name)}" for number, name in enumerate(names, 1))
        typed = await console.line(self._words("inline.number"))
        if typed is not None and typed.isdecimal() and 0 < int(typed[:9]) <= len(names):
            self._model = names[int(typed[:9]) - 1]
            await console.say(self._words("inline.model", model=self._with_price(item, self._model)))
        else:
            await console.say(self._words("inline.unchanged"))

    def _with_price(self, item: review.ReviewItem, model: str) -> str:
        """Name a model with the most that its answer costs, which is the sum that is reserved."""
        most = review.most_of(item, model, self._params if self._edit_request else None)
        price = "" if most is None else f" · {self._words('cost.at_most', worst=format_dollars(most))}"
        return f"{inert_line(model)}{price}"

    async def _edit_or_rewrite(self) -> AnyDecision | None:
        if isinstance(self._item, review.ToolItem):
            return await forms.edit_arguments(self._console, self._item, self._words)
        if isinstance(self._item, review.ReviewItem) and self._item.result is not None:
            return await self._answer()
        await self._edit()
        return None

    async def _edit(self) -> None:
        """Let the person edit what would be sent, and show the result."""
        console, before = self._console, self._params
        editor = self._editor or forms.find_editor()
        if editor is None or before is None:
            await console.say(self._words("inline.no_editor"))
            return
        try:
            form = await forms.edit_text(forms.to_form(before), editor, console.tty.path)
            edited = forms.from_form(form, before)
        except ValueError as error:
            await console.say(f"{self._words('inline.unchanged')} {error}")
            return
        if edited == before:
            await console.say(self._words("inline.unchanged"))
            return
        self._params = edited
        # Shown again completely, with the changes: what is approved must have been seen.
        await self._draw(whole=True)
        await console.arm()


def _get_decision(made: AnyDecision | review.Filled) -> review.Decision:
    # Only elicitations are answered with the other type.
    return review.Deny() if isinstance(made, ElicitResult | review.Filled) else made


def _add_undone(undone: Sequence[str], made: AnyDecision) -> AnyDecision | review.Filled:
    """Add to a decision the permissions that were taken back before it."""
    if not undone:
        return made
    if isinstance(made, ElicitResult):
        return review.Filled(result=made, undone=tuple(undone))
    return msgspec.structs.replace(made, undone=tuple(undone))


def _is_long(item: AnyItem) -> bool:
    """Return whether an item takes so long to draw that a thread does it."""
    if isinstance(item, review.ReviewItem):
        blocks = (block for message in item.params.messages for block in message.blocks)
        return sum(len(block.text) for block in blocks if isinstance(block, TextContent)) > _LONG
    return isinstance(item, review.ToolItem) and len(bytes(item.params.arguments)) > _LONG
