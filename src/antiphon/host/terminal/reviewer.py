"""``TerminalReviewer``: one request at a time, shown whole, decided by the person at the terminal.

Owns the order of the conversation. What is shown is ``screen``'s, how a person is asked ``console``'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import webbrowser
from collections.abc import AsyncGenerator

import msgspec

from antiphon.host.checks.visible import inert_line
from antiphon.host.review.review import (
    Answer,
    Approve,
    Decision,
    Deny,
    Edit,
    ElicitItem,
    NoReviewer,
    Reach,
    Regenerate,
    ReviewItem,
    ToolItem,
    digest,
)
from antiphon.host.terminal.console import Console
from antiphon.host.terminal.edit_form import difference, from_form, to_form
from antiphon.host.terminal.editor import edit, find_editor
from antiphon.host.terminal.form import Opener, fill_in, visit
from antiphon.host.terminal.screen import show_elicitation, show_request, show_result, show_tool
from antiphon.host.terminal.tty import Tty, find_terminal
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.sampling import CreateMessageResult

__all__ = ["TerminalReviewer"]

PAUSE = 0.4
"""Seconds in which a request that has just appeared cannot be decided (DESIGN, section 7)."""

_HELP = {
    "a": "sends the request to the provider exactly as shown.",
    "e": "opens it in your editor ($VISUAL, $EDITOR); you see the difference and are asked again.",
    "d": "refuses. A reason you give stays on this side. Ctrl-D refuses without one.",
    "w": "lets you write the answer yourself: nothing is sent to the provider.",
    "c": "approves, and all like it (same tools, same system prompt, no larger) for the rest of this call.",
    "A": "approves, and all like it from this server for as long as this program runs.",
    "m": "lets you choose another of your models for it.",
    "r": "has it answered once more; you see that answer as well.",
    "s": "refuses this, and whatever else this call asks.",
    "b": "refuses this, and all that this server asks, until you unblock it.",
}
_MARKS = "What stands behind │ was written by the server. Marks such as \u27e6U+202E\u27e7 are characters nobody sees."


class TerminalReviewer:
    """Asks the person at the terminal. Needs a POSIX terminal; ``available`` says whether there is one."""

    def __init__(
        self,
        *,
        terminal: str | None = None,
        editor: str | None = None,
        color: bool | None = None,
        pause: float = PAUSE,
        opener: Opener | None = None,
    ) -> None:
        """Choose the parts; each has a default that suits a person.

        ``terminal`` is the path of a terminal device, ``editor`` a command, ``color=None`` decides by the environment,
        ``pause`` is in seconds, ``opener`` opens an address in a browser.
        """
        self._terminal = terminal
        self._editor = editor
        self._color = color
        self._pause = pause
        self._opener = opener or _open_in_browser
        self._turn = asyncio.Lock()
        self._waiting = 0

    @property
    def available(self) -> bool:
        """Whether a person can be asked now."""
        return self._path() is not None

    async def review(self, item: ReviewItem) -> Decision:
        """Show a request, or an answer if ``item.result`` is set, and wait for the decision.

        Raises:
            NoReviewer: there is no terminal, or it is gone.
        """
        async with self._conversation(item.expires_in) as console:
            talk = _Talk(console, item, self._editor)
            return await (talk.about_request() if item.result is None else talk.about_result(item.result))

    async def confirm(self, item: ToolItem) -> Decision:
        """Show the call of a tool and wait for the decision.

        Raises:
            NoReviewer: there is no terminal, or it is gone.
        """
        async with self._conversation(item.expires_in) as console:
            await console.show(show_tool(item, console.layout))
            shown = digest(item.params)
            await console.arm()
            keys = {"a": "call it", "d": "deny", "A": "allow this tool for this session", "b": "block the server"}
            key = await console.choose(keys)
            if key in ("a", "A"):
                return Approve(digest=shown, scope="session" if key == "A" else "once")
            return await _denial(console, key)

    async def elicit(self, item: ElicitItem) -> ElicitResult:
        """Show an elicitation and let the person fill in the form or visit the address.

        Raises:
            NoReviewer: there is no terminal, or it is gone.
        """
        async with self._conversation(item.expires_in) as console:
            await console.show(show_elicitation(item, console.layout))
            await console.arm()
            if item.params.mode == "url":
                return await visit(console, item.params, self._opener)
            return await fill_in(console, item.params)

    def _path(self) -> str | None:
        return self._terminal or find_terminal()

    @contextlib.asynccontextmanager
    async def _conversation(self, expires_in: float | None) -> AsyncGenerator[Console, None]:
        """Wait for our turn and open the terminal; say so if the question is withdrawn before it was answered."""
        loop = asyncio.get_running_loop()
        deadline = None if expires_in is None else loop.time() + expires_in
        self._waiting += 1
        try:
            async with self._turn:
                path = self._path()
                if path is None:
                    raise NoReviewer("there is no terminal")
                with contextlib.closing(Tty(path)) as tty:
                    try:
                        await tty.write("\n")
                        yield Console(tty, color=self._color, pause=self._pause, waiting=lambda: self._waiting - 1)
                    except asyncio.CancelledError:
                        expired = deadline is not None and loop.time() >= deadline
                        tty.write_now(
                            f"\r\x1b[K ▪ {'Expired: refused' if expired else 'Withdrawn'}. Nothing to decide.\n"
                        )
                        raise
        finally:
            self._waiting -= 1


class _Talk:
    """The conversation about one request."""

    def __init__(self, console: Console, item: ReviewItem, editor: str | None) -> None:
        self._console = console
        self._item = item
        self._editor = editor
        self._params = item.params
        self._model = item.model

    async def about_request(self) -> Decision:
        console, item = self._console, self._item
        await console.show(show_request(item, console.layout))
        shown = digest(self._params)
        await console.arm()
        while True:
            key = await console.choose(self._keys())
            if key in ("a", "c", "A"):
                return self._approval(key, shown)
            if key == "e" and await self._edit():
                shown = digest(self._params)
            if key == "m":
                await self._choose_model()
            decision = await self._other(key)
            if decision is not None:
                return decision

    async def about_result(self, result: CreateMessageResult) -> Decision:
        console = self._console
        await console.show(show_result(self._item, result, console.layout))
        shown = digest(result)
        await console.arm()
        while True:
            key = await console.choose(self._keys_of_result())
            if key == "a":
                return Approve(digest=shown)
            if key == "r":
                return Regenerate(model=self._other_model())
            if key == "m":
                await self._choose_model()
            decision = await self._other(key)
            if decision is not None:
                return decision

    def _keys(self) -> dict[str, str]:
        edited = self._params is not self._item.params
        offered = {
            "a": ("approve", "approve the edited request" if edited else "approve"),
            "e": ("edit", "edit"),
            "d": ("deny", "deny"),
            "w": ("answer", "write the answer yourself"),
            "c": ("grant", "allow for this call"),
            "A": ("grant", "allow for this session"),
        }
        keys = {key: meaning for key, (choice, meaning) in offered.items() if choice in self._item.choices}
        if edited or self._item.origin.call is None:
            keys.pop("c", None)
        if self._item.models:
            keys["m"] = f"another model than {inert_line(self._model or self._item.provider)}"
        if edited:
            # A grant is for what the server sends, and that is not what was approved.
            keys.pop("A", None)
        return keys | self._denials() | {"?": "help"}

    def _denials(self) -> dict[str, str]:
        stop = {} if self._item.origin.call is None else {"s": "stop the call"}
        return stop | {"b": "block the server"}

    def _keys_of_result(self) -> dict[str, str]:
        keys = {"a": "send it", "d": "deny", "w": "write another answer"}
        if "regenerate" in self._item.choices:
            keys["r"] = f"once more, by {inert_line(self._model or self._item.provider)}"
            if self._item.models:
                keys["m"] = "another model"
        return keys | self._denials()

    def _other_model(self) -> str | None:
        return None if self._model == self._item.model else self._model

    async def _choose_model(self) -> None:
        names = [name for name in (self._item.model, *self._item.models) if name is not None]
        console = self._console
        await console.show(f" {number}  {inert_line(name)}" for number, name in enumerate(names, 1))
        typed = await console.line("number> ")
        if typed is not None and typed.isdecimal() and 0 < int(typed[:9]) <= len(names):
            self._model = names[int(typed[:9]) - 1]
            await console.say(f"It would be answered by {self._model}.")
        else:
            await console.say("Nothing was changed.")

    def _approval(self, key: str, shown: str) -> Decision:
        if self._params is not self._item.params:
            return Edit(params=self._params, digest=shown, model=self._other_model())
        scope = "call" if key == "c" else "session" if key == "A" else "once"
        return Approve(digest=shown, scope=scope, model=self._other_model())

    async def _other(self, key: str | None) -> Decision | None:
        """Carry out a key that is no approval; ``None`` to ask again."""
        console = self._console
        if key == "?":
            await console.show(f" {each}  {_HELP[each]}" for each in self._keys() if each in _HELP)
            await console.show([f" {_MARKS}"])
        elif key == "w":
            text = await console.text("Write the answer.")
            if text.strip():
                return Answer(result=text)
            await console.say("An empty answer is none.")
        elif key in ("d", "s", "b", None):
            return await _denial(console, key)
        return None

    async def _edit(self) -> bool:
        """Let the person edit what would be sent; tells whether it is another request now."""
        console = self._console
        editor = self._editor or find_editor()
        if editor is None:
            await console.say("There is no editor: set $EDITOR.")
            return False
        try:
            form = await edit(to_form(self._params), editor, console.tty.path)
            edited = from_form(form, self._params)
        except ValueError as error:
            await console.say(f"Nothing was changed: {error}")
            return False
        if edited == self._params:
            await console.say("Nothing was changed.")
            return False
        self._params = edited
        await self._show_edited()
        return True

    async def _show_edited(self) -> None:
        console, layout = self._console, self._console.layout
        # Shown once more whole: what is approved is what was seen.
        await console.show(show_request(msgspec.structs.replace(self._item, params=self._params), layout))
        await console.show([layout.title("what you changed")])
        paints = {"+": "32", "-": "31", "@": "2"}
        for line in difference(self._item.params, self._params):
            await console.show(layout.paint(paints.get(line[:1], ""), row) for row in layout.quoted(line))
        await console.arm()


_REACHES: dict[str | None, Reach] = {"s": "call", "b": "server"}


async def _denial(console: Console, key: str | None) -> Deny:
    reason = None if key is None else await console.line("reason (may be empty)> ")
    return Deny(reason=reason or None, reach=_REACHES.get(key, "once"))


async def _open_in_browser(url: str) -> bool:
    return await asyncio.to_thread(webbrowser.open, url)
