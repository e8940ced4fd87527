"""What is asked in a form over the screen: a reason, how far a grant reaches, an answer, a model, a server's fields.

Owns the fields and what becomes of them; the form itself is ``dialog``, what fits is the page's ``deciding``.
"""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.cli.screen.dialog import Asked, Choice, Dialog
from antiphon.cli.screen.words import Words
from antiphon.host.checks.forms import Field
from antiphon.host.review.decisions import Form, answer, approval, denial, filled
from antiphon.host.review.diff import editable
from antiphon.host.review.review import Answer, Approve, Deny, ElicitItem, Reach, ReviewItem
from antiphon.host.review.shown import Shown
from antiphon.wire.elicitation import ElicitResult

__all__ = ["answering", "choosing", "denying", "filling", "granting"]

_REACHES = ("once", "call", "server")
_SCOPES = ("call", "session", "always")


def denying(shown: Shown, words: Words, reach: Reach) -> Dialog[Deny]:
    """Ask why, and how far it reaches."""
    reaches = [name for name in _REACHES if name != "call" or shown.who.call]
    fields = [
        Asked("reason", "line", words("deny.reason")),
        Asked("reach", "one", words("screen.reach"), reach, [Choice(name, words(f"reach.{name}")) for name in reaches]),
        Asked("", "note", words("screen.deny_note")),
    ]
    return Dialog(words("deny.title"), fields, denial, words, send=words("do.deny"))


def granting(shown: Shown, words: Words, now: float, model: str | None) -> Dialog[Approve]:
    """Ask for how much more than this one request it is."""
    scopes = [Choice(name, words(f"scope.{name}")) for name in _SCOPES if name != "call" or shown.who.call]
    fields = [
        Asked("scope", "one", words("grant.scope"), "", scopes),
        Asked("uses", "line", words("grant.uses")),
        Asked("dollars", "line", words("grant.dollars")),
        Asked("minutes", "line", words("grant.minutes")),
        Asked("", "note", words("grant.note")),
    ]

    def check(form: Form) -> Approve:
        names = ("scope", "uses", "dollars", "minutes")
        chosen = [("digest", shown.digest), ("model", model or ""), *((name, form(name)) for name in names)]
        return approval(Form(chosen), now)

    return Dialog(words("grant.title"), fields, check, words, send=words("grant.give"))


def answering(shown: Shown, words: Words) -> Dialog[Answer]:
    """Ask for the answer, or for another one than the model's."""
    rewrite = shown.answer is not None
    fields = [Asked("text", "text", words("answer.text"), editable(shown.answer_text))]
    title, send = ("rewrite.title", "rewrite.send") if rewrite else ("answer.person", "answer.send")
    return Dialog(words(title), fields, answer, words, send=words(send))


def choosing(item: ReviewItem, words: Words, current: str | None) -> Dialog[str]:
    """Ask which model: nothing is the one that was chosen."""
    usual = item.model or item.provider
    names = [name for name in item.models if name != item.model]
    choices = [Choice("", usual), *(Choice(name, name) for name in names)]
    fields = [Asked("model", "one", "", current or "", choices)]
    return Dialog(words("model.title"), fields, lambda form: form("model"), words, send=words("screen.take"))


def filling(item: ElicitItem, fields: Sequence[Field], words: Words) -> Dialog[ElicitResult]:
    """Ask what the server asks."""
    asked: list[Asked] = []
    for at, field in enumerate(fields):
        need = f" {words('form.required')}" if field.required else ""
        label = f"{field.title}{need}\n{field.description}".rstrip()
        asked.append(_field(field, f"field-{at}", label, words))

    def check(form: Form) -> ElicitResult:
        typed = [(one.name, value) for one in asked for value in form.all(one.name)]
        return filled(Form([*typed, ("action", "accept")]), item)

    return Dialog(words("ask.elicitation"), asked, check, words, send=words("form.accept"))


def _field(field: Field, name: str, label: str, words: Words) -> Asked:
    default = field.default
    options = [Choice(option.value, option.title) for option in field.options]
    none = [] if field.required else [Choice("", "-")]
    match field.kind:
        case "choices":
            ticked = default if isinstance(default, list) else []
            return Asked(name, "many", label, "", options, ticked)
        case "choice":
            return Asked(name, "one", label, str(default or ""), [*none, *options])
        case "boolean":
            chosen = "" if default is None else str(default).lower()
            known = [Choice("true", words("form.yes")), Choice("false", words("form.no"))]
            return Asked(name, "one", label, chosen, [*none, *known])
        case "string":
            text = editable(str(default or ""))
            return Asked(name, "text" if "\n" in text else "line", label, text)
        case _:
            return Asked(name, "line", label, "" if default is None else str(default))
