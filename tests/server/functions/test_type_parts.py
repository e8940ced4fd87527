"""The types that a type consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, NewType

import pydantic

from antiphon.server.functions.schema_gaps import members_of_class, parts_of, walk_types


@dataclass
class Tree:
    size: Annotated[int, "how large"]
    below: list[Tree]


class Model(pydantic.BaseModel):
    tree: Tree


def test_a_type_has_the_parts_of_its_members_and_arguments():
    """An alias has its value; a class has the types of its members."""
    assert parts_of(dict[str, int]) == (str, int)
    assert parts_of(NewType("Id", int)) == (int,)
    assert parts_of(Model) == (Tree,)
    assert parts_of(int) == ()


def test_only_classes_with_members_have_them_by_name():
    """A model has them, too."""
    assert members_of_class(Tree) == {"size": Annotated[int, "how large"], "below": list[Tree]}
    assert members_of_class(Model) == {"tree": Tree}
    assert members_of_class(list[Tree]) == {}


def test_a_walk_meets_each_type_once():
    """A type that contains itself ends the walk; metadata is met beside its type."""
    met = list(walk_types([Model, int]))
    assert [met.count(kind) for kind in (Model, Tree, int, "how large")] == [1, 1, 1, 1]
