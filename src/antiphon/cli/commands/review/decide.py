"""Decisions as typed, and the messages about them: approve, deny, answer.

Owns which decision a command means for each kind of question. The queue decides whether it is allowed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.arguments import read_arguments, read_input
from antiphon.cli.commands.review import queue_list
from antiphon.cli.options import By, Json, user_name
from antiphon.cli.output.formats import Failed, print_json, print_text, write_line
from antiphon.cli.store import StoreOptions
from antiphon.errors import ConfigError, InvalidParams
from antiphon.host.checks.form_fields import fields_of, list_suggestions
from antiphon.host.checks.labels import LABELS, Label
from antiphon.host.checks.validate import validate_request
from antiphon.host.checks.visible import inert_line
from antiphon.host.review import review
from antiphon.host.review.decisions import edit_call
from antiphon.host.review.diff import compare_requests
from antiphon.host.review.keymap import key_for, label_key
from antiphon.host.review.question import AnyDecision, Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Queue
from antiphon.host.review.review import Answer, Edit, ElicitItem, ReviewItem, digest
from antiphon.host.store import Store
from antiphon.host.terminal.console import Console, Layout, fold_rows
from antiphon.host.terminal.forms import edit_text, fill_in, find_editor, from_form, to_form
from antiphon.host.terminal.request_text import ENGLISH, show_changes
from antiphon.host.terminal.tty import find_terminal, open_terminal
from antiphon.machine.files import decode_text
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value
from antiphon.wire.sampling import CreateMessageRequestParams


class DecisionOptions(StoreOptions, frozen=True, kw_only=True):
    """Options that all deciding commands share: an option set."""

    by: By = None
    as_json: Json = False


async def decide_questions(
    store: Store, questions: Sequence[Question], decisions: Sequence[AnyDecision], word: str, told: DecisionOptions
) -> None:
    """Decide all of these questions, as they were read, or none, and report it; by default as decided by this user."""
    queue, by = Queue(store), told.by or user_name()
    try:
        chosen = {question.id: decision for question, decision in zip(questions, decisions, strict=True)}
        await queue.decide_all(chosen, {question.id: question.hash for question in questions}, by=by)
    except AlreadyDecided as late:
        raise Failed(queue_list.explain_lateness(late.question)) from late
    except (Mismatch, LookupError) as error:
        raise Failed(str(error)) from error
    for question in [await queue.get(one.id) for one in questions]:
        if told.as_json:
            print_json({"id": question.id, "decision": word, "by": by, "waited_for": question.waited_for})
        else:
            kept = "" if question.waited_for else "; nobody waits for it now: it is kept for when it is asked again"
            print_text(f"{question.id}: {word}{kept}")


def make_approval(
    question: Question,
    scope: review.Scope,
    terms: review.Terms | None,
    model: str | None,
    labels: str | None = None,
    when: str | None = None,
) -> review.Approve | ElicitResult:
    """Make the decision that allows what is shown. ``terms``: ``None`` for the usual bounds; ``labels``: of a tool."""
    item = question.item
    if isinstance(item, review.ElicitItem):
        if scope != "once" or model is not None:
            raise ConfigError(
                f"{question.id}: a question to you is answered once, by you: leave --scope and --model out"
            )
        return _make_acceptance(question.id, item)
    if item is None:
        raise Failed(queue_list.explain_lateness(question))
    return review.Approve(
        digest=review.digest_item(item),
        scope=scope,
        terms=terms,
        model=model,
        when=when,
        labels=None if labels is None else _read_labels(question, labels),
    )


def _read_labels(question: Question, text: str) -> tuple[Label, ...]:
    if not isinstance(question.item, review.ToolItem) or question.item.labels is None:
        raise ConfigError(f"{question.id}: the labels of this tool are not asked about: leave --labels out")
    named: set[str] = set() if text == "none" else set(text.split(","))
    if named - set(LABELS):
        raise ConfigError(f"labels are {', '.join(LABELS)}, or none; not {text}")
    return tuple(label for label in LABELS if label in named)


async def make_edited_call(question: Question, text: str) -> review.EditCall:
    """Make the decision that calls a tool with other arguments, given as JSON."""
    item = question.item
    if not isinstance(item, review.ToolItem):
        raise ConfigError(f"{question.id}: --arguments is for the call of a tool")
    try:
        return await edit_call(item, msgspec.json.decode(text.encode(), type=dict[str, Any]))
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(f"{question.id}: {error}") from None


def make_denial(question: Question, reason: str | None, reach: review.Reach, *, tell: bool) -> review.Deny:
    """Make the decision that refuses."""
    if tell and question.item is not None and not review.can_tell(question.item):
        raise ConfigError(f"{question.id}: the answer to this has no room for a reason: leave --tell out")
    return review.Deny(reason=reason, reach=reach, tell=tell)


def answer_of(question: Question, words: Sequence[str], *, defaults: bool = False) -> review.Answer | ElicitResult:
    """Make the decision that answers in person: with a text or, for a form, its fields.

    ``defaults``: use the server's defaults for fields that are not given; otherwise they are not used.
    """
    item = question.item
    if not isinstance(item, review.ElicitItem):
        text = " ".join(words)
        if not text.strip():
            raise ConfigError("an empty answer is none")
        if defaults:
            raise ConfigError("--defaults is for the fields of a form")
        return review.Answer(result=text)
    if item.params.mode == "url":
        raise ConfigError(f"{question.id}: is an address to visit: approve says that you have, deny that you will not")
    content = read_arguments(words, item.params.requested_schema or {})
    open = {name: value for name, value in list_suggestions(item.params).items() if name not in content}
    if open and not defaults:
        named = ", ".join(f"{inert_line(name)}:={encode_value(value).decode()}" for name, value in open.items())
        raise ConfigError(
            f"{question.id}: the server suggests {named}: give these fields (KEY:=null leaves one out), or take all "
            f"that it suggests with --defaults"
        )
    given = {name: value for name, value in content.items() if value is not None}
    return ElicitResult(action="accept", content={**open, **given})


def read_answer(words: Sequence[str]) -> list[str]:
    """Return the words of an answer; ``-`` alone stands for standard input."""
    if list(words) != ["-"]:
        return list(words)
    # More than any server accepts.
    most = 16 * 1024 * 1024
    return [decode_text(read_input(Path("-"), most), "the answer", most).rstrip("\n")]


def _make_acceptance(id: str, item: review.ElicitItem) -> ElicitResult:
    """Accept an address, or a form without fields: what a server suggests is taken by ``answer --defaults`` only."""
    if item.params.mode == "url":
        return ElicitResult(action="accept")
    asked = fields_of(item.params)
    if asked:
        all_suggested = all(field.default is not None for field in asked if field.required)
        take = f", or --defaults for what the server suggests ({', '.join(list_suggestions(item.params))})"
        raise ConfigError(
            f"{id}: the form needs {', '.join(field.name for field in asked)}: "
            f"antiphon review answer {id} {asked[0].name}=...{take if all_suggested else ''}"
        )
    return ElicitResult(action="accept", content={})


_MISTAKE = "# Mistake: "


async def agree_in_person(questions: Sequence[Question], ids: Sequence[str], verb: str) -> None:
    """Show what would be allowed, and ask for each question whether it may be; ``verb`` names the action.

    No confirmation is needed for a question whose id was typed together with the hash of its content, which a list in a
    pipe and ``show`` print. Raises ``ConfigError``: there is no terminal to show it at. Raises ``Failed``: the person
    does not agree.
    """
    for question in questions:
        if not queue_list.is_named_as_listed(question, ids):
            await _agree_to_action(question, verb)


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
        raise Failed(f"{queue_list.format_listed_id(question)}: nothing was decided")


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
    return queue_list.draw_question(question, layout, time.time())


REMEDY = (
    "{id}: what passes is what was seen: antiphon review show {id} prints it together with its ID:HASH; give that "
    "instead of the id"
)


@contextmanager
def _open_conversation(question: Question) -> Generator[Console]:
    terminal = find_terminal() if sys.stdin.isatty() else None
    if terminal is None:
        raise ConfigError(REMEDY.format(id=question.id))
    with closing(open_terminal(terminal)) as tty:
        yield Console(tty, color=None, pause=0.0)


async def fill_in_person(question: Question) -> Answer | ElicitResult:
    """Ask the person at the terminal for the answer."""
    terminal = find_terminal()
    if terminal is None:
        raise ConfigError("there is no terminal to ask you at: give the answer, or - for standard input")
    with closing(open_terminal(terminal)) as tty:
        console = Console(tty, color=None, pause=0.0)
        await console.show(queue_list.draw_question(question, console.layout, question.created))
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

    ``yes``: send it without asking again. ``model``: another one of those that may answer. Raises ``ConfigError``:
    there is no editor, or nobody to ask whether it may be sent. Raises ``Failed``: nothing was changed, or the person
    gave up.
    """
    editor, terminal = find_editor(), find_terminal()
    if editor is None:
        raise ConfigError("there is no editor: set $VISUAL or $EDITOR")
    if terminal is None and not yes:
        raise ConfigError("there is no terminal to ask you at; --yes sends what the editor leaves, of an ID:HASH")
    if terminal is not None and not yes:
        with _open_conversation(question) as console:
            await console.show(queue_list.draw_question(question, console.layout, question.created))
    params = item.params
    while True:
        params = await _edit_until_valid(params, item.params, editor, terminal)
        if params == item.params:
            raise Failed("nothing was changed, and nothing was decided")
        # Write the difference to standard error, because only the outcome goes into a pipe.
        for row in show_changes(compare_requests(item.params, params), "changes.long", queue_list.make_layout()):
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
