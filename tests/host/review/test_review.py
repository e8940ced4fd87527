"""The digest that ties a decision to what was shown."""

from __future__ import annotations

from decimal import Decimal

import msgspec
import pytest

from antiphon.errors import Rejected
from antiphon.host import Decision, Deny, Host, Reviewer, ToolItem
from antiphon.host.budget import estimate_costs, find_dearest, worst_case
from antiphon.host.model_catalogue import ModelPrice
from antiphon.host.review.review import ReviewItem, digest, most_of, scopes_of
from antiphon.wire.content import UnknownContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import CHOICES, origin, request


class CallsOnly(Reviewer):
    """Shows calls of tools, and nothing else."""

    async def confirm(self, item: ToolItem) -> Decision:
        return Deny()


async def test_what_a_reviewer_cannot_show_is_refused_as_shown_to_nobody():
    """A subclass writes the methods for what it can show; for all else there is no reviewer."""
    host = Host("echo", reviewer=CallsOnly())
    form = ElicitRequestParams(message="m", requested_schema={"type": "object", "properties": {}})
    for asked, reason in (
        (host.confirm(CallToolRequestParams.of("order", {}), origin("1")), "user"),
        (host(request(), origin("2")), "no-reviewer"),
    ):
        with pytest.raises(Rejected) as caught:
            await asked
        assert caught.value.data["reason"] == reason
    assert (await host.elicit(form, origin("3"))).action == "decline"


def test_the_digest_does_not_depend_on_the_order_of_keys():
    """It is over canonical JSON."""
    assert digest(request(metadata={"a": 1, "b": 2})) == digest(request(metadata={"b": 2, "a": 1}))


def test_any_change_changes_the_digest():
    """Down to one invisible character."""
    assert digest(request("a")) != digest(request("a\u200b"))
    assert digest(request()) != digest(request(max_tokens=101))


def test_content_of_unknown_type_has_a_digest():
    """What came from a newer peer can still be compared."""
    asked = request(messages=[SamplingMessage(role="user", content=UnknownContent("hologram", {"x": 1}))])
    assert len(digest(asked)) == 64


def test_the_most_of_a_request_is_the_dearest_model_that_may_answer():
    """With its fallbacks; another model that a person chooses is alone, and an edit never lowers a reservation."""
    price = {
        name: ModelPrice(input=Decimal(rate), output=Decimal(rate)) for name, rate in (("a", 1), ("b", 3), ("c", 20))
    }
    params = request()
    usage = worst_case(params)
    costs = estimate_costs(params, price["a"], None)
    worst = find_dearest(usage, [price["b"]])
    shown = ReviewItem(
        origin=origin(),
        params=params,
        received=params,
        provider="p",
        choices=CHOICES,
        model="a",
        models=("c",),
        fallbacks=("b",),
        prices=msgspec.to_builtins(price),
        costs=msgspec.structs.replace(costs, worst=worst),
    )
    assert most_of(shown) == worst.money
    assert most_of(shown, "c") == find_dearest(usage, [price["c"]]).money
    assert most_of(shown, None, request("x", max_tokens=1)) == worst.money
    longer = request("word " * 1_000)
    assert most_of(shown, None, longer) == find_dearest(worst_case(longer), [price["b"]]).money
    assert most_of(msgspec.structs.replace(shown, costs=None, prices={})) is None


def test_only_scopes_that_can_apply_are_offered():
    """Without a call there is none to allow for, and what is not pinned is not allowed for ever."""
    assert scopes_of(origin()) == ("call", "session", "always")
    assert scopes_of(origin(call=None, pinned=False)) == ("session",)
