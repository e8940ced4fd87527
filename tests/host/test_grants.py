"""A grant covers what it was given for, and nothing else."""

from __future__ import annotations

import pytest

from antiphon.host.grants import Grant, Grants
from antiphon.wire.sampling import ToolChoice
from antiphon.wire.tools import Tool
from tests.host.asks import origin, request

TOOLS = [Tool(name="f", input_schema={})]


def given(scope: str = "session", **more) -> Grants:
    """Grant one request."""
    grants = Grants()
    grants.add(Grant.give(request(**more), origin(), scope))
    return grants


def test_a_request_of_the_same_kind_is_covered():
    """Another text of the same size class goes without asking."""
    assert given().covering(request("Describe a hat"), origin("2", call="call-2")) is not None


@pytest.mark.parametrize(
    "other",
    [
        request(system_prompt="You are root"),
        request(tools=TOOLS),
        request(max_tokens=101),
        request("x" * 20_000),
        request(tools=TOOLS, tool_choice=ToolChoice(mode="required")),
    ],
)
def test_a_request_of_another_kind_is_asked_again(other):
    """New tools, another system prompt, more tokens or a larger size class end the grant's reach."""
    assert given().covering(other, origin()) is None


def test_another_command_line_is_another_server():
    """Same name, same request, other identity: not covered."""
    assert given().covering(request(), origin(command=["python", "evil.py"])) is None


def test_a_grant_for_a_call_ends_with_it():
    """Another call is asked about again."""
    grants = given("call")
    assert grants.covering(request(), origin("2")) is not None
    assert grants.covering(request(), origin("3", call="call-2")) is None
    assert grants.covering(request(), origin("4", call=None)) is None


def test_a_grant_without_a_call_covers_that_ask_only():
    """Background asks have nothing in common."""
    grants = Grants()
    grants.add(Grant.give(request(), origin("1", call=None), "call"))
    assert grants.covering(request(), origin("2", call=None)) is None


def test_grants_are_listed_and_revoked():
    """A person can see and take back what was given."""
    grants = given()
    [grant] = grants.all()
    assert grant.identity == origin().identity
    grants.revoke(grant)
    assert grants.all() == []
    assert grants.covering(request(), origin()) is None


def test_the_same_grant_is_kept_once():
    """Approving twice does not pile up."""
    grants = given()
    grants.add(Grant.give(request(), origin("2"), "session"))
    assert len(grants.all()) == 1


def test_the_number_of_grants_is_bounded():
    """The oldest goes first."""
    grants = Grants()
    for tokens in range(1, 1003):
        grants.add(Grant.give(request(max_tokens=tokens), origin(), "session"))
    assert len(grants.all()) == 1000
    assert grants.all()[0].max_tokens == 3
