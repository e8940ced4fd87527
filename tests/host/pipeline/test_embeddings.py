"""The stages of a request for embeddings: each refusal, and what is charged and recorded."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import InternalError, InvalidParams, Rejected
from antiphon.host import (
    Approve,
    Budget,
    Cap,
    Host,
    Limits,
    Manual,
    MemoryStore,
    Policy,
    Price,
    Queue,
    Redaction,
    Rule,
    Scripted,
)
from antiphon.host.budget import input_estimate
from antiphon.host.models.choice import Chosen
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.embeddings import Embedded, EmbeddingParams, packed
from antiphon.host.review.review import Deny
from tests.host.asks import Person, approve, origin

ASKED = Policy(rules=(Rule(effect="ask", kind="embedding"),))
PRICE = Price(input_per_token=1_000_000, output_per_token=0)
KEY = "AKIAIOSFODNN7EXAMPLE"


class Vectors(Scripted):
    """Makes vectors as told: of a usage, too few of them, or not at all."""

    def __init__(self, outcome: Usage | Exception | None = None, *, lost: int = 0) -> None:
        super().__init__([])
        self.outcome = outcome
        self.lost = lost

    async def embed(self, params: EmbeddingParams, *, model: str | None = None) -> Embedded:
        self.embeddings.append(params)
        if isinstance(self.outcome, Exception):
            raise self.outcome
        vectors = packed([[0.5]] * (len(params.texts) - self.lost))
        return Embedded(vectors=vectors, model="vectors", usage=self.outcome)


def priced(provider: Vectors, **more) -> Host:
    """Make a host whose vectors cost a thousandth of a cent for each token."""
    return Host(provider, reviewer=None, choose=lambda *_: Chosen(prices={None: PRICE}), **more)


async def spent(host: Host) -> tuple[int, int]:
    """Return what was spent in all, and what is still reserved."""
    (total,) = await host.store.balances_of(["total"])
    return total.spent.money, total.held.money


def steps(host: Host) -> list[tuple[str, str]]:
    """Return what the audit has."""
    return [(record.step, record.outcome) for record in host.audit.records()]


async def test_vectors_are_priced_and_recorded_without_a_person():
    """What the provider counted is charged; the record has hashes, and no text."""
    host = priced(Vectors(Usage(input_tokens=3)), budget=Budget(total=Cap(money=10**9)))
    made = await host.embed(["a secret plan"], origin())
    assert (made.model, made.usage, await spent(host)) == ("vectors", Usage(input_tokens=3), (3_000, 0))
    assert [step for step, _ in steps(host)] == ["received", "policy", "generate", "answered", "settled"]
    assert {record.method for record in host.audit.records()} == {"embeddings"}
    assert "plan" not in repr(host.audit.records())


async def test_usage_that_is_not_told_is_charged_as_estimated():
    """Too much rather than too little."""
    host = priced(Vectors(), budget=Budget(total=Cap(money=10**9)))
    await host.embed(["some words"], origin())
    assert await spent(host) == (1_000 * input_estimate(EmbeddingParams.of(["some words"])), 0)


async def test_budget_limit_and_policy_refuse_before_anything_is_sent():
    """Each with its reason; the provider is never called."""
    provider = Vectors()
    for host, reason in (
        (priced(provider, budget=Budget(total=Cap(money=1))), "budget"),
        (Host(provider, reviewer=None, policy=Policy(default="deny")), "policy"),
        (Host(provider, reviewer=None, policy=ASKED), "no-reviewer"),
        (Host(provider, reviewer=None, redaction=Redaction(request="block")), "secret"),
        (Host(Manual(), reviewer=None), "no-model"),
        (Host(provider, reviewer=None, limits=Limits(per_minute=0)), "limit"),
    ):
        with pytest.raises(Rejected) as refused:
            await host.embed([f"the key is {KEY}"], origin())
        assert refused.value.data == {"reason": reason}
    assert provider.embeddings == []


async def test_secrets_are_masked_in_what_is_sent():
    """As in a prompt."""
    provider = Vectors()
    await Host(provider, reviewer=None, redaction=Redaction(request="mask")).embed([f"it is {KEY}"], origin())
    assert provider.embeddings[0].texts == ["it is [AWS access key]"]


async def test_person_is_asked_where_a_rule_says_so():
    """They see the texts and what they cost, and can allow or deny them; what they allowed is what is sent."""
    provider = Vectors(Usage(input_tokens=1))
    person = Person(approve, lambda item: Deny(reason="no"), lambda item: Approve(digest="another"))
    host = Host(provider, policy=ASKED, reviewer=person)
    await host.embed(["a", "b"], origin("1"))
    for ask, reason in (("2", "user"), ("3", "changed")):
        with pytest.raises(Rejected) as refused:
            await host.embed(["c"], origin(ask))
        assert refused.value.data == {"reason": reason}
    shown = person.shown[0]
    assert (shown.params.texts, shown.choices) == (["a", "b"], {"approve", "deny"})
    assert [each.texts for each in provider.embeddings] == [["a", "b"]]


async def test_another_process_decides():
    """What it reads of the question is what was asked, so that its approval is of that."""
    provider, store = Vectors(), MemoryStore()
    host = Host(provider, policy=ASKED, reviewer=Queue(store), store=store)
    asking = asyncio.create_task(host.embed(["a", "b"], origin()))
    elsewhere = Queue(store)
    async for _ in elsewhere.changes():
        if questions := await elsewhere.pending():
            break
    (question,) = questions
    await elsewhere.decide(question.id, approve(question.item), hash=question.hash)
    assert len((await asking).vectors) == 2


async def test_failure_of_the_provider_charges_what_is_known():
    """A refusal costs nothing; what may have been worked on is charged in full; nothing of the text is told."""
    for failure, is_charged in (
        (ProviderFailure("auth", "the key was not accepted"), False),
        (ProviderFailure("timeout", "no answer in time"), True),
    ):
        host = priced(Vectors(failure), budget=Budget(total=Cap(money=10**9)))
        with pytest.raises(InternalError) as failed:
            await host.embed(["a"], origin())
        assert "key" not in failed.value.message
        money, held = await spent(host)
        assert (money > 0, held) == (is_charged, 0)


async def test_wrong_number_of_vectors_is_no_answer():
    """A vector would be taken for that of another text."""
    with pytest.raises(InternalError):
        await Host(Vectors(lost=1), reviewer=None).embed(["a", "b"], origin())


async def test_request_that_is_not_valid_is_recorded_with_its_place():
    """And reaches nobody."""
    host = Host(Vectors(), reviewer=None)
    with pytest.raises(InvalidParams):
        await host.embed(["a", ""], origin())
    assert steps(host)[-1] == ("invalid", "input[1]")
