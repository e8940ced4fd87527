"""A grant covers what it was given for, and nothing else."""

from __future__ import annotations

import math

import msgspec
import pytest

from antiphon.host.budget import Account, Cap
from antiphon.host.review.given_grants import Grant, Grants, GrantScope
from antiphon.host.review.review import UNBOUNDED, USUAL, Terms
from antiphon.host.store.base import Change
from antiphon.host.store.memory_store import MemoryStore
from antiphon.wire.sampling import ToolChoice
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin, request
from tests.host.store.stores import Clock

TOOLS = [Tool(name="f", input_schema={})]


async def given(scope: str = "session", terms: Terms | None = None, **more) -> Grants:
    """Grant one request."""
    grants = Grants()
    await grants.add(Grant.give(request(**more), origin(), scope, terms))
    return grants


@pytest.mark.parametrize("named", [None, Terms()])
@pytest.mark.parametrize("scope", ["call", "session", "always"])
def test_a_grant_that_names_no_bound_has_the_usual_ones(scope: GrantScope, named: Terms | None):
    """Whoever gives it, code included; calls of a tool have no cost to bound."""
    assert Grant.give(request(), origin(), scope, named).terms == USUAL
    call = CallToolRequestParams(name="order", arguments={})
    assert Grant.give(call, origin(), scope, named).terms == Terms(uses=USUAL.uses)


def test_a_grant_is_unbounded_only_by_name():
    """And then has no other bound."""
    assert Grant.give(request(), origin(), "always", UNBOUNDED).terms.uses is None
    with pytest.raises(ValueError, match="not both"):
        Terms(uses=3, unbounded=True)


@pytest.mark.parametrize(
    "odd",
    [
        {"uses": -1},
        {"money": -1},
        {"uses": 2**63},
        {"money": 10**20},
        {"until": -1.0},
        {"until": 1e12},
        {"until": math.nan},
    ],
)
def test_odd_bounds_are_refused(odd: dict[str, float]):
    """A negative one would count as used up only later, and a time without a date would break each list of grants.

    One that no database takes would fail only when the grant is kept, after the decision.
    """
    with pytest.raises(ValueError, match="bounds from 0 to 9223372036854775807, and end before"):
        Terms(**odd)


def test_a_bound_that_is_named_stands_alone():
    """The usual ones are not added to it."""
    assert Grant.give(request(), origin(), "always", Terms(until=9.0)).terms == Terms(until=9.0)


async def test_a_grant_of_an_earlier_release_stays_what_it_was():
    """It was given for as long as nobody revokes it, and covers what it covered."""
    grants = Grants()
    await grants.add(msgspec.structs.replace(Grant.give(request(), origin(), "always"), terms=Terms()))
    assert len(await grants.covering(request(), origin("2"))) == 1


async def test_a_request_of_the_same_kind_is_covered():
    """Another text of the same size class goes without asking."""
    grants = await given()
    assert len(await grants.covering(request("Describe a hat"), origin("2", call="call-2"))) == 1


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
async def test_a_request_of_another_kind_is_asked_again(other):
    """New tools, another system prompt, more tokens or a larger size class end the grant's reach."""
    assert await (await given("always")).covering(other, origin()) == []


async def test_another_command_line_is_another_server():
    """Same name, same request, other identity: not covered."""
    assert await (await given()).covering(request(), origin(command=["python", "evil.py"])) == []


async def test_a_grant_for_a_call_ends_with_it():
    """Another call is asked about again."""
    grants = await given("call")
    assert len(await grants.covering(request(), origin("2"))) == 1
    assert await grants.covering(request(), origin("3", call="call-2")) == []
    assert await grants.covering(request(), origin("4", call=None)) == []


async def test_a_grant_without_a_call_covers_that_ask_only():
    """Background asks have nothing in common."""
    grants = Grants()
    await grants.add(Grant.give(request(), origin("1", call=None), "call"))
    assert await grants.covering(request(), origin("2", call=None)) == []


async def test_grants_are_listed_and_revoked():
    """A person can see and take back what was given; by its id or by itself."""
    grants = await given()
    [grant] = await grants.all()
    assert grant.grant.identity == origin().identity
    assert await grants.revoke(grant)
    assert not await grants.revoke(grant.id)
    assert await grants.all() == []
    assert await grants.covering(request(), origin()) == []


async def test_the_same_grant_is_kept_once():
    """Approving twice does not pile up."""
    grants = await given("session", UNBOUNDED)
    await grants.add(Grant.give(request(), origin("2"), "session", UNBOUNDED))
    assert len(await grants.all()) == 1


async def test_the_number_of_grants_in_memory_is_bounded():
    """The oldest goes first."""
    grants = Grants()
    for tokens in range(1, 1003):
        await grants.add(Grant.give(request(max_tokens=tokens), origin(), "session"))
    listed = await grants.all()
    assert (len(listed), listed[0].grant.max_tokens) == (1000, 3)


async def test_a_grant_for_some_requests_is_used_up():
    """Counted in the transaction that sends; used up, it covers nothing."""
    store = MemoryStore()
    grants = Grants(store)
    grant = await grants.add(Grant.give(request(), origin(), "always", Terms(uses=2)))
    assert [await store.commit(Change(use=grant.id)) for _ in range(3)] == [None, None, "grant"]
    assert await grants.covering(request(), origin()) == []


async def test_a_grant_for_some_time_ends():
    """At its moment, by the store's clock."""
    now = [1000.0]
    store = MemoryStore(clock=lambda: now[0])
    grants = Grants(store)
    grant = await grants.add(Grant.give(request(), origin(), "always", Terms(until=1060.0)))
    assert len(await grants.all()) == 1
    now[0] = 1060.0
    assert await grants.all() == []
    assert await store.commit(Change(use=grant.id)) == "grant"


@pytest.mark.parametrize(("set_back", "covers"), [(0.0, 1), (1800.0, 0), (4000.0, 0)])
async def test_a_grant_lasts_no_longer_though_the_clock_is_set_back(set_back: float, covers: int):
    """Given for an hour, of which 50 minutes are over by the clock that nobody sets, and then 61."""
    wall, steady = Clock(), Clock()
    grants = Grants(MemoryStore(clock=wall))
    grants.clock, grants.monotonic = wall, steady
    await grants.add(Grant.give(request(), origin(), "always", Terms(until=wall.now + 3600.0)))
    wall.now += 3000.0
    steady.now += 3000.0
    assert len(await grants.covering(request(), origin())) == 1
    wall.now -= set_back
    steady.now += 0.0 if covers else 660.0
    assert len(await grants.covering(request(), origin())) == covers


async def test_a_grant_is_not_known_before_it_was_given(monkeypatch: pytest.MonkeyPatch):
    """Another process gave it, and the clock was set back by a day since: it is asked about again."""
    wall = Clock()
    store = MemoryStore(clock=wall)
    monkeypatch.setattr(Grants, "clock", wall)
    await Grants(store).add(Grant.give(request(), origin(), "always", Terms(until=wall.now + 3600.0)))
    assert len(await Grants(store).covering(request(), origin())) == 1
    wall.now -= 86_400.0
    assert await Grants(store).covering(request(), origin()) == []


async def test_a_grant_for_a_sum_is_an_account():
    """What goes by it is reserved there as well."""
    grants = await given("always", Terms(money=5))
    [grant] = await grants.all()
    assert grant.accounts == (Account(key=f"grant:{grant.id}", cap=Cap(money=5)),)
    [plain] = await (await given("session", Terms(uses=3))).all()
    assert plain.accounts == ()


def test_a_permission_for_what_is_not_pinned_ends_with_the_process():
    """Whichever version is fetched next may be another program."""
    given = Grant.give(request(), origin(pinned=False), "always")
    assert given.scope == "session"
    assert not Grant.give(request(), origin(), "always").covers(request(), origin(pinned=False))
