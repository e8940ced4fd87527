"""The seam to whatever completes."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.host.providers import Echo, Manual, Provider, Scripted, make_named_provider
from antiphon.host.providers.base import ProviderFailure, completion_of, text_answer
from tests.host.asks import request


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


def test_a_failure_has_a_kind():
    """And perhaps a time to wait."""
    failure = ProviderFailure("rate-limit", "slow down", retry_after=3.0)
    assert (str(failure), failure.kind, failure.retry_after) == ("slow down", "rate-limit", 3.0)
