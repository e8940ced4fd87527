"""Whether a decision fits its question: allowed by the choices, and made about what was shown.

Pure. Owns the mistakes a reviewer can make; ``queue`` stores questions and decisions.
"""

from __future__ import annotations

from antiphon.host.checks.forms import check_content, fields_of
from antiphon.host.review.review import (
    MAX_REASON,
    Answer,
    Approve,
    Choice,
    Decision,
    Deny,
    Edit,
    EditCall,
    ElicitItem,
    Regenerate,
    ReviewItem,
    ToolItem,
    digest,
)
from antiphon.wire.elicitation import ElicitResult

__all__ = ["AnyDecision", "AnyItem", "Mismatch", "NotShown", "check"]

AnyItem = ReviewItem | ElicitItem | ToolItem
AnyDecision = Decision | ElicitResult


class Mismatch(ValueError):
    """A decision does not fit the question: its digest differs, or it was not among the choices."""


class NotShown(Mismatch):
    """A decision names another hash than the question has, so it was made about something else."""


def check(item: AnyItem, decision: Decision | ElicitResult) -> None:
    """Check that a decision is about this item, as it was shown.

    Raises:
        Mismatch: it is not; the text says why.
    """
    if isinstance(decision, Deny) and len(decision.reason or "") > MAX_REASON:
        raise Mismatch(f"a reason has at most {MAX_REASON} characters")
    if isinstance(item, ElicitItem) and isinstance(decision, Deny):
        return
    if isinstance(item, ElicitItem) or isinstance(decision, ElicitResult):
        if not (isinstance(item, ElicitItem) and isinstance(decision, ElicitResult)):
            raise Mismatch("an elicitation is answered with an ElicitResult or denied, and nothing else is")
        _check_form(item, decision)
        return
    if _choice(decision) not in item.choices or isinstance(decision, Edit if isinstance(item, ToolItem) else EditCall):
        raise Mismatch(f"{_choice(decision)} is not a choice here")
    _check_shown(item, decision)


def _check_shown(item: ReviewItem | ToolItem, decision: Decision) -> None:
    result = item.result if isinstance(item, ReviewItem) else None
    rival = item.rival.result if isinstance(item, ReviewItem) and item.rival is not None else None
    shown = [each for each in (item.params if result is None else result, rival) if each is not None]
    if isinstance(decision, Approve) and decision.digest not in map(digest, shown):
        raise Mismatch("what was approved is not what is kept")
    if isinstance(decision, Edit | EditCall) and decision.digest != digest(decision.params):
        raise Mismatch("what was edited is not what was shown")
    model = decision.model if isinstance(decision, Approve | Edit | Regenerate) else None
    offered = (item.model, *item.models) if isinstance(item, ReviewItem) else ()
    if model is not None and model not in offered:
        raise Mismatch(f"{model} is not among the models to choose from")
    beside = decision.beside if isinstance(decision, Approve) else None
    if beside is not None and (beside not in offered or beside == (model or _model(item))):
        raise Mismatch(f"{beside} is not among the models for a second answer")
    if beside is not None and (result is not None or (isinstance(decision, Approve) and decision.scope != "once")):
        raise Mismatch("two models are compared for one request, before it is answered")


def _model(item: ReviewItem | ToolItem) -> str | None:
    return item.model if isinstance(item, ReviewItem) else None


def _check_form(item: ElicitItem, result: ElicitResult) -> None:
    if result.action != "accept" or item.params.mode != "form":
        return
    try:
        check_content(fields_of(item.params), result.content or {})
    except ValueError as error:
        raise Mismatch(str(error)) from None


def _choice(decision: Decision) -> Choice:
    match decision:
        case Approve(scope="once"):
            return "approve"
        case Approve():
            return "grant"
        case Edit() | EditCall():
            return "edit"
        case Deny():
            return "deny"
        case Answer():
            return "answer"
        case Regenerate():
            return "regenerate"
