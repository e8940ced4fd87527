"""From a catalogue to a choice with prices."""

from __future__ import annotations

from decimal import Decimal

import pytest

from antiphon.host import Scripted
from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import Models
from antiphon.host.models.selection import Chosen, NoModel, make_chooser
from tests.host.asks import origin, request

CHEAP = Model(
    name="cheap",
    provider="openai",
    model="cheap-1",
    context=10_000,
    price=ModelPrice(input=Decimal(1), output=Decimal(2)),
    key="KEY",
)
DEAR = Model(
    name="dear",
    provider="openai",
    model="dear-1",
    context=10_000,
    price=ModelPrice(input=Decimal(10), output=Decimal(20)),
    key="KEY",
)


def models() -> Models:
    """Make a provider of two models."""
    return Models(ModelCatalogue((CHEAP, DEAR), default="cheap"), {"KEY": "secret"})


def test_a_provider_with_one_model_has_nothing_to_choose():
    """The host leaves it to the provider."""
    assert make_chooser(Scripted([])) is None
    assert Chosen().price is None


def test_the_winner_is_chosen_with_its_price():
    """And with those of the models that may stand in."""
    choose = make_chooser(models())
    assert choose is not None
    chosen = choose(request(), origin(), None)
    assert chosen is not None
    assert (chosen.model, chosen.price) == ("cheap", CHEAP.price)
    assert (set(chosen.prices), chosen.others) == ({"cheap", "dear"}, ("dear",))
    assert chosen.at_stake == [CHEAP.price]
    assert chosen.selection.winner == "cheap"


def test_a_server_has_an_allowlist():
    """By who asks; none is left where nothing fits."""
    allowed = {origin().identity: ["dear"]}
    choose = make_chooser(models(), lambda asked: allowed.get(asked.identity, []))
    assert choose is not None
    chosen = choose(request(), origin(), None)
    assert chosen is not None
    assert chosen.model == "dear"
    with pytest.raises(NoModel, match=r"(small|dear): "):
        choose(request(), origin(command=["other"]), None)


def test_what_is_left_decides_who_may_answer():
    """Too dear for the rest of the budget: not eligible."""
    choose = make_chooser(models())
    assert choose is not None
    with pytest.raises(NoModel, match="dear: "):
        choose(request(), origin(), Decimal("0.0000001"))
