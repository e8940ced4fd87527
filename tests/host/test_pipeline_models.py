"""Whoever reviews may have another model answer, before and after."""

from __future__ import annotations

import asyncio
from decimal import Decimal

import msgspec
import pytest

from antiphon.errors import InternalError, Rejected
from antiphon.host import Approve, Budget, Cap, Deny, Edit, Host, MemoryStore, Queue, Regenerate, Scripted, digest
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.models.selection import Chosen, make_chooser
from antiphon.host.pipeline.sampling_stages import MAX_ANSWERS
from antiphon.host.providers.base import Completion, Usage
from antiphon.host.review.given_grants import Grant
from antiphon.host.review.queue import Mismatch
from antiphon.wire.sampling import ModelHint, ModelPreferences, text_answer
from tests.host.asks import Person, approve, origin, request


def model(name: str, dollars: int, **more) -> Model:
    """Make a model at this price per million tokens."""
    price = ModelPrice(input=Decimal(dollars), output=Decimal(dollars))
    return Model(name=name, provider="openai", model=name, context=100_000, price=price, key="KEY", **more)


CATALOGUE = ModelCatalogue(
    (model("cheap", 1), model("dear", 100, fallback="spare"), model("spare", 1_000)), default="cheap"
)


class Provider(Models):
    """Answers with the name of the model, and a number."""

    def __init__(self, by: str | None = None) -> None:
        super().__init__(CATALOGUE, {"KEY": "x"})
        self.asked: list[tuple[str | None, tuple[str, ...]]] = []
        self.warmed: list[str | None] = []
        self.ready = asyncio.Event()
        self._by = by

    async def generate(self, params, *, model=None, fallbacks=()):
        self.asked.append((model, fallbacks))
        by = self._by or model
        text = f"{by} {len(self.asked)}"
        return Completion(result=text_answer(text, by), usage=Usage(input_tokens=1_000, output_tokens=0), by=by)

    async def stream(self, params, growth, *, model=None, fallbacks=()):
        return await self.generate(params, model=model, fallbacks=fallbacks)

    async def warm(self, model=None):
        self.warmed.append(model)
        self.ready.set()
        raise OSError("no network yet")


def switch(name: str):
    """Approve, by another model."""
    return lambda item: Approve(digest=digest(item.params), model=name)


async def spent(host: Host) -> int:
    """Return the nano-dollars that were spent."""
    return next(row.spent.money for row in await host.store.balances() if row.key == "total")


async def test_the_review_shows_which_model_answers():
    """And which others could."""
    person = Person(approve)
    await Host(Provider(), reviewer=person)(request(), origin())
    assert (person.shown[0].model, person.shown[0].models) == ("cheap", ("dear", "spare"))


async def test_another_model_answers_and_is_paid():
    """Nobody stands in for a model that a person chose."""
    provider = Provider()
    host = Host(provider, reviewer=Person(switch("dear")))
    assert (await host(request(), origin())).text == "dear 1"
    assert provider.asked == [("dear", ())]
    assert await spent(host) == 100_000_000
    assert await host.store.holds() == []


async def test_an_edited_request_may_go_to_another_model():
    """Both at once."""
    edited = request("Describe a hat")
    provider = Provider()
    host = Host(provider, reviewer=Person(lambda item: Edit(params=edited, digest=digest(edited), model="spare")))
    await host(request(), origin())
    assert provider.asked == [("spare", ())]


async def test_the_budget_holds_for_the_model_a_person_chose():
    """Only those are offered that it allows; one that it no longer does is refused."""
    person = Person(switch("dear"))
    small = Budget(call=Cap(money=1_000_000))
    with pytest.raises(InternalError):
        await Host(Provider(), reviewer=person, budget=small)(request(), origin())
    assert person.shown[0].models == ()
    # Chosen as if there were no budget, so that it is the reservation that refuses.
    choose = make_chooser(Provider())
    host = Host(
        Provider(), reviewer=person, budget=small, choose=lambda params, asked, left: choose(params, asked, None)
    )
    with pytest.raises(Rejected) as caught:
        await host(request(), origin())
    assert caught.value.data == {"reason": "budget"}
    assert await host.store.holds() == []


async def test_a_model_that_is_not_offered_is_not_used():
    """Whatever the reviewer says."""
    provider = Provider()
    with pytest.raises(InternalError):
        await Host(provider, reviewer=Person(switch("gpt-9")))(request(), origin())
    assert provider.asked == []


async def test_the_dearest_that_may_answer_is_reserved():
    """The model and those that stand in for it; settled at the price of the one that did."""
    host = Host(Provider(by="spare"), reviewer=None, review="never", choose=lambda *asked: dear())
    held: list[int] = []
    commit = host.store.commit

    async def watched(change):
        held.extend([change.hold.amount.money] if change.hold else [])
        return await commit(change)

    host.store.commit = watched
    await host(request(), origin())
    assert held[0] > 100_000 * 1_000
    assert await spent(host) == 1_000_000_000


def dear() -> Chosen:
    """Choose the model that has a fallback."""
    prices = {name: CATALOGUE.get(name).price for name in ("cheap", "dear", "spare")}
    return Chosen(model="dear", fallbacks=("spare",), others=("cheap", "spare"), prices=prices)


async def test_an_answer_is_generated_once_more():
    """By the same model or another; each is paid, the last one is what the server gets."""
    provider = Provider()
    person = Person(approve, lambda item: Regenerate(), lambda item: Regenerate(model="dear"), approve)
    host = Host(provider, reviewer=person, review_response="always")
    # As many tokens as the answers take: what is held is enough for them.
    assert (await host(request(max_tokens=1_000), origin())).text == "dear 3"
    assert [asked for asked, _ in provider.asked] == ["cheap", "cheap", "dear"]
    assert await spent(host) == 102_000_000
    assert await host.store.holds() == []
    steps = [(record.step, record.outcome) for record in host.audit.records() if record.step in ("response", "settled")]
    assert steps == [
        *(("settled", "used"), ("response", "regenerate")) * 2,
        ("settled", "used"),
        ("response", "approve"),
    ]
    assert (await host.audit.verify()).whole


async def test_answers_are_not_generated_for_ever():
    """A reviewer that is a program may never be content."""
    provider = Provider()
    host = Host(provider, reviewer=Person(approve, lambda item: Regenerate()), review_response="always")
    with pytest.raises(Rejected) as caught:
        await host(request(), origin())
    assert caught.value.data == {"reason": "limit"}
    assert len(provider.asked) == MAX_ANSWERS + 1


async def test_a_regenerated_answer_is_within_the_budget():
    """What is left may not be enough for one more."""
    host = Host(
        Provider(),
        reviewer=Person(approve, lambda item: Regenerate()),
        review_response="always",
        budget=Budget(call=Cap(money=2_500_000)),
    )
    with pytest.raises(Rejected) as caught:
        await host(request(), origin())
    assert caught.value.data == {"reason": "budget"}


async def test_the_provider_gets_ready_while_a_person_reviews():
    """The model that was chosen; that it fails is no matter yet."""
    provider = Provider()

    class Slow(Person):
        async def review(self, item):
            await provider.ready.wait()
            return await super().review(item)

    assert (await Host(provider, reviewer=Slow(approve))(request(), origin())).text == "cheap 1"
    assert provider.warmed == ["cheap"]


async def test_the_queue_takes_these_decisions():
    """Of the models that are offered, and of no other."""
    store, provider = MemoryStore(), Provider()
    queue = Queue(store)
    host = Host(provider, reviewer=queue, store=store, review_response="always")
    task = asyncio.create_task(host(request(), origin()))
    left = [lambda item: Approve(digest=digest(item.params), model="dear"), lambda item: Regenerate(), approve]
    async for _ in queue.changes():
        for question in await queue.pending():
            if question.kind == "request":
                with pytest.raises(Mismatch):
                    await queue.decide(
                        question.id, Approve(digest=digest(question.item.params), model="gpt-9"), hash=question.hash
                    )
                with pytest.raises(Mismatch):
                    await queue.decide(question.id, Regenerate(), hash=question.hash)
            await queue.decide(question.id, left.pop(0)(question.item), by="me", hash=question.hash)
        if not left:
            break
    assert (await task).text == "dear 2"
    assert len(provider.asked) == 2
    assert {question.state for question in await queue.history()} == {"done"}


async def test_a_denial_in_the_queue_may_block():
    """Written down with who did it."""
    store = MemoryStore()
    queue = Queue(store)
    task = asyncio.create_task(Host(reviewer=queue, store=store)(request(), origin()))
    changes = queue.changes()
    while not (pending := await queue.pending()):
        await anext(changes)
    await queue.decide(pending[0].id, Deny(reach="server"), by="me", hash=pending[0].hash)
    with pytest.raises(Rejected):
        await task
    assert [row.by for row in await store.blocks()] == ["me"]


LOCAL = Model(
    name="home",
    provider="openai-compatible",
    model="home",
    context=100_000,
    base_url="http://127.0.0.1:1/v1",
    price=ModelPrice(input=Decimal(0), output=Decimal(0)),
)


class Places(Provider):
    """A model at home, which is the user's own choice, and one of a vendor, which servers may hint at."""

    def __init__(self, *, fallback: str | None = None) -> None:
        super().__init__()
        home = msgspec.structs.replace(LOCAL, fallback=fallback)
        self.catalogue = ModelCatalogue((home, model("cloud", 1), model("dearer", 9)), default="home")


def hinting(name: str):
    """Make a request that hints at a model."""
    return request(model_preferences=ModelPreferences(hints=[ModelHint(name=name)]))


def grants(scope: str = "session"):
    """Approve, and all its like."""
    return lambda item: Approve(digest=digest(item.params), scope=scope)


async def test_a_grant_for_a_local_model_is_none_for_a_vendor():
    """A server gets it for the model at home, and hints at the cloud: the person is asked again, and sees which."""
    provider, person = Places(), Person(grants(), lambda item: Deny())
    host = Host(provider, reviewer=person)
    await host(request(), origin("1"))
    await host(request("Describe a hat"), origin("2"))
    with pytest.raises(Rejected):
        await host(hinting("cloud"), origin("3"))
    assert [item.model for item in person.shown] == ["home", "cloud"]
    assert [name for name, _ in provider.asked] == ["home", "home"]
    [given] = await host.grants.all()
    assert (given.grant.models, given.grant.reaches) == (("home",), ("local",))


async def test_a_grant_for_a_vendor_covers_what_is_nearer_and_cheaper_and_nothing_dearer():
    """Of the same vendor a model at a higher price is asked for again."""
    provider, person = Places(), Person(grants(), lambda item: Deny())
    host = Host(provider, reviewer=person)
    await host(hinting("cloud"), origin("1"))
    await host(request(), origin("2"))
    with pytest.raises(Rejected):
        await host(hinting("dearer"), origin("3"))
    assert [name for name, _ in provider.asked] == ["cloud", "home"]


async def test_a_fallback_beyond_a_grant_does_not_stand_in():
    """An approval shows who may stand in, and a grant that was given without them leaves them out."""
    near, person = Places(), Person(grants("always"), approve)
    store = MemoryStore()
    await Host(near, reviewer=person, store=store)(request(), origin("1"))
    far = Places(fallback="cloud")
    host = Host(far, reviewer=person, store=store)
    await host(request(), origin("2"))
    assert far.asked == [("home", ())]
    await host(request(system_prompt="Another"), origin("3"))
    assert person.shown[-1].fallbacks == ("cloud",)
    assert far.asked[-1] == ("home", ("cloud",))


async def test_a_grant_that_names_no_model_covers_no_vendor():
    """It covers the model at home and the provider's own, and a person is asked about a vendor's."""
    store, provider, person = MemoryStore(), Places(), Person(lambda item: Deny())
    host = Host(provider, reviewer=person, store=store)
    await host.grants.add(Grant.give(request(), origin(), "always"))
    await host(request(), origin("1"))
    with pytest.raises(Rejected):
        await host(hinting("cloud"), origin("2"))
    assert (await Host(Scripted(["ok"]), reviewer=person, store=store)(request(), origin("3"))).text == "ok"


@pytest.mark.parametrize(
    ("made", "reach"),
    [
        ({"provider": "echo"}, "local"),
        ({"provider": "openai-compatible", "base_url": "http://localhost:11434/v1"}, "local"),
        ({"provider": "openai-compatible", "base_url": "http://192.168.1.5/v1"}, "local"),
        ({"provider": "openai-compatible", "base_url": "https://llm.example/v1"}, "openai-compatible@llm.example"),
        ({"provider": "anthropic"}, "anthropic"),
    ],
)
def test_how_far_a_request_to_a_model_travels(made: dict[str, str], reach: str):
    """Home is this machine and its own network."""
    assert Model(name="m", model="m", **made).reach == reach
