"""The same request answered by two models: both are charged, one of the answers is sent, and none is lost."""

from __future__ import annotations

import msgspec
import pytest

from antiphon.errors import Rejected
from antiphon.host import Approve, Budget, Cap, Deny, Host, MemoryStore, Queue, Redaction, Regenerate, digest
from antiphon.host.providers.base import ProviderFailure
from antiphon.host.review.queue import Mismatch
from antiphon.host.review.review import hash_of
from antiphon.host.store.ask_rows import Sought
from antiphon.host.store.base import BlockRow
from tests.host.asks import Person, approve, origin, request
from tests.host.test_pipeline_models import Provider


class Failing(Provider):
    """A provider one of whose models fails, or answers something else."""

    def __init__(self, failing: str, *, text: str = "") -> None:
        super().__init__()
        self.failing = failing
        self.text = text

    async def generate(self, params, *, model=None, fallbacks=()):
        done = await super().generate(params, model=model, fallbacks=fallbacks)
        if model != self.failing:
            return done
        if not self.text:
            raise ProviderFailure("unavailable", "down", charged=False)
        content = msgspec.structs.replace(done.result.content, text=self.text)
        return msgspec.structs.replace(done, result=msgspec.structs.replace(done.result, content=content))


def both(item):
    """Approve, and have "dear" answer as well."""
    return Approve(digest=digest(item.params), beside="dear")


def second(item):
    """Choose the second answer."""
    return Approve(digest=digest(item.rival.result))


async def test_both_answers_are_shown_and_the_second_can_be_chosen():
    """With model, cost and time; without ``review_response`` the person chooses all the same."""
    store, person = MemoryStore(), Person(both, second)
    result = await Host(Provider(), reviewer=person, store=store)(request(), origin())
    assert result.text == "dear 2"
    shown = person.shown[1]
    assert (shown.result.text, shown.rival.result.text) == ("cheap 1", "dear 2")
    # A thousand tokens at $1 and $100 a million.
    assert (shown.figures.model, shown.figures.money) == ("cheap", 1_000_000)
    assert (shown.rival.figures.model, shown.rival.figures.money) == ("dear", 100_000_000)
    assert shown.rival.figures.seconds >= 0
    await store.gather()
    (row,) = (await store.asks(Sought())).rows
    assert (row.money, row.model, row.ending) == (101_000_000, "dear", "answered")
    assert await store.holds() == []


async def test_the_first_can_be_chosen():
    """Both were charged all the same, and the record says whose answer it was."""
    store = MemoryStore()
    host = Host(Provider(), reviewer=Person(both, approve), store=store)
    assert (await host(request(), origin())).text == "cheap 1"
    await store.gather()
    (row,) = (await store.asks(Sought())).rows
    assert (row.money, row.model) == (101_000_000, "cheap")


async def test_an_answer_that_is_reviewed_can_be_compared_too():
    """It stays, and the other one is shown beside it; to try again discards both."""
    provider = Provider()
    person = Person(approve, lambda item: Regenerate(model="dear", beside=True), lambda item: Regenerate(), approve)
    result = await Host(provider, reviewer=person, review_response="always")(request(), origin())
    assert [each[0] for each in provider.asked] == ["cheap", "dear", "cheap"]
    assert (person.shown[2].result.text, person.shown[2].rival.result.text) == ("cheap 1", "dear 2")
    assert person.shown[3].rival is None
    assert result.text == "cheap 3"


async def test_the_first_answer_survives_a_second_that_fails():
    """The person is told that there is no second one, and why."""
    store, person = MemoryStore(), Person(both, approve)
    host = Host(Failing("dear"), reviewer=person, store=store)
    assert (await host(request(), origin())).text == "cheap 1"
    rival = person.shown[1].rival
    assert (rival.result, rival.why, rival.figures.model) == (None, "failed", "dear")
    await store.gather()
    (row,) = (await store.asks(Sought())).rows
    assert (row.money, row.ending) == (1_000_000, "answered")


async def test_the_first_answer_survives_a_budget_that_is_used_up():
    """The second is not even asked."""
    provider, person = Provider(), Person(both, approve)
    # What the first may cost at most leaves too little for the second, once it is spent.
    chosen = Host(provider, reviewer=person, budget=Budget(call=Cap(tokens=1_100)))
    assert (await chosen(request(), origin())).text == "cheap 1"
    assert (person.shown[1].rival.result, person.shown[1].rival.why) == (None, "budget")
    assert len(provider.asked) == 1


async def test_the_first_answer_survives_a_secret_in_the_second():
    """Where secrets are blocked."""
    provider = Failing("dear", text="the key is AK" + "IAQ3EGLNPZ7KJH2MBD")
    person = Person(both, approve)
    host = Host(provider, reviewer=person, redaction=Redaction(response="block"))
    assert (await host(request(), origin())).text == "cheap 1"
    assert person.shown[1].rival.why == "secret"


async def test_a_block_in_between_ends_it():
    """What is refused to a server is not asked for it a second time."""
    store = MemoryStore()

    class Blocking(Provider):
        async def generate(self, params, *, model=None, fallbacks=()):
            done = await super().generate(params, model=model, fallbacks=fallbacks)
            await store.block(BlockRow(identity=origin().identity, target="x", since=1.0))
            return done

    provider = Blocking()
    with pytest.raises(Rejected) as caught:
        await Host(provider, reviewer=Person(both, approve), store=store)(request(), origin())
    assert caught.value.data["reason"] == "policy"
    assert len(provider.asked) == 1


async def test_what_is_decided_is_one_of_those_that_were_shown():
    """By its digest; anything else is refused, and to deny discards both."""
    person = Person(both, lambda item: Approve(digest=digest(item.params)))
    with pytest.raises(Rejected) as caught:
        await Host(Provider(), reviewer=person)(request(), origin())
    assert caught.value.data["reason"] == "changed"
    with pytest.raises(Rejected) as denied:
        await Host(Provider(), reviewer=Person(both, lambda item: Deny()))(request(), origin())
    assert denied.value.data["reason"] == "user"


async def test_a_queue_takes_only_what_fits():
    """A second model that was offered and is another one; the hash covers both answers."""
    store, person = MemoryStore(), Person(both, approve)
    await Host(Provider(), reviewer=person)(request(), origin())
    asked, compared = person.shown
    queue = Queue(store)
    for item, made in (
        (asked, Approve(digest=digest(asked.params), beside="none")),
        (asked, Approve(digest=digest(asked.params), beside="cheap")),
        (asked, Approve(digest=digest(asked.params), beside="dear", scope="call")),
        (compared, Approve(digest=digest(compared.result), beside="dear")),
        (compared, Approve(digest=digest(compared.params))),
    ):
        row = await queue._put("request", item, item.origin, [], None)
        with pytest.raises(Mismatch):
            await queue.decide(row.id, made, hash=row.hash)
    row = await queue._put("response", compared, compared.origin, [], None)
    await queue.decide(row.id, second(compared), hash=row.hash)
    assert hash_of(compared) != hash_of(msgspec.structs.replace(compared, rival=None))
