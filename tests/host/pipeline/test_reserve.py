"""A model is chosen, and its worst case held: what is left is heeded, and looked at only where it matters."""

from __future__ import annotations

from decimal import Decimal

import pytest

from antiphon.errors import Rejected
from antiphon.host import Approve, Budget, Cap, Edit, Host, MemoryStore, Policy, Terms, digest
from antiphon.host.budget import DOLLAR
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.providers.base import Completion, Usage
from antiphon.wire.sampling import ModelPreferences, text_answer
from tests.host.asks import Person, approve, origin, request

CLEVER = request(model_preferences=ModelPreferences(intelligence_priority=1.0))
ALLOWED = Policy(default="allow")


def model(name: str, dollars: int, tier: int) -> Model:
    """Make a model of a vendor, at so many dollars per thousand tokens."""
    price = ModelPrice(input=Decimal(0), output=Decimal(dollars * 1_000))
    return Model(name=name, provider="openai", model=name, context=1_000, price=price, intelligence=tier, key="KEY")


class Provider(Models):
    """Two models, of which the clever one takes a dollar for 100 tokens, the other a tenth of that."""

    def __init__(self) -> None:
        super().__init__(ModelCatalogue((model("clever", 10, 5), model("plain", 1, 1))), {"KEY": "x"})
        self.asked: list[str] = []

    async def generate(self, params, *, model=None, fallbacks=()):
        self.asked.append(model)
        usage = Usage(input_tokens=0, output_tokens=params.max_tokens)
        return Completion(result=text_answer(model, model), usage=usage, by=model)


class Watched(MemoryStore):
    """A store that counts the looks at the accounts."""

    looks = 0

    async def balances_of(self, keys):
        self.looks += 1
        return await super().balances_of(keys)


def spending(cents: int) -> Budget:
    """Allow so many cents in all."""
    return Budget(call=Cap(), day=Cap(), total=Cap(money=cents * DOLLAR // 100))


async def test_nobody_looks_at_the_accounts_while_they_suffice():
    """The reservation itself would refuse."""
    store = Watched()
    host = Host(Provider(), reviewer=None, policy=ALLOWED, store=store, budget=spending(1000))
    for number in range(10):
        assert (await host(CLEVER, origin(str(number)))).model == "clever"
    assert store.looks == 0
    with pytest.raises(Rejected):
        await host(CLEVER, origin("11"))


async def test_what_is_left_decides_which_model_can_answer():
    """Two dollars and twenty cents: two answers by the clever one, two by the plain one, and nothing more."""
    provider = Provider()
    host = Host(provider, reviewer=None, policy=ALLOWED, budget=spending(220))
    for number in range(4):
        await host(CLEVER, origin(str(number)))
    with pytest.raises(Rejected) as caught:
        await host(CLEVER, origin("5"))
    assert provider.asked == ["clever", "clever", "plain", "plain"]
    assert caught.value.data == {"reason": "budget"}
    [total] = await host.store.balances("total")
    assert (total.spent.money, total.held.money) == (220 * DOLLAR // 100, 0)


async def test_a_person_sees_what_is_left():
    """Before each request, to the last cent."""
    person = Person(approve)
    host = Host(Provider(), reviewer=person, budget=spending(120))
    await host(CLEVER, origin("1"))
    await host(CLEVER, origin("2"))
    assert [(item.model, item.costs.left * 100 // DOLLAR) for item in person.shown] == [("clever", 120), ("plain", 20)]


async def test_a_grant_for_a_sum_chooses_within_the_budget():
    """What was granted goes without asking, by the model that can still be paid."""
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session", terms=Terms(money=5 * DOLLAR)))
    provider = Provider()
    host = Host(provider, reviewer=person, budget=spending(210))
    for number in range(3):
        await host(CLEVER, origin(str(number)))
    assert (provider.asked, len(person.shown)) == (["clever", "clever", "plain"], 1)


@pytest.mark.parametrize(("tokens", "allowed"), [(150, False), (10_000, True)])
async def test_what_a_person_adds_is_held_as_well(tokens: int, allowed: bool):
    """An edited request may be longer than what was reserved for; if that is not left, it is not sent."""
    edited = request("Describe a sweater, " + "at great length, " * 50)
    provider = Provider()
    host = Host(
        provider,
        reviewer=Person(lambda item: Edit(params=edited, digest=digest(edited))),
        budget=Budget(total=Cap(tokens=tokens)),
    )
    if allowed:
        assert (await host(request(), origin())).text == "plain"
    else:
        with pytest.raises(Rejected) as caught:
            await host(request(), origin())
        assert caught.value.data == {"reason": "budget"}
    assert (len(provider.asked), await host.store.holds()) == (int(allowed), [])
