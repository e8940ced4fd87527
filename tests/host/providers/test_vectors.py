"""Requests for vectors, and the vectors: their form, their bounds, and which model makes them."""

from __future__ import annotations

from array import array
from decimal import Decimal

import pytest

from antiphon.errors import InvalidParams
from antiphon.host.budget import worst_case
from antiphon.host.checks.policy_rules import Policy, Rule, decide
from antiphon.host.checks.validate import validate_request
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.models.selection import complete_model
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.vectors import (
    MAX_DIMENSIONS,
    MAX_TEXTS,
    MAX_VALUES,
    Embedded,
    EmbeddingParams,
    check_texts,
    join_portions,
    pack_vectors,
)
from tests.host.asks import origin, request


def test_request_holds_its_texts_in_their_order():
    """It is a valid request of sampling, however many texts it has, so that all checks of texts apply."""
    texts = [f"text {at}" for at in range(MAX_TEXTS)]
    params = EmbeddingParams.of(texts, model="small", dimensions=8)
    validate_request(params)
    check_texts(params)
    assert (params.texts, params.dimensions, worst_case(params).output_tokens) == (texts, 8, 1)
    portions = list(params.portions(1_000))
    assert [text for portion in portions for text in portion.texts] == texts
    assert {portion.dimensions for portion in portions} == {8}


@pytest.mark.parametrize(
    ("texts", "dimensions", "place"),
    [
        ([], None, "input"),
        (["a", ""], None, "input[1]"),
        (["a"] * (MAX_TEXTS + 1), None, "input"),
        (["a"] * 300, MAX_VALUES // 300 + 1, "dimensions"),
        (["a"], MAX_DIMENSIONS + 1, "dimensions"),
    ],
)
def test_request_beyond_its_bounds_names_the_place(texts: list[str], dimensions: int | None, place: str):
    """Nothing to do, an empty text, too many texts, and more numbers than an answer may hold."""
    with pytest.raises(InvalidParams) as refused:
        check_texts(EmbeddingParams.of(texts, dimensions=dimensions))
    assert refused.value.data == {"place": place}


def test_vectors_are_packed_as_numbers_of_four_bytes():
    """What is no such number is the provider's mistake."""
    assert pack_vectors([[1.0, -0.5]]) == (b"\x00\x00\x80?\x00\x00\x00\xbf",)
    for wrong in (["x"], [None]):
        with pytest.raises(ProviderFailure):
            pack_vectors([wrong])


def test_vectors_of_two_models_are_never_joined():
    """They could not be compared; and what is not known of a part's usage is not known of the whole."""
    parts = [Embedded(vectors=(b"abcd",), model="a", usage=Usage(input_tokens=n)) for n in (1, 2)]
    assert join_portions(parts) == Embedded(vectors=(b"abcd",) * 2, model="a", usage=Usage(input_tokens=3))
    assert join_portions([parts[0], Embedded(vectors=(), model="a")]).usage is None
    with pytest.raises(ProviderFailure, match="different models"):
        join_portions([parts[0], Embedded(vectors=(), model="b")])


CATALOGUE = ModelCatalogue(
    tuple(
        complete_model(Model(name=name, provider="echo", model=model))
        for name, model in (("words", "nomic-embed-text"), ("talker", "echo"), ("second", "mxbai-embed-large"))
    ),
    order=("second", "words"),
)


def test_model_for_embeddings_is_known_by_its_name_and_does_nothing_else():
    """It is no candidate for an answer; and for vectors there is no other candidate, no context and no fallback."""
    models = Models(CATALOGUE, {})
    answer = models.select(request())
    vectors = models.select(EmbeddingParams.of(["a"]), left=Decimal(0))
    hinted = models.select(EmbeddingParams.of(["a"], model="nomic-embed-text"))
    assert (answer.winner, [each.name for each in answer.candidates]) == ("talker", ["talker"])
    assert (vectors.winner, vectors.fallbacks, hinted.winner) == ("second", (), "words")
    only = Models(ModelCatalogue(tuple(model for model in CATALOGUE if model.embeddings)), {})
    assert only.select(request()).why_none == "all models make embeddings only"


async def test_echo_makes_the_same_vector_of_the_same_words():
    """In any process: texts with the same words are close, and its length is one."""
    made = await Models(CATALOGUE, {}).embed(EmbeddingParams.of(["a warm sweater", "sweater a warm", "snow"]))
    first, second, third = (array("f", vector) for vector in made.vectors)
    assert (len(first), first, sum(value * value for value in first)) == (64, second, pytest.approx(1))
    assert third != first


@pytest.mark.parametrize(
    ("policy", "effect"),
    [
        (Policy(), "allow"),
        (Policy(default="deny"), "deny"),
        (Policy(rules=(Rule(effect="ask", kind="embedding"),)), "ask"),
        (Policy(rules=(Rule(effect="deny", kind="embedding"),)), "deny"),
        (Policy(rules=(Rule(effect="deny"),)), "deny"),
        (Policy(rules=(Rule(effect="deny", kind="sampling"),)), "allow"),
        (Policy(rules=(Rule(effect="deny", over_tokens=0),)), "allow"),
        (Policy(default="deny", rules=(Rule(effect="allow", kind="embedding"),)), "allow"),
    ],
)
def test_nobody_is_asked_about_embeddings_unless_a_rule_says_so(policy: Policy, effect: str):
    """A rule for all kinds covers them, and a default that denies denies them as well."""
    assert decide(policy, EmbeddingParams.of(["a"]), origin()).effect == effect
