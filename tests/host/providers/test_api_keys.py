from __future__ import annotations

import pytest

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import find_key, key_variables, missing_key


def model(provider: str, **more) -> Model:
    """Make a model of a provider."""
    return Model(name="m", provider=provider, model="x", **more)


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai", ("OPENAI_API_KEY",)),
        ("anthropic", ("ANTHROPIC_API_KEY",)),
        ("google", ("GEMINI_API_KEY", "GOOGLE_API_KEY")),
        ("some-other", ("SOME_OTHER_API_KEY",)),
        ("openai-compatible", ()),
        ("echo", ()),
    ],
)
def test_a_key_is_where_it_usually_is(provider: str, variables: tuple[str, ...]):
    """Under the names the vendors' own libraries use."""
    assert key_variables(model(provider)) == variables


def test_a_named_variable_is_the_only_one():
    """Another key is not taken in its place."""
    named = model("openai", key="WORK_KEY")
    assert find_key(named, {"OPENAI_API_KEY": "a", "WORK_KEY": "b"}) == "b"
    assert find_key(named, {"OPENAI_API_KEY": "a"}) is None


def test_an_empty_key_is_none():
    """A variable may be set to nothing."""
    assert find_key(model("openai"), {"OPENAI_API_KEY": ""}) is None


def test_a_missing_key_is_told_by_its_variable():
    """Never by a value."""
    assert missing_key(model("google"), {}) == "the environment has no GEMINI_API_KEY or GOOGLE_API_KEY"
    assert missing_key(model("google"), {"GOOGLE_API_KEY": "x"}) is None
    assert missing_key(model("openai-compatible"), {}) is None
