from __future__ import annotations

from tests.cli.conftest import Cli
from tests.cli.program import SHOP


def test_prompts_are_listed_with_their_arguments(shop: Cli):
    """Optional ones with a question mark."""
    assert shop("prompts", SHOP).out.splitlines()[0] == "sell\tproduct, mood?\tSell a product."


def test_prompts_are_printed_as_json(shop: Cli):
    """Whole."""
    prompt, _ = shop("prompts", SHOP, "--json").objects
    assert [argument["name"] for argument in prompt["arguments"]] == ["product", "mood"]
