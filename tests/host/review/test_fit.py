"""Decisions that fit what was asked, and those that do not."""

from __future__ import annotations

import pytest

from antiphon.host.review.question import Mismatch, check
from antiphon.host.review.review import (
    Answer,
    Approve,
    Deny,
    Edit,
    ElicitItem,
    Regenerate,
    ReviewItem,
    ToolItem,
    digest,
)
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import CHOICES, origin, request

ASKED, OTHER = request("one"), request("other")
ITEM = ReviewItem(
    origin=origin(), params=ASKED, received=ASKED, provider="p", choices=CHOICES, model="mine", models=("spare",)
)
CALL = CallToolRequestParams.of("order", {"pieces": 1})
TOOL = ToolItem(origin=origin(), params=CALL, choices=frozenset({"approve", "deny"}))
FORM = ElicitItem(
    origin=origin(), params=ElicitRequestParams.form("?", {"properties": {"n": {"type": "integer"}}, "required": ["n"]})
)


@pytest.mark.parametrize(
    ("item", "decision"),
    [
        (ITEM, Approve(digest=digest(ASKED))),
        (ITEM, Approve(digest=digest(ASKED), scope="session", model="spare")),
        (ITEM, Edit(params=OTHER, digest=digest(OTHER), model="mine")),
        (ITEM, Answer(result="x")),
        (TOOL, Approve(digest=digest(CALL))),
        (TOOL, Deny()),
        (FORM, ElicitResult(action="accept", content={"n": 1})),
        (FORM, ElicitResult(action="decline")),
    ],
)
def test_what_may_be_decided(item, decision):
    """Of what was shown, and nothing else."""
    check(item, decision)
    if isinstance(decision, Approve):
        with pytest.raises(Mismatch, match="not what is kept"):
            check(item, Approve(digest=digest(OTHER)))


@pytest.mark.parametrize(
    ("item", "decision", "problem"),
    [
        (ITEM, Approve(digest=digest(ASKED), model="gpt-9"), "not among the models to choose from"),
        (ITEM, Edit(params=OTHER, digest=digest(ASKED)), "not what was shown"),
        (ITEM, Regenerate(), "regenerate is not a choice here"),
        (ITEM, ElicitResult(action="decline"), "ElicitResult"),
        (TOOL, Answer(result="x"), "answer is not a choice here"),
        (TOOL, Approve(digest=digest(CALL), scope="always"), "grant is not a choice here"),
        (FORM, Answer(result="x"), "ElicitResult"),
        (FORM, ElicitResult(action="accept", content={"n": "seven"}), "n"),
    ],
)
def test_what_may_not_be_decided(item, decision, problem: str):
    """The text says what is wrong."""
    with pytest.raises(Mismatch, match=problem):
        check(item, decision)
