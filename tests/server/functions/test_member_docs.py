"""What an author says of the members of a class reaches whoever fills them in."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple, TypedDict

import msgspec
import pytest

from antiphon import Server
from antiphon.server.asks.elicitations import TypedForm
from antiphon.server.asks.tool_loop import TypedAnswer
from antiphon.server.features.tools import ServedTool
from antiphon.server.functions.shape import Shape, words_of

Pieces = Annotated[int, "How many."]


@dataclass
class Offer:
    """What is offered.

    Attributes:
        product: Its name.
        pieces: Not this: the words beside the type are nearer.
    """

    product: str
    pieces: Pieces


class Struct(msgspec.Struct, rename="camel"):
    product_name: Annotated[str, "Its name."]
    pieces: Annotated[int, msgspec.Meta(ge=1), "How many."] = 1


class Dict(TypedDict):
    pieces: Pieces


class Tuple(NamedTuple):
    pieces: Pieces


class Doc:
    """As PEP 727 has it."""

    documentation = "How many."


@dataclass
class Basket:
    offers: list[Offer]
    best: Annotated[Offer | None, "The best of them."] = None


def members(schema: dict[str, Any]) -> dict[str, str | None]:
    """List what is said of each member."""
    return {name: member.get("description") for name, member in schema["properties"].items()}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        (Offer, {"product": "Its name.", "pieces": "How many."}),
        (Struct, {"productName": "Its name.", "pieces": "How many."}),
        (Dict, {"pieces": "How many."}),
    ],
)
def test_members_are_described_in_the_schema(kind: type, said: dict[str, str]):
    """Of a dataclass, Struct or TypedDict, by their names on the wire."""
    assert members(Shape(kind, place="here").schema) == said


def test_what_limits_a_member_stays_beside_its_words():
    """The bound of msgspec's ``Meta``, and the description."""
    assert Shape(Struct, place="here").schema["properties"]["pieces"] == {
        "type": "integer",
        "minimum": 1,
        "default": 1,
        "description": "How many.",
    }


def test_classes_within_others_are_described_too():
    """Wherever they stand, and a member beside the reference to its class."""
    schema = Shape(Basket, place="here").schema
    assert members(schema)["best"] == "The best of them."
    assert members(schema["$defs"]["Offer"]) == {"product": "Its name.", "pieces": "How many."}


def test_the_description_of_a_class_says_nothing_twice():
    """What its docstring says of the members stands beside each."""
    assert Shape(Offer, place="here").schema["description"] == "What is offered."


@pytest.mark.parametrize(
    "written",
    [
        lambda: TypedForm.of(Offer).schema,
        lambda: Shape(Offer, place="result", mode="serialization").schema,
        lambda: ServedTool.from_function(takes).definition.input_schema["properties"]["offer"],
        lambda: ServedTool.from_function(takes).definition.output_schema,
    ],
    ids=["form", "result", "argument", "tool"],
)
def test_words_reach_forms_arguments_and_results(written: Callable[[], dict[str, Any]]):
    """A person who fills in, and a model that calls, read the same."""
    assert members(written()) == {"product": "Its name.", "pieces": "How many."}


def test_words_reach_the_model_that_answers():
    """``result_type`` asks by the schema."""
    assert "How many." in (TypedAnswer(Offer).add_instructions(None) or "")


def test_an_argument_has_its_own_words():
    """Several notes at a type do not matter; the first text counts."""

    def tool(pieces: Annotated[int, "How many.", "ignored", Doc()]) -> None: ...

    server = Server("shop")
    server.tool(tool)
    assert members(ServedTool.from_function(tool).definition.input_schema) == {"pieces": "How many."}


def test_words_are_text_or_a_documentation():
    """Other metadata is another library's."""
    assert (words_of([1, Doc()]), words_of(["a", "b"]), words_of([1])) == ("How many.", "a", None)


def takes(offer: Offer) -> Offer:
    """Take an offer."""
    return offer
