from __future__ import annotations

from decimal import Decimal

import pytest

from antiphon.errors import ConfigError
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice, PriceStep


def model(name: str, **more) -> Model:
    """Make a model of which nothing is known."""
    return Model(name=name, provider="p", model=name, **more)


def test_a_price_is_per_million_tokens():
    """In dollars, exactly."""
    price = ModelPrice(input=Decimal("0.25"), output=Decimal(2))
    assert price.cost(1000, 500) == Decimal("0.00125")


def test_a_long_request_costs_the_rate_of_its_step():
    """For all of its tokens; the highest step that is passed counts, in whatever order they are given."""
    steps = (
        PriceStep(above=500, input=Decimal(5), output=Decimal(5)),
        PriceStep(above=200, input=Decimal(2), output=Decimal(2)),
    )
    price = ModelPrice(input=Decimal(1), output=Decimal(1), steps=steps)
    costs = [price.cost(tokens, 0) * 1_000_000 / tokens for tokens in (200, 201, 500, 501)]
    assert costs == [1, 2, 2, 5]


@pytest.mark.parametrize("amount", ["-1", "NaN", "Infinity"])
def test_a_price_is_a_number_of_dollars(amount: str):
    """Whatever else Decimal can hold."""
    with pytest.raises(ValueError, match="0 or more"):
        ModelPrice(input=Decimal(amount), output=Decimal(0))


def test_two_models_of_one_name_are_refused():
    """Nobody could tell which one is meant."""
    with pytest.raises(ConfigError, match="one name"):
        ModelCatalogue((model("a"), model("a")))


@pytest.mark.parametrize("wrong", [{"default": "b"}, {"order": ("b",)}])
def test_a_name_that_is_no_models_is_refused(wrong):
    """The message lists those there are."""
    with pytest.raises(ConfigError, match="no model 'b'; there are: a"):
        ModelCatalogue((model("a"),), **wrong)


def test_whoever_has_no_model_yet_is_told_where_they_come_from():
    """The stand-in is all there is without a file and without a key."""
    with pytest.raises(ConfigError, match=r"there are: echo \(others: in antiphon.toml, or by a vendor's API key\)"):
        ModelCatalogue((Model(name="echo", provider="echo", model="echo"),)).get("gpt-5-mini")


def test_a_fallback_that_is_no_model_is_refused():
    """Before it is needed."""
    with pytest.raises(ConfigError, match="no model 'b'"):
        ModelCatalogue((model("a", fallback="b"),))


def test_models_come_in_the_users_order():
    """The default first, then the order, then the others by name."""
    found = ModelCatalogue(tuple(map(model, "abcde")), default="d", order=("c", "b"))
    assert [each.name for each in found] == ["d", "c", "b", "a", "e"]


def test_fallbacks_that_go_in_circles_end():
    """Each stands in once."""
    chain = tuple(model(name, fallback=then) for name, then in (("a", "b"), ("b", "c"), ("c", "b")))
    assert [each.name for each in ModelCatalogue(chain).fallbacks("a")] == ["b", "c"]
