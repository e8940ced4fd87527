"""The choice of a model: fifty cases worked out by hand, and what must hold in every case.

``selection_cases.json`` holds one catalogue, and per case what is asked, what the host allows, and what must come out,
with the reason in words. Costs there are for 1,000 tokens each way unless the case says otherwise.
"""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.host.model_catalogue import Model, ModelCatalogue, ModelPrice
from antiphon.host.models.models import select_model
from antiphon.host.models.selection import Needs, Selection
from antiphon.wire.sampling import ModelHint, ModelPreferences

GOLDEN = json.loads((Path(__file__).parent / "selection_cases.json").read_text(encoding="utf-8"))
MODELS = tuple(msgspec.convert(model, Model) for model in GOLDEN["models"])


def wishes(hints=None, priorities=None) -> ModelPreferences:
    """Make the preferences of a request."""
    named = {f"{name}_priority": value for name, value in (priorities or {}).items()}
    return ModelPreferences(hints=[ModelHint(name=name) for name in hints] if hints is not None else None, **named)


@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: case["why"])
def test_a_case_of_the_golden_file(case):
    """Winner, rule, hint and the obstacles of every model are what was worked out."""
    ask, host, expected = case["ask"], case["host"], case["expect"]
    tokens = ask.get("tokens", [1000, 1000])
    selection = select_model(
        Needs(
            inputs=tuple(ask.get("inputs", ())),
            tools=ask.get("tools", False),
            input_tokens=tokens[0],
            max_tokens=tokens[1],
        ),
        wishes(ask.get("hints"), ask.get("priorities")),
        ModelCatalogue(MODELS, default=host.get("default"), order=tuple(GOLDEN["order"])),
        allowed=host.get("allowed"),
        left=Decimal(host["left"]) if "left" in host else None,
        unavailable=host.get("unavailable"),
    )
    assert (selection.winner, selection.rule) == (expected["winner"], expected["rule"])
    assert (selection.hint, selection.match) == (expected.get("hint"), expected.get("match"))
    obstacles = {each.name: [o.code for o in each.obstacles] for each in selection.candidates if each.obstacles}
    assert obstacles == expected["obstacles"]


def test_there_are_fifty_cases():
    """Each with a reason of its own."""
    assert len({case["why"] for case in GOLDEN["cases"]}) == 50


def test_the_record_says_all():
    """It can be written as JSON and read again, with the figures rounded."""
    selection = select_model(
        Needs(input_tokens=1000, max_tokens=1000), wishes(priorities={"cost": 1}), ModelCatalogue(MODELS)
    )
    assert msgspec.json.decode(msgspec.json.encode(selection), type=Selection) == selection
    scores = {each.name: each.scores.cost for each in selection.candidates if each.scores}
    assert scores == {"small": 1, "fast": 0.6602, "mini": 0.5296, "sonnet": 0.3489, "opus": 0.3046, "mystery": 0}


def test_a_bounded_answer_costs_no_more_than_it_can():
    """A model that writes 100 tokens at most is not charged for the thousands that are asked for."""
    model = Model(
        name="a",
        provider="p",
        model="a",
        context=1000,
        max_output=100,
        price=ModelPrice(input=Decimal(1), output=Decimal(1)),
    )
    (candidate,) = select_model(Needs(input_tokens=900, max_tokens=50_000), None, ModelCatalogue((model,))).candidates
    assert (candidate.eligible, candidate.cost) == (True, Decimal("0.001"))


def test_only_eligible_fallbacks_may_stand_in():
    """What a server may not use does not come in by the back door."""
    chain = tuple(
        Model(name=name, provider="p", model=name, context=1000, fallback=then)
        for name, then in (("a", "b"), ("b", "c"), ("c", "a"))
    )
    assert select_model(Needs(), None, ModelCatalogue(chain, default="a")).fallbacks == ("b", "c")
    assert select_model(Needs(), None, ModelCatalogue(chain, default="a"), allowed=["a", "c"]).fallbacks == ("c",)


def test_what_is_in_no_order_goes_by_cost_and_then_by_name():
    """The last words in a tie."""

    def model(name, dollars):
        price = None if dollars is None else ModelPrice(input=Decimal(dollars), output=Decimal(dollars))
        return Model(name=name, provider="p", model=name, context=1000, price=price)

    models = (model("z", 1), model("a", 2), model("b", 1), model("c", None))
    for kept, winner in ((models, "b"), (models[:2], "z"), (models[3:], "c"), (models[1::2], "a")):
        assert select_model(Needs(input_tokens=1), None, ModelCatalogue(kept)).winner == winner


# --- what holds whatever is asked ------------------------------------------------------------------------------------

NAMES = ("ant", "bee", "bat", "cat", "cow")
tiers = st.none() | st.integers(1, 5)
prices = st.none() | st.decimals(0, 2000, places=2).map(lambda rate: ModelPrice(input=rate, output=rate))
priority = st.sampled_from([0, 0.1, 0.25, 0.3, 0.5, 0.7, 1]) | st.floats(0, 1)


@st.composite
def catalogues(draw):
    """Some models of which all may be unknown, an order over some of them, perhaps a default."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=1, unique=True))
    models = tuple(
        Model(
            name=name,
            provider="p",
            model=f"{name}-{draw(st.sampled_from(['1', '2']))}",
            aliases=tuple(draw(st.lists(st.sampled_from(["pet", "b"]), max_size=1))),
            family=draw(st.sampled_from([None, "bird", "beast"])),
            price=draw(prices),
            context=draw(st.sampled_from([None, 2_000, 100_000, 100_000])),
            inputs=draw(st.sampled_from([None, ("text",), ("text", "image")])),
            tools=draw(st.sampled_from([None, True, False])),
            speed=draw(tiers),
            intelligence=draw(tiers),
        )
        for name in names
    )
    order = tuple(draw(st.lists(st.sampled_from(names), unique=True)))
    return models, draw(st.none() | st.sampled_from(names)), order


@st.composite
def asks(draw):
    """What is asked, and what the host allows."""
    needs = Needs(
        inputs=draw(st.sampled_from([(), ("image",)])),
        tools=draw(st.booleans()),
        input_tokens=draw(st.integers(1, 3_000)),
        max_tokens=draw(st.integers(1, 3_000)),
    )
    host = {
        "allowed": draw(st.none() | st.lists(st.sampled_from([*NAMES, "b*", "*"]))),
        "left": draw(st.none() | st.decimals(0, 5, places=3)),
    }
    hints = draw(st.lists(st.sampled_from([*NAMES, "bee-1", "pet", "bird", "a", "b", "", "dog"]), max_size=3))
    return needs, hints, {name: draw(priority) for name in ("cost", "speed", "intelligence")}, host


def chosen(catalogue, ask, *, without=None, order_of=None) -> Selection:
    """Select, perhaps without a model, perhaps from the catalogue in another order."""
    models, default, order = catalogue
    needs, hints, priorities, host = ask
    kept = tuple(model for model in (order_of or models) if model.name != without)
    left = ModelCatalogue(
        kept, default=None if default == without else default, order=tuple(name for name in order if name != without)
    )
    return select_model(needs, wishes(hints, priorities), left, **host)


def goodness(selection: Selection, name: str, models) -> object:
    """How good the winner is in one respect; more is better."""
    model = next(model for model in models if model.name == selection.winner)
    if name == "cost":
        cost = next(each.cost for each in selection.candidates if each.name == selection.winner)
        return -cost if cost is not None else Decimal("-Infinity")
    return getattr(model, name) or 1


@given(catalogues(), asks(), st.sampled_from(["cost", "speed", "intelligence"]), priority)
def test_raising_a_priority_never_picks_what_is_worse_in_it(catalogue, ask, name, raised):
    """Also where it was 0, and the user's default or order decided."""
    needs, hints, priorities, host = ask
    more = {**priorities, name: max(raised, priorities[name])}
    before, after = chosen(catalogue, ask), chosen(catalogue, (needs, hints, more, host))
    assert (before.winner is None) == (after.winner is None)
    if after.winner is not None:
        assert goodness(after, name, catalogue[0]) >= goodness(before, name, catalogue[0])


@given(catalogues(), asks(), st.randoms())
def test_the_order_of_the_catalogue_never_matters(catalogue, ask, random):
    """The user's order is a value of its own."""
    shuffled = list(catalogue[0])
    random.shuffle(shuffled)
    assert chosen(catalogue, ask, order_of=tuple(shuffled)) == chosen(catalogue, ask)


@given(catalogues(), asks(), st.data())
def test_taking_away_a_loser_changes_nothing(catalogue, ask, data):
    """No model wins or loses by the company it is in."""
    winner = chosen(catalogue, ask).winner
    losers = [model.name for model in catalogue[0] if model.name != winner]
    if losers:
        loser = data.draw(st.sampled_from(losers))
        assert chosen(catalogue, ask, without=loser).winner == winner


@given(catalogues(), asks())
def test_hints_never_widen(catalogue, ask):
    """Who is eligible does not depend on them, and only the eligible win."""
    needs, _, priorities, host = ask
    hinted, plain = chosen(catalogue, ask), chosen(catalogue, (needs, [], priorities, host))
    eligible = [each.name for each in plain.candidates if each.eligible]
    assert [each.name for each in hinted.candidates if each.eligible] == eligible
    assert hinted.winner is None if not eligible else hinted.winner in eligible
    assert all(each.eligible for each in hinted.candidates if each.left_by_hints)


@given(catalogues(), asks())
def test_a_model_off_the_list_never_wins(catalogue, ask):
    """Whatever a server hints at."""
    needs, hints, priorities, host = ask
    name = catalogue[0][0].name
    others = [each for each in NAMES if each != name]
    assert chosen(catalogue, (needs, [name, *hints], priorities, {**host, "allowed": others})).winner != name
