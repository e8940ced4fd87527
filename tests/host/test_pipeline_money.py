"""Limits, money, secrets and the store, through the whole host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import pytest

from antiphon.errors import InternalError, Rejected
from antiphon.host import Approve, Budget, Cap, Deny, Host, Limits, ModelPrice, Redaction, Scripted, Terms, digest
from antiphon.host.budget import Amount, input_estimate
from antiphon.host.models.selection import Chosen
from antiphon.host.providers.base import Completion, ProviderFailure, Usage
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult, SamplingMessage, text_answer
from antiphon.wire.tools import Tool
from tests.host.asks import Person, approve, origin, request
from tests.host.store.stores import KINDS, Place

PRICE = ModelPrice(input=Decimal("0.001"), output=Decimal("0.001"))
ALONE = {"reviewer": None, "review": "never"}
FREE = Limits(per_minute=None, concurrent=None, per_call=None, concurrent_per_call=None)
KEY = "AKIAIOSFODNN7EXAMPLE"


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


class Metered:
    """A provider that says what it took, when it is let go."""

    name = "metered"
    tools = True
    personal = False

    def __init__(self, *usages: Usage | Exception | None) -> None:
        self.usages = list(usages)
        self.called = 0

    async def complete(self, params, *, model=None):
        return (await self.generate(params)).result

    async def generate(self, params, *, model=None, fallbacks=()):
        self.called += 1
        usage = self.usages.pop(0) if len(self.usages) > 1 else self.usages[0]
        if isinstance(usage, Exception):
            raise usage
        await asyncio.sleep(0)
        return Completion(result=text_answer("ok", "m"), usage=usage)


def choose(params, asked, left) -> Chosen:
    """Choose the one model there is."""
    return Chosen(prices={None: PRICE})


async def reason(host: Host, params=None, ask=None) -> str:
    """Return why the host refuses."""
    with pytest.raises(Rejected) as caught:
        await host(params or request(), ask or origin())
    return caught.value.data["reason"]


async def spent(host: Host) -> Amount:
    """Return what was spent in all, and check that nothing is held."""
    assert await host.store.holds() == []
    [total] = [balance for balance in await host.store.balances() if balance.key == "total"]
    assert total.held == Amount()
    return total.spent


async def test_what_was_used_is_spent(place: Place):
    """Not what was held; the record says how much, of which model."""
    async with place.open() as store:
        host = Host(Metered(Usage(input_tokens=7, output_tokens=5)), store=store, choose=choose, **ALONE)
        await host(request(), origin())
        assert await spent(host) == Amount(money=12, tokens=12)
        [line] = await host.audit.spending()
        assert (line.model, line.requests, line.money) == ("metered", 1, 12)


async def test_what_took_more_than_was_held_is_charged_and_ends_the_budget(place: Place):
    """The record says so, and nothing more is sent."""
    worst = input_estimate(request()) + 100
    async with place.open() as store:
        provider = Metered(Usage(input_tokens=10 * worst, output_tokens=100))
        budget = Budget(call=Cap(tokens=5 * worst))
        host = Host(provider, store=store, choose=choose, budget=budget, **ALONE)
        await host(request(), origin("1"))
        assert (await spent(host)).tokens == 10 * worst + 100
        settled = [record for record in host.audit.records("1") if record.step == "settled"]
        assert [record.outcome for record in settled] == ["over"]
        assert await reason(host, ask=origin("2")) == "budget"
        assert provider.called == 1


async def test_fifty_at_once_spend_no_more_than_the_budget(place: Place):
    """Two hosts, a budget for ten at worst: ten answers, forty refusals, all of it spent."""
    one = place.make()
    two = one if place.kind == "memory" else place.make()
    worst = input_estimate(request()) + 100
    answered = Usage(input_tokens=worst - 100, output_tokens=100)
    hosts = [
        Host(
            Metered(answered),
            store=store,
            limits=FREE,
            choose=choose,
            budget=Budget(total=Cap(money=10 * worst)),
            **ALONE,
        )
        for store in (one, two)
    ]
    outcomes = await asyncio.gather(
        *(hosts[n % 2](request(), origin(str(n), call=f"call-{n}")) for n in range(50)), return_exceptions=True
    )
    refused = [outcome.data["reason"] for outcome in outcomes if isinstance(outcome, Rejected)]
    assert (refused, sum(isinstance(outcome, CreateMessageResult) for outcome in outcomes)) == (["budget"] * 40, 10)
    assert await spent(hosts[1]) == Amount(money=10 * worst, tokens=10 * worst)
    assert sum(host.provider.called for host in hosts) == 10
    assert (await hosts[0].audit.verify()).whole
    for store in {one, two}:
        await store.aclose()


@pytest.mark.parametrize("which", ["call", "server", "day", "total"])
async def test_every_cap_holds(which: str):
    """In tokens, where there is no price."""
    budget = Budget(**{which: Cap(tokens=150)})
    host = Host(Metered(Usage(input_tokens=100, output_tokens=20)), budget=budget, **ALONE)
    await host(request(), origin("1"))
    assert await reason(host, ask=origin("2")) == "budget"
    other = await host(request(), origin("3", call="call-2")) if which == "call" else None
    assert (other is not None) == (which == "call")


async def test_a_refusal_for_money_asks_nobody():
    """A person is not asked for what cannot be paid."""
    person = Person(approve)
    host = Host(Scripted([]), reviewer=person, budget=Budget(total=Cap(tokens=1)))
    assert await reason(host) == "budget"
    assert person.shown == []


async def test_a_person_sees_what_it_may_cost():
    """And what is left."""
    person = Person(approve)
    host = Host(Scripted(["ok"]), reviewer=person, choose=choose, budget=Budget(total=Cap(money=1_000)))
    await host(request(), origin())
    costs = person.shown[0].costs
    assert costs is not None
    assert (costs.worst.money, costs.left) == (input_estimate(request()) + 100, 1_000)


async def test_what_was_denied_costs_nothing():
    """What was held is given back."""
    host = Host(Scripted([]), reviewer=Person(lambda item: Deny()), choose=choose)
    assert await reason(host) == "user"
    assert await spent(host) == Amount()


async def test_a_provider_that_said_no_took_nothing():
    """One that was cut off in the middle may have taken everything."""
    host = Host(Metered(ProviderFailure("unavailable", "no")), choose=choose, **ALONE)
    with pytest.raises(InternalError):
        await host(request(), origin())
    assert await spent(host) == Amount()
    hanging = Host(Hanging(), choose=choose, generate_timeout=0, **ALONE)
    with pytest.raises(InternalError):
        await hanging(request(), origin())
    assert (await spent(hanging)).money == input_estimate(request()) + 100


@pytest.mark.parametrize("failed", ["invalid", "refused", "timeout", "connection", None])
async def test_an_answer_that_cannot_be_used_counts(failed):
    """The model was at work: whoever asks for what comes out unusable would otherwise spend without end."""
    failure = RuntimeError("?") if failed is None else ProviderFailure(failed, "no")
    host = Host(Metered(failure), choose=choose, **ALONE)
    with pytest.raises(InternalError):
        await host(request(), origin())
    assert (await spent(host)).money == input_estimate(request()) + 100
    assert [record.outcome for record in host.audit.records() if record.step == "settled"] == ["unknown"]


class Hanging(Metered):
    """A provider that never answers."""

    def __init__(self) -> None:
        super().__init__(None)
        self.asked = asyncio.Event()

    async def generate(self, params, *, model=None, fallbacks=()):
        self.asked.set()
        await asyncio.Event().wait()


async def test_a_request_that_is_withdrawn_is_settled(place: Place):
    """With the worst case: it was sent."""
    async with place.open() as store:
        provider = Hanging()
        host = Host(provider, store=store, choose=choose, **ALONE)
        task = asyncio.create_task(host(request(), origin()))
        await provider.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (await spent(host)).money == input_estimate(request()) + 100
        last = (await store.entries())[-1].record
        assert (last.step, last.outcome) == ("settled", "unknown")


async def test_an_endless_tool_loop_ends():
    """By the limit of its call; another call goes on."""
    use = ToolUseContent(id="1", name="f", input={})
    again = CreateMessageResult(role="assistant", content=use, model="m", stop_reason="toolUse")
    host = Host(Scripted([again] * 9), limits=Limits(per_call=5), **ALONE)
    looping = request(tools=[Tool(name="f", input_schema={})])
    for number in range(5):
        await host(looping, origin(str(number)))
    assert await reason(host, looping, origin("5")) == "limit"
    await host(looping, origin("6", call="call-2"))


async def test_a_recursion_ends():
    """A provider that leads back to the server that asks: each of its asks keeps the others open."""

    class Recursive(Scripted):
        depth = 0

        async def complete(self, params, *, model=None):
            self.depth += 1
            return await host(params, origin(str(self.depth)))

    provider = Recursive([])
    host = Host(provider, limits=Limits(concurrent_per_call=4), **ALONE)
    with pytest.raises(InternalError):
        await host(request(), origin("0"))
    assert provider.depth == 4


async def test_more_tokens_than_the_limit_are_refused():
    """Not lowered: a cut answer is a wrong one."""
    host = Host(Scripted([]), limits=Limits(max_tokens=99), **ALONE)
    assert await reason(host) == "limit"


async def test_a_grant_for_a_sum_is_spent():
    """Then the person is asked again."""
    worst = input_estimate(request()) + 100
    person = Person(
        lambda item: Approve(digest=digest(item.params), scope="always", terms=Terms(money=2 * worst)),
        lambda item: Deny(),
    )
    used = Usage(input_tokens=worst - 100, output_tokens=100)
    host = Host(Metered(used), reviewer=person, choose=choose, budget=Budget())
    for number in range(3):
        await host(request(), origin(str(number)))
    assert len(person.shown) == 1
    assert await reason(host, ask=origin("3")) == "user"
    grants = [record.grant for record in host.audit.records() if record.step == "grant"]
    assert (len(grants), len(set(grants))) == (2, 1)


async def test_a_secret_is_masked_before_anybody_sees_it():
    """The provider gets what the person was shown; the difference is visible; a member by its name counts as well."""
    provider, person = Scripted(["ok"]), Person(approve)
    host = Host(provider, reviewer=person, redaction=Redaction(request="mask"))
    asked = request(f"my key: {KEY}", metadata={"password": "hunter22"})
    await host(asked, origin())
    assert (person.shown[0].received, person.shown[0].params) == (asked, provider.requests[0])
    sent = provider.requests[0]
    assert (sent.messages[0].text, sent.metadata) == ("my key: [AWS access key]", {"password": "[password]"})
    assert KEY not in str(await host.store.entries())


async def test_a_secret_is_blocked():
    """In a request, and in an answer, which was paid for."""
    host = Host(Scripted([]), redaction=Redaction(request="block"), **ALONE)
    assert await reason(host, request(f"key: {KEY}")) == "secret"
    host = Host(Metered(Usage(input_tokens=1, output_tokens=1)), redaction=Redaction(response="block"), **ALONE)
    assert (await host(request(), origin())).text == "ok"
    leaking = Host(Scripted([f"the key is {KEY}"]), redaction=Redaction(response="block"), **ALONE)
    assert await reason(leaking) == "secret"
    assert (await spent(leaking)).tokens > 0


async def test_a_secret_in_an_answer_is_masked():
    """Before the person who reviews it, and before the server."""
    person = Person(approve)
    host = Host(
        Scripted([f"it is {KEY}"]), reviewer=person, review_response="flagged", redaction=Redaction(response="mask")
    )
    assert (await host(request(), origin())).text == "it is [AWS access key]"
    assert len(person.shown) == 1


async def test_a_secret_that_holds_a_request_together_is_not_masked():
    """Masked, it would be another request: it is refused."""
    uses = [
        ToolUseContent(id=f"{KEY}", name="f", input={}),
        ToolUseContent(id="AKIAIOSFODNN7EXAMPLF", name="f", input={}),
    ]
    messages = [
        SamplingMessage(role="user", content=TextContent(text=KEY)),
        SamplingMessage(role="assistant", content=uses),
        *_results(use.id for use in uses),
    ]
    host = Host(Scripted(["x"]), redaction=Redaction(request="mask"), **ALONE)
    assert await reason(host, request(messages=messages)) == "secret"


def _results(ids) -> list[SamplingMessage]:
    from antiphon.wire.content import ToolResultContent

    results = [ToolResultContent(tool_use_id=id, content=[TextContent(text="x")]) for id in ids]
    return [SamplingMessage(role="user", content=results)]


async def test_an_answer_is_reviewed_where_it_is_flagged():
    """With a warning; others go by."""
    person = Person(lambda item: Deny())
    host = Host(Scripted(["plain", f"key: {KEY}"]), reviewer=person, review="never", review_response="flagged")
    assert (await host(request(), origin("1"))).text == "plain"
    assert await reason(host, ask=origin("2")) == "user"


@pytest.mark.parametrize("failures", [1, 2])
async def test_what_cannot_be_recorded_is_not_done(failures: int):
    """A store that fails, for once or for good, lets nothing through."""
    provider = Scripted(["never"])
    host = Host(provider, **ALONE)
    commit, left = host.store.commit, failures

    async def broken(change):
        nonlocal left
        left -= 1
        if left >= 0:
            raise OSError("disk full")
        return await commit(change)

    host.store.commit = broken
    with pytest.raises(InternalError):
        await host(request(), origin())
    assert provider.requests == []
