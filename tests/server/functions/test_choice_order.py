"""Choices keep the order of their author."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Annotated, Literal

import msgspec
import pytest

from antiphon.server.functions.shape import Shape, restore_order


class Size(enum.Enum):
    SMALL = "s"
    MEDIUM = "m"
    LARGE = "l"


@dataclass
class Shirt:
    size: Size
    fit: Literal["wide", "slim"] | None = None
    kids: list[Shirt] = field(default_factory=list)


@pytest.mark.parametrize(
    "annotation", [Size, list[Size], Size | None, dict[str, Size], Annotated[Size, msgspec.Meta(title="Size")]]
)
def test_an_enum_is_listed_as_it_is_written(annotation):
    """Wherever it occurs."""
    schema = Shape(annotation, place="here").schema
    assert ["s", "m", "l"] in _enums(schema)


def test_the_members_of_a_class_are_in_order_too():
    """Also of one that refers to itself, and with null last."""
    found = [values[:2] for values in _enums(Shape(Shirt, place="here").schema)]
    assert {tuple(values) for values in found} == {("s", "m"), ("wide", "slim")}


@pytest.mark.parametrize(
    ("annotation", "values"),
    [(Literal["b", "a"], ["b", "a"]), (Literal[2, 1], [2, 1]), (Literal["b", 1, "a"], ["b", 1, "a"])],
)
def test_a_literal_is_listed_as_it_is_written(annotation, values):
    """Of whatever types."""
    assert list(_enums(Shape(annotation, place="here").schema)) == [values]


def test_values_of_another_origin_stay():
    """A schema that no type accounts for is left as it is."""
    schema = {"enum": ["b", "a", None]}
    restore_order([schema], [int])
    assert schema == {"enum": ["b", "a", None]}


def _enums(node) -> list[list]:
    """Collect all lists of values in a schema."""
    if isinstance(node, dict):
        own = [node["enum"]] if "enum" in node else []
        return own + [found for value in node.values() for found in _enums(value)]
    return [found for item in node for found in _enums(item)] if isinstance(node, list) else []
