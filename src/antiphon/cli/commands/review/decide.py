"""Decisions as typed, and the messages about them: approve, deny, answer.

Owns which decision a command means for each kind of question. The queue decides whether it is allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from antiphon.cli.arguments import read_arguments, read_input
from antiphon.cli.commands.review.find import explain_lateness
from antiphon.cli.error_messages import Failed
from antiphon.cli.options import user_name
from antiphon.cli.output.formats import print_json, print_text
from antiphon.errors import ConfigError
from antiphon.host.checks.form_fields import fields_of, list_suggestions
from antiphon.host.checks.labels import LABELS, Label
from antiphon.host.checks.visible import inert_line
from antiphon.host.review import review
from antiphon.host.review.decisions import edit_call
from antiphon.host.review.question import AnyDecision, Question
from antiphon.host.review.queue import AlreadyDecided, Mismatch, Queue
from antiphon.host.store import Store
from antiphon.wire.elicitation import ElicitResult
from antiphon.wire.envelope import encode_value

_LONGEST_ANSWER = 16 * 1024 * 1024
"""Most bytes of an answer from standard input: more than any server accepts."""


async def decide_questions(
    store: Store,
    questions: Sequence[Question],
    decisions: Sequence[AnyDecision],
    word: str,
    *,
    by: str | None,
    as_json: bool,
) -> None:
    """Decide all of these questions, as they were read, or none, and report it. ``by``: by default this user."""
    queue, by = Queue(store), by or user_name()
    try:
        chosen = {question.id: decision for question, decision in zip(questions, decisions, strict=True)}
        await queue.decide_all(chosen, {question.id: question.hash for question in questions}, by=by)
    except AlreadyDecided as late:
        raise Failed(explain_lateness(late.question)) from late
    except Mismatch as error:
        raise Failed(str(error)) from error
    for question in [await queue.get(one.id) for one in questions]:
        if as_json:
            print_json({"id": question.id, "decision": word, "by": by, "waited_for": question.waited_for})
        else:
            kept = "" if question.waited_for else "; its process is gone, so this is kept until it asks again"
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
        raise Failed(explain_lateness(question))
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
    except (ValueError, msgspec.DecodeError) as error:
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
    try:
        return [read_input(Path("-"), _LONGEST_ANSWER).decode().rstrip("\n")]
    except UnicodeDecodeError:
        raise ConfigError("the answer is not UTF-8") from None


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
