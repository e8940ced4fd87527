"""Who may decide what: roles, routes, and nobody's own request; without the page."""

from __future__ import annotations

import pytest

from antiphon.host.checks.people import Demands, Person
from antiphon.host.review.question import NotAllowed, check_decider, check_undo
from antiphon.host.review.review import Answer, Approve, Deny, ElicitItem, ToolItem
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import CHOICES, origin

NOTHING = Demands()


def item(demands: Demands = NOTHING, principal: str | None = None) -> ToolItem:
    """Make a call that waits."""
    params = CallToolRequestParams.of("pay", {})
    return ToolItem(origin=origin(principal=principal), params=params, choices=CHOICES, demands=demands)


def person(role: str = "reviewer", subject: str = "a") -> Person:
    """Make somebody who has signed in."""
    return Person(issuer="https://id", subject=subject, role=role)


@pytest.mark.parametrize(
    ("by", "demands", "decision", "key"),
    [
        ("ann", Demands(), Approve(digest=""), None),
        (None, Demands(), Approve(digest="", scope="always"), None),
        ("ann", Demands(people=2), Deny(), "person"),
        (None, Demands(to=(("*",),)), Approve(digest=""), "person"),
        (person("viewer"), Demands(), Deny(), "role"),
        (person(), Demands(), Approve(digest="", scope="call"), None),
        (person(), Demands(), Approve(digest="", scope="session"), "role"),
        (person(), Demands(), Deny(reach="server"), "role"),
        (person("admin"), Demands(), Deny(reach="server"), None),
        (person("admin"), Demands(to=(("sub:b",),)), Deny(), "to"),
        (person(), Demands(to=(("*",), ("sub:b",))), Approve(digest=""), "to"),
        (person(), Demands(people=2), Answer(result="x"), "proposal"),
    ],
)
def test_who_may_decide(by: Person | str | None, demands: Demands, decision: Approve | Deny, key: str | None):
    """Each rule by itself; ``key`` names the one that bars."""
    if key is None:
        check_decider(by, item(demands), decision)
        return
    with pytest.raises(NotAllowed) as barred:
        check_decider(by, item(demands), decision)
    assert barred.value.key == key


def test_nobody_lets_their_own_request_pass():
    """By issuer and subject; a form for the caller is the caller's to fill in."""
    mine = item(principal="https://id sub:a")
    with pytest.raises(NotAllowed, match="own request"):
        check_decider(person("admin"), mine, Answer(result="x"))
    check_decider(person("admin"), mine, Deny())
    check_decider(person("admin", "b"), mine, Approve(digest=""))
    form = ElicitItem(
        origin=mine.origin, params=ElicitRequestParams.form("Name?", {"type": "object", "properties": {}})
    )
    check_decider(person(), form, ElicitResult(action="accept", content={}))


def test_who_may_take_back():
    """Their own, one of two, or any as an admin; who has not signed in as before."""
    both = f"{person()} + {person(subject='b')}"
    for by in ("ann", None, person(), person(subject="b"), person("admin", "c")):
        check_undo(by, both)
    for by in (person(subject="c"), person("viewer")):
        with pytest.raises(NotAllowed):
            check_undo(by, both)
