"""A request of the person's own: priced, budgeted and recorded as such, and no server's."""

from __future__ import annotations

from decimal import Decimal

import pytest

from antiphon.errors import ConfigError, InternalError, InvalidParams, Rejected
from antiphon.host import Budget, Cap, Echo, Host, Limits, Manual, MemoryStore, Policy, Scripted
from antiphon.host.budget import DOLLAR
from antiphon.host.config import ServerEntry
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.own_request import PERSON, make_person_origin
from antiphon.host.store.ask_rows import Sought
from antiphon.host.store.chain import Record
from tests.host.asks import SERVER, origin, request
from tests.host.test_configured_host import configured

PRICE = ModelPrice(input=Decimal(1), output=Decimal(1_000))
DEAR = ModelPrice(input=Decimal(1), output=Decimal(5_000))


def models(**more: ModelPrice) -> Models:
    """Make a catalogue of echoes: two models, or those with these prices."""
    prices = more or {"cheap": PRICE, "dear": DEAR}
    return Models(
        ModelCatalogue(
            [
                Model(name=name, provider="echo", model="echo", context=100_000, tools=True, price=price)
                for name, price in prices.items()
            ]
        ),
        {},
    )


async def records(store: MemoryStore) -> list[Record]:
    """Return what was recorded."""
    return [entry.record for entry in await store.entries()]


async def test_it_is_answered_without_asking_anybody():
    """Not even where the policy denies servers everything and nobody reviews; the person is who asks."""
    provider = Scripted(["A warm one."])
    host = Host(provider, policy=Policy(default="deny"), reviewer=None)
    done = await host.complete(request(), identity="command:x", by="Ann")
    assert (done.result.text, done.model, done.money) == ("A warm one.", "scripted", None)
    assert provider.requests == [request()]


async def test_it_is_recorded_as_the_persons():
    """Step by step, with who asked; its answer was handed to no server."""
    store = MemoryStore()
    done = await Host(models(), store=store, reviewer=None).complete(
        request(), identity="command:x", by="Ann", model="dear"
    )
    steps = await records(store)
    assert {(each.identity, each.ask) for each in steps} == {(PERSON, done.ask)}
    assert [each.step for each in steps] == ["received", "policy", "review", "generate", "answered", "settled"]
    assert (steps[2].outcome, steps[2].by) == ("own", "Ann")
    await store.gather()
    (row,) = (await store.asks(Sought())).rows
    assert (row.decision, row.by, row.ending, row.outcome, row.model) == ("own", "Ann", "answered", "", "dear")
    assert (row.server, done.model) == (make_person_origin().target, "dear")


async def test_it_is_charged_to_the_budgets():
    """Those of the day and in total, and that of the person; one that is too dear is not sent."""
    budget = Budget(day=Cap(money=DOLLAR))
    store = MemoryStore()
    host = Host(models(), store=store, reviewer=None, budget=budget)
    offers = await host.offers(request(), "command:x")
    # A hundred tokens at $5,000 a million are fifty cents, and some more for what is asked.
    assert [(each.model, 100 * (each.cost or 0) // DOLLAR) for each in offers] == [("cheap", 10), ("dear", 50)]
    await host.complete(request(), identity="command:x")
    assert [balance.key for balance in await store.balances("server:")] == [f"server:{PERSON}"]
    with pytest.raises(Rejected) as caught:
        await Host(models(dear=DEAR), reviewer=None, budget=Budget(day=Cap(money=DOLLAR // 10))).complete(
            request(), identity="command:x"
        )
    assert caught.value.data["reason"] == "budget"


async def test_only_models_that_may_answer_its_server_are_offered():
    """What a server said goes no further than that server's requests would have."""
    shop = ServerEntry(target=tuple(SERVER), models=("one",))
    host = configured(shop)
    known = shop.find_identity
    assert [each.model for each in await host.offers(request(), known)] == ["one"]
    assert [each.model for each in await host.offers(request(), "command:other")] == ["one", "two"]
    with pytest.raises(InternalError):
        await host.complete(request(), identity=known, model="two")


async def test_limits_hold_for_the_person_too():
    """A page that runs wild spends no more than a server that does."""
    host = Host(Scripted(["ok"] * 9), reviewer=None, limits=Limits(per_minute=2))
    for _ in range(2):
        await host.complete(request(), identity="command:x")
    with pytest.raises(Rejected) as caught:
        await host.complete(request(), identity="command:x")
    assert caught.value.data["reason"] == "limit"


async def test_what_is_not_valid_or_has_no_model_is_refused():
    """Where only a person answers, there is nobody to ask."""
    with pytest.raises(InvalidParams):
        await Host(Echo(), reviewer=None).complete(request(max_tokens=0), identity="command:x")
    manual = Host(Manual(), reviewer=None)
    for asking in (manual.complete(request(), identity="command:x"), manual.offers(request(), "command:x")):
        with pytest.raises(Rejected) as caught:
            await asking
        assert caught.value.data["reason"] == "no-model"


async def test_content_is_kept_only_where_that_is_asked_for():
    """As of any request."""
    for keep in (False, True):
        store = MemoryStore()
        await Host(Scripted(["ok"]), store=store, reviewer=None, keep_content=keep).complete(
            request(), identity="command:x"
        )
        assert any(each.content is not None for each in await records(store)) == keep


async def test_a_failure_of_the_provider_is_told_without_its_text():
    """The page shows no more than a server would hear."""
    host = Host(Scripted([RuntimeError("sk-secret")]), reviewer=None)
    with pytest.raises(InternalError) as caught:
        await host.complete(request(), identity="command:x")
    assert "sk-secret" not in str(caught.value)


def test_each_of_them_has_a_name_of_its_own():
    """The same person, another ask."""
    assert make_person_origin().id != make_person_origin().id
    assert make_person_origin().identity == PERSON != origin().identity


async def test_a_program_asks_with_texts_messages_and_tools():
    """A text is a message of the user; the other members are those of a request."""
    provider = Scripted(["yes"])
    host = Host(provider, reviewer=None)
    answer = await host.complete(["Is it warm?", "Say yes or no."], system_prompt="Be short.", max_tokens=5)
    assert (answer.text, answer.blocks) == ("yes", answer.result.blocks)
    [sent] = provider.requests
    assert [message.text for message in sent.messages] == ["Is it warm?", "Say yes or no."]
    assert (sent.system_prompt, sent.max_tokens) == ("Be short.", 5)


async def test_a_whole_request_takes_no_further_members():
    """A member beside it would be left out without a word."""
    with pytest.raises(ConfigError, match="has its own max_tokens"):
        await Host(Echo(), reviewer=None).complete(request(), max_tokens=5)
