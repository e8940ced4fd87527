"""The dialogs of the screen: a reason, the bounds of a grant, an answer, a model, a server's form.

Owns the fields and the decisions made from them; ``dialog`` has the form itself, ``host.review.decisions`` checks
input.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from antiphon.cli.screen.dialog import Asked, Choice, Dialog
from antiphon.cli.screen.words import Words
from antiphon.host.budget import DOLLAR
from antiphon.host.checks.forms import Field
from antiphon.host.review.decisions import Form, Refused, answer, approval, denial, filled, rule
from antiphon.host.review.diff import editable
from antiphon.host.review.history import ENDINGS, METHODS
from antiphon.host.review.review import USUAL, Answer, Approve, Deny, ElicitItem, Reach, ReviewItem
from antiphon.host.review.shown import Shown
from antiphon.wire.elicitation import ElicitResult

__all__ = ["Draft", "answering", "choosing", "denying", "filling", "filtering", "granting", "searching"]

Draft = Sequence[tuple[str, str]]
"""Earlier input, by the names of fields."""
_REACHES = ("once", "call", "server")
_TEMPLATES = ("scope", "secret", "cost", "unclear")
_SCOPES = ("call", "session", "always")


def denying(shown: Shown, words: Words, reach: Reach, draft: Draft = ()) -> Dialog[Deny]:
    """Ask for the reason, whether the server is told, and how far the denial reaches."""
    reaches = [name for name in _REACHES if name != "call" or shown.who.call]
    templates = [Choice(words(f"deny.preset.{name}"), words(f"deny.preset.{name}")) for name in _TEMPLATES]
    told = [Choice("true", words("tell.label"))]
    kept = dict(draft)
    fields = [
        Asked("reason", "line", words("deny.reason"), kept.get("reason", "")),
        Asked("template", "one", words("reason.template"), "", [Choice("", words("reason.own")), *templates]),
        Asked("tell", "many", "", "", told) if shown.can_tell else Asked("", "note", words("tell.no")),
        Asked("reach", "one", words("screen.reach"), reach, [Choice(name, words(f"reach.{name}")) for name in reaches]),
        Asked("", "note", words("screen.deny_note")),
    ]

    def check(form: Form) -> Deny:
        reason = form("reason").strip() or form("template")
        if form("tell") and not reason:
            raise Refused("problem.reason")
        return denial(Form([("reason", reason), ("reach", form("reach")), ("tell", form("tell"))]))

    return Dialog(words("deny.title"), fields, check, words, send=words("do.deny"))


def granting(shown: Shown, words: Words, now: float, model: str | None) -> Dialog[Approve]:
    """Ask for the bounds of a grant beyond this one request."""
    scopes = [Choice(name, words(f"scope.{name}")) for name in _SCOPES if name != "call" or shown.who.call]
    # Tool calls cost nothing, so a limit on money makes no sense.
    dollars = "" if shown.kind == "tool" or USUAL.money is None else f"{USUAL.money / DOLLAR:.2f}"
    fields = [
        Asked("scope", "one", words("grant.scope"), scopes[0].value, scopes),
        Asked("uses", "line", words("grant.uses"), f"{USUAL.uses}"),
        Asked("dollars", "line", words("grant.dollars"), dollars),
        Asked("minutes", "line", words("grant.minutes")),
        Asked("", "note", words("grant.note")),
    ]

    def check(form: Form) -> Approve:
        names = ("scope", "uses", "dollars", "minutes")
        chosen = [("digest", shown.digest), ("model", model or ""), *((name, form(name)) for name in names)]
        return approval(Form(chosen), now)

    return Dialog(words("grant.title"), fields, check, words, send=words("grant.give"))


def answering(shown: Shown, words: Words, draft: Draft = ()) -> Dialog[Answer]:
    """Ask for the answer, or for one that replaces the model's."""
    rewrite = shown.answer is not None
    begun = dict(draft).get("text") or editable(shown.answer_text)
    fields = [Asked("text", "text", words("answer.text"), begun)]
    title, send = ("rewrite.title", "rewrite.send") if rewrite else ("answer.person", "answer.send")
    return Dialog(words(title), fields, answer, words, send=words(send))


def choosing(item: ReviewItem, words: Words, current: str | None) -> Dialog[str]:
    """Ask for a model; nothing means the one that was chosen."""
    usual = item.model or item.provider
    names = [name for name in item.models if name != item.model]
    choices = [Choice("", usual), *(Choice(name, name) for name in names)]
    fields = [Asked("model", "one", "", current or "", choices)]
    return Dialog(words("model.title"), fields, lambda form: form("model"), words, send=words("screen.take"))


def filtering(wanted: str, words: Words) -> Dialog[str]:
    """Ask for a text that the listed requests must contain; empty shows all."""
    fields = [Asked("wanted", "line", "", wanted)]
    return Dialog(words("filter.title"), fields, lambda form: form("wanted").strip(), words, send=words("key.filter"))


def searching(wanted: Mapping[str, str], words: Words) -> Dialog[dict[str, str]]:
    """Ask what is looked for in the history; what is left empty excludes nothing."""
    anything = Choice("", words("history.any"))
    methods = [Choice(method, words(f"method.{method}")) for method in METHODS]
    endings = [Choice(ending, words(f"ending.{ending}")) for ending in ENDINGS]
    fields = [
        Asked("q", "line", words("history.search"), wanted.get("q", "")),
        Asked("since", "line", f"{words('history.since')} (2026-01-31)", wanted.get("since", "")),
        Asked("until", "line", words("history.until"), wanted.get("until", "")),
        Asked("kind", "one", words("history.kind"), wanted.get("kind", ""), [anything, *methods]),
        Asked("ending", "one", words("history.outcome"), wanted.get("ending", ""), [anything, *endings]),
    ]

    def check(form: Form) -> dict[str, str]:
        return {field.name: form(field.name).strip() for field in fields if form(field.name).strip()}

    return Dialog(words("history.search"), fields, check, words, send=words("history.find"))


def filling(item: ElicitItem, fields: Sequence[Field], words: Words, draft: Draft = ()) -> Dialog[ElicitResult]:
    """Show a server's form. Nothing is preselected; the server's defaults are labelled as the server's."""
    asked: list[Asked] = []
    for at, field in enumerate(fields):
        need = f" {words('form.required')}" if field.required else ""
        rules = rule(field, words)
        lines = [f"{field.title}{need}", field.description, f"({rules})" if rules else "", _suggested(field, words)]
        asked.append(_field(field, f"field-{at}", "\n".join(filter(None, lines)), words))
    if draft:
        asked = [_begun(one, draft) for one in asked]

    def check(form: Form) -> ElicitResult:
        typed = [(one.name, value) for one in asked for value in form.all(one.name)]
        return filled(Form([*typed, ("action", "accept")]), item)

    return Dialog(words("ask.elicitation"), asked, check, words, send=words("form.accept"))


def _suggested(field: Field, words: Words) -> str:
    default = field.default
    if default is None:
        return ""
    if isinstance(default, bool):
        value = words("form.yes" if default else "form.no")
    else:
        titles = {option.value: option.title for option in field.options}
        values = default if isinstance(default, list) else [str(default)]
        value = ", ".join(titles.get(each, each) for each in values)
    return words("form.default", value=value)


def _begun(asked: Asked, draft: Draft) -> Asked:
    values = [value for name, value in draft if name == asked.name]
    if asked.kind == "many":
        return asked._replace(values=values)
    return asked._replace(value=values[0]) if values else asked


def _field(field: Field, name: str, label: str, words: Words) -> Asked:
    default = field.default
    options = [Choice(option.value, option.title) for option in field.options]
    none = [] if field.required else [Choice("", words("form.none"))]
    match field.kind:
        case "choices":
            ticked = default if isinstance(default, list) else []
            return Asked(name, "many", label, "", options, ticked)
        case "choice":
            return Asked(name, "one", label, None if default is None else str(default), [*none, *options])
        case "boolean":
            chosen = None if default is None else str(default).lower()
            known = [Choice("true", words("form.yes")), Choice("false", words("form.no"))]
            return Asked(name, "one", label, chosen, [*none, *known])
        case "string":
            text = editable(str(default or ""))
            return Asked(name, "text" if "\n" in text else "line", label, text)
        case _:
            return Asked(name, "line", label, "" if default is None else str(default))
