"""The recipes of docs/reference/rules.md decide as the page says."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest

from antiphon.cli.commands.policy import CallCase, judge_case
from antiphon.host.checks.conditions import VARIABLES
from antiphon.host.checks.policy_rules import Policy, decide
from antiphon.host.config.toml_files import parse_document

TEXT = (Path(__file__).parent.parent / "docs" / "reference" / "rules.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(?P<case>\{.*\})` \| (?P<effect>\w+) \|$", re.MULTILINE)


class Recipe(NamedTuple):
    """One recipe of the page."""

    title: str
    policy: Policy
    rows: list[tuple[str, str]]


def recipes() -> list[Recipe]:
    """Read the recipes."""
    found: list[Recipe] = []
    for part in TEXT.partition("## Recipes")[2].split("\n### ")[1:]:
        title, _, body = part.partition("\n")
        [toml] = re.findall(r"^```toml\n(.*?)^```$", body, re.MULTILINE | re.DOTALL)
        policy = parse_document(toml, title).policy
        assert policy is not None
        found.append(Recipe(title, policy, [(row["case"], row["effect"]) for row in ROW.finditer(body)]))
    return found


@pytest.mark.parametrize("recipe", recipes(), ids=lambda recipe: recipe.title)
def test_a_recipe_decides_as_its_table_says(recipe: Recipe):
    """Each of its calls, of which at least two are decided differently."""
    assert len({effect for _, effect in recipe.rows}) > 1
    for case, effect in recipe.rows:
        judged = judge_case(msgspec.json.decode(case, type=CallCase))
        found = decide(recipe.policy, judged.asked, judged.origin, headless=judged.headless, situation=judged.situation)
        assert found.effect == effect, case


def test_the_page_has_enough_recipes_and_all_names():
    """Whatever a condition can name is in the table."""
    assert len(recipes()) >= 20
    assert re.findall(r"^\| `(\w+)` \|", TEXT, re.MULTILINE) == list(VARIABLES)
