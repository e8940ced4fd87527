"""Each recipe of the cookbook is short, says when it is of use, and shows what it prints. ``test_docs`` runs them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_docs import FENCE, ROOT

SECTION = re.compile(r"^## ", re.MULTILINE)


class Recipe(NamedTuple):
    """One section of a page."""

    page: Path
    title: str
    text: str

    @property
    def blocks(self) -> list[tuple[str, list[str], str]]:
        """Language, marks and text of each fenced block."""
        return [(m["language"], m["marks"].split(), m["text"]) for m in FENCE.finditer(self.text)]


def list_recipes() -> list[Recipe]:
    """List the recipes of all pages."""
    found: list[Recipe] = []
    for page in sorted((ROOT / "docs" / "cookbook").glob("*.md")):
        for section in SECTION.split(page.read_text(encoding="utf-8"))[1:]:
            heading, _, text = section.partition("\n")
            found.append(Recipe(page, heading, text))
    return found


RECIPES = list_recipes()
PARTS = pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: f"{recipe.page.stem}: {recipe.title}")


def test_there_are_enough_recipes():
    """Thirty-five, each with a title of its own."""
    assert len({recipe.title for recipe in RECIPES}) == len(RECIPES) >= 35


@PARTS
def test_a_recipe_has_at_most_40_lines_of_code(recipe: Recipe):
    """All its blocks together, but for empty lines, commands and what is printed."""
    shown = [text for language, marks, text in recipe.blocks if language != "console" and "output" not in marks]
    assert 1 <= sum(bool(line.strip()) for text in shown for line in text.splitlines()) <= 40


@PARTS
def test_a_recipe_is_run_and_its_output_is_compared(recipe: Recipe):
    """By a program with its output, or by a command."""
    marks = [marks for _, marks, _ in recipe.blocks]
    is_run = any("run" in each for each in marks) and any("output" in each for each in marks)
    assert is_run or any(language == "console" for language, _, _ in recipe.blocks)
    assert all(text.strip() for _, marks, text in recipe.blocks if "output" in marks)


@PARTS
def test_a_recipe_says_when_to_use_it_and_what_it_prints(recipe: Recipe):
    """In a few words before its program; a migration has the old program in between."""
    prose = FENCE.sub("", recipe.text)
    assert re.match(r"\n+For ", prose)
    assert re.search(r"\bIt\s+prints\b", prose)
    assert len(prose.split()) <= 75
