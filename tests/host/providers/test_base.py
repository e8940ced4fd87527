"""The seam to whatever completes."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.errors import ConfigError, Rejected
from antiphon.host import Budget, Cap, Host, MemoryStore, Policy, open_store
from antiphon.host.providers import Echo, Manual, Provider, Scripted, make_named_provider
from antiphon.host.providers.base import Completion, ProviderFailure, Usage, completion_of
from antiphon.wire.sampling import CreateMessageRequestParams, text_answer
from tests.host.asks import origin, request


@pytest.mark.parametrize("provider", [Echo(), Manual(), Scripted([])])
def test_every_provider_says_what_it_is(provider: Provider):
    """A name, whether it takes tools, whether it is a person."""
    assert provider.name
    assert isinstance(provider.tools, bool)
    assert provider.personal == (provider.name == "manual")


def test_providers_are_found_by_name():
    """And a name that is none is answered with those that are."""
    assert (make_named_provider("echo").name, make_named_provider("manual").name) == ("echo", "manual")
    with pytest.raises(ConfigError, match=r'"echo", "manual" .*; open_host\(\) and --model take the models of vendors'):
        make_named_provider("oracle")


def test_a_text_becomes_an_answer():
    """From the assistant, ended in the ordinary way."""
    answer = text_answer("hi", "m")
    assert (answer.role, answer.text, answer.model, answer.stop_reason) == ("assistant", "hi", "m", "endTurn")


async def test_a_simple_provider_completes_without_a_count():
    """What does not say what it took is not made to."""
    done = await completion_of(Echo(), request("Hello"), model="echo")
    assert (done.result.text, done.usage, done.by) == ("[echo] Hello", None, "echo")


class Counting(Echo):
    """A provider that says of each answer what it took."""

    def __init__(self, *usages: Usage) -> None:
        self._usages = list(usages)

    async def generate(self, params: CreateMessageRequestParams, **more: object) -> Completion:
        """Answer, and report the next usage."""
        return Completion(result=await self.complete(params), usage=self._usages.pop(0))


@pytest.mark.parametrize(
    ("reported", "counted"),
    [
        (Usage(input_tokens=3, output_tokens=2), Usage(input_tokens=3, output_tokens=2)),
        (Usage(input_tokens=-1, output_tokens=2), None),
        (Usage(input_tokens=1, output_tokens=10**30), Usage(input_tokens=1, output_tokens=2**32)),
        (Usage(input_tokens=float("nan"), output_tokens=2), None),  # type: ignore[arg-type]
        (Usage(input_tokens=1, output_tokens=1.5), None),  # type: ignore[arg-type]
        (Usage(input_tokens=None, output_tokens=2), None),  # type: ignore[arg-type]
    ],
)
async def test_a_usage_that_cannot_be_is_not_counted_as_reported(reported: Usage, counted: Usage | None):
    """A count below zero says nothing, and one that no store can keep is bounded."""
    assert (await completion_of(Counting(reported), request())).usage == counted


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_false_usage_does_not_enlarge_what_may_be_spent(tmp_path: Path, kind: str):
    """After an answer that took "minus a million tokens", and after one that took more than a store can count."""
    store = MemoryStore() if kind == "memory" else open_store(tmp_path / "host.db")
    false = [Usage(input_tokens=-1_000_000), Usage(output_tokens=10**30)]
    budget = Budget(total=Cap(tokens=1_000))
    host = Host(Counting(*false), policy=Policy(default="allow"), reviewer=None, store=store, budget=budget)
    await host(request(), origin())
    with pytest.raises(Rejected) as large:
        await host(request(max_tokens=1_000), origin("2"))
    await host(request(), origin("3"))
    with pytest.raises(Rejected) as spent:
        await host(request(), origin("4"))
    assert large.value.data == spent.value.data == {"reason": "budget"}
    await store.aclose()


@pytest.mark.parametrize("kind", ["memory", "file"])
async def test_a_usage_that_is_no_number_leaves_the_accounts_usable(tmp_path: Path, kind: str):
    """A request whose provider reports NaN is estimated and settled, so that the next request is answered."""
    store = MemoryStore() if kind == "memory" else open_store(tmp_path / "host.db")
    counts = [Usage(input_tokens=float("nan")), Usage(input_tokens=1)]  # type: ignore[arg-type]
    budget = Budget(total=Cap(tokens=1_000))
    host = Host(Counting(*counts), policy=Policy(default="allow"), reviewer=None, store=store, budget=budget)
    assert [(await host(request(), origin(ask))).text for ask in ("1", "2")] == ["[echo] Describe a sweater"] * 2
    await store.aclose()


def test_a_failure_has_a_kind():
    """And perhaps a time to wait."""
    failure = ProviderFailure("rate-limit", "slow down", retry_after=3.0)
    assert (str(failure), failure.kind, failure.retry_after) == ("slow down", "rate-limit", 3.0)
