"""The seam to whatever completes."""

from __future__ import annotations

import pytest

from antiphon.errors import ConfigError
from antiphon.host.providers import Echo, Manual, Provider, Scripted, named
from antiphon.host.providers.base import text_answer


@pytest.mark.parametrize("provider", [Echo(), Manual(), Scripted([])])
def test_every_provider_says_what_it_is(provider: Provider):
    """A name, whether it takes tools, whether it is a person."""
    assert provider.name
    assert isinstance(provider.tools, bool)
    assert provider.personal == (provider.name == "manual")


def test_providers_are_found_by_name():
    """And a name that is none is answered with those that are."""
    assert (named("echo").name, named("manual").name) == ("echo", "manual")
    with pytest.raises(ConfigError, match='"echo", "manual"'):
        named("oracle")


def test_a_text_becomes_an_answer():
    """From the assistant, ended in the ordinary way."""
    answer = text_answer("hi", "m")
    assert (answer.role, answer.text, answer.model, answer.stop_reason) == ("assistant", "hi", "m", "endTurn")
