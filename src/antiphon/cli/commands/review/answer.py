"""Questions to the person at the terminal: shows what a command would allow, reads answers, and edits a request.

Owns when a person is asked, and the order of editing, errors, differences and consent: a request is edited in the
person's editor until it can be sent, is unchanged, or is given up. The host's ``terminal`` asks, and has the form.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from antiphon.cli.commands.review.decide import answer_of
from antiphon.cli.commands.review.find import format_listed_id, is_named_as_listed
from antiphon.cli.commands.review.list import make_layout
from antiphon.cli.commands.review.queue_list import draw_changes, draw_question
from antiphon.cli.error_messages import Failed
from antiphon.cli.output.formats import write_line
from antiphon.errors import ConfigError, InvalidParams
from antiphon.host.checks.validate import validate_request
from antiphon.host.checks.visible import inert_line
from antiphon.host.review.keymap import key_for, label_key
from antiphon.host.review.question import Question
from antiphon.host.review.review import Answer, Edit, ElicitItem, ReviewItem, digest
from antiphon.host.terminal.console import Console, Layout, fold_rows
from antiphon.host.terminal.forms import edit_text, fill_in, find_editor, from_form, to_form
from antiphon.host.terminal.request_text import ENGLISH
from antiphon.host.terminal.tty import find_terminal, open_terminal
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.sampling import CreateMessageRequestParams

_MISTAKE = "# Mistake: "


async def agree_in_person(questions: Sequence[Question], ids: Sequence[str], verb: str) -> None:
    """Show what would be allowed, and ask for each question whether it may be; ``verb`` names the action.

    No confirmation is needed for a question whose id was typed together with the hash of its content, which a list in a
    pipe and ``show`` print.

    Raises:
        ConfigError: there is no terminal to show it at.
        Failed: the person does not agree.
    """
    for question in questions:
        if not is_named_as_listed(question, ids):
            await _agree_to_action(question, verb)


def check_named(question: Question, ids: Sequence[str]) -> None:
    """Check that a question was named together with the hash of its content, since nobody will be asked."""
    if not is_named_as_listed(question, ids):
        raise ConfigError(_REMEDY.format(id=question.id))


async def _agree_to_action(question: Question, verb: str) -> None:
    with _open_conversation(question) as console:
        keys = {"a": verb, "c": ENGLISH("edit.back")}
        if isinstance(question.item, ElicitItem):
            # The end of an address is where it can deceive.
            seen = await console.show_to_the_end(_draw_rows(question, console.layout), ENGLISH("form.more"))
            agreed = seen and await console.choose(keys) == "a"
        else:
            agreed = await _ask_for_agreement(question, console, keys)
    if not agreed:
        raise Failed(f"{format_listed_id(question)}: nothing was decided")


async def _ask_for_agreement(question: Question, console: Console, keys: Mapping[str, str]) -> bool:
    """Show a request, with long texts folded if it does not fit, and ask."""
    fold = key_for("fold", "inline")
    layout = fold_rows(console, lambda layout: _draw_rows(question, layout), ENGLISH("fold.inline", press=fold.keys[0]))
    await console.show(_draw_rows(question, layout))
    if layout.fold:
        keys = {**keys, fold.keys[0]: label_key(fold, ENGLISH)}
    unopened = {"a"} if layout.fold else set[str]()
    while (key := await console.choose(keys, unopened)) == fold.keys[0]:
        unopened.clear()
        await console.show(_draw_rows(question, console.layout))
    return key == "a"


def _draw_rows(question: Question, layout: Layout) -> Iterator[str]:
    return draw_question(question, layout, time.time())


_REMEDY = (
    "{id}: what passes is what was seen: antiphon review show {id} prints it together with its ID:HASH; give that "
    "instead of the id"
)


@contextmanager
def _open_conversation(question: Question) -> Generator[Console]:
    terminal = find_terminal() if sys.stdin.isatty() else None
    if terminal is None:
        raise ConfigError(_REMEDY.format(id=question.id))
    with closing(open_terminal(terminal)) as tty:
        yield Console(tty, color=None, pause=0.0)


async def fill_in_person(question: Question) -> Answer | ElicitResult:
    """Ask the person at the terminal for the answer."""
    terminal = find_terminal()
    if terminal is None:
        raise ConfigError("there is no terminal to ask you at: give the answer, or - for standard input")
    with closing(open_terminal(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        await console.show(draw_question(question, console.layout, question.created))
        if isinstance(question.item, ElicitItem) and question.item.params.mode == "form":
            result = await fill_in(console, question.item.params)
            if result is None:
                raise Failed("nothing was decided")
            return result
        text = await console.text("Write the answer.")
    if not text.strip():
        raise Failed("an empty answer is none: nothing was decided")
    return answer_of(question, [text])


async def edit_request(question: Question, item: ReviewItem, *, yes: bool, model: str | None = None) -> Edit:
    """Let the person edit a request, and return the decision to send the result.

    ``yes``: send it without asking again. ``model``: another one of those that may answer.

    Raises:
        ConfigError: there is no editor, or nobody to ask whether it may be sent.
        Failed: nothing was changed, or the person gave up.
    """
    editor, terminal = find_editor(), find_terminal()
    if editor is None:
        raise ConfigError("there is no editor: set $VISUAL or $EDITOR")
    if terminal is None and not yes:
        raise ConfigError("there is no terminal to ask you at; --yes sends what the editor leaves, of an ID:HASH")
    if terminal is not None and not yes:
        with _open_conversation(question) as console:
            await console.show(draw_question(question, console.layout, question.created))
    params = item.params
    while True:
        params = await _edit_until_valid(params, item.params, editor, terminal)
        if params == item.params:
            raise Failed("nothing was changed, and nothing was decided")
        # Write the difference to standard error, because only the outcome goes into a pipe.
        for row in draw_changes(item.params, params, make_layout()):
            write_line(row, sys.stderr)
        if yes or (terminal and await _agrees_to_send(terminal)):
            return Edit(params=params, digest=digest(params), model=model)


async def _edit_until_valid(
    params: CreateMessageRequestParams, original: CreateMessageRequestParams, editor: str, terminal: str | None
) -> CreateMessageRequestParams:
    """Open the editor, again with the error at the top as long as there is one."""
    form = to_form(params)
    while True:
        try:
            text = _without_mistake(await edit_text(form, editor, terminal))
        except ValueError as error:
            raise Failed(f"nothing was decided: {error}") from None
        try:
            read = from_form(text, original)
            validate_request(read)
        except (ValueError, InvalidParams) as error:
            if text == _without_mistake(form):
                # The same text again: the person, or the script, has nothing to add.
                raise Failed(f"nothing was decided: {error}") from None
            write_line(f"not taken: {inert_line(str(error))}", sys.stderr)
            form = f"{_MISTAKE}{inert_line(str(error))}\n{text}"
        else:
            return read


async def _agrees_to_send(terminal: str) -> bool:
    """Ask whether it may be sent; ``False`` to continue editing."""
    with closing(open_terminal(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        key = await console.choose({"s": "send this", "e": "edit again", "q": "quit: decide nothing"})
    if key in ("q", None):
        raise Failed("nothing was decided")
    return key == "s"


def _without_mistake(form: str) -> str:
    return form.partition("\n")[2] if form.startswith(_MISTAKE) else form
