from __future__ import annotations

import pytest

from tests.cli.conftest import Cli
from tests.cli.program import SHOP


def test_a_prompt_is_filled_in(shop: Cli):
    """Role by role."""
    assert shop("prompt", SHOP, "sell", "product=tea", "mood=1").out == "user:\nSell tea, be 1.\n"


def test_a_prompt_is_printed_as_json(shop: Cli):
    """The whole result."""
    [result] = shop("prompt", SHOP, "sell", "product=tea", "--json").objects
    assert result["messages"][0]["content"]["text"] == "Sell tea, be glad."


def test_an_unknown_prompt_is_named(shop: Cli):
    """With what was probably meant; another mistake is told by the server."""
    done = shop("prompt", SHOP, "sel")
    assert done.code == 2
    assert "the server has no prompt 'sel': did you mean 'sell'?" in done.err
    done = shop("prompt", SHOP, "sell")
    assert (done.code, "product" in done.err) == (1, True)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_a_prompt_may_ask(revision: str, shop: Cli):
    """It is answered as a tool is."""
    done = shop("prompt", SHOP, "muse", "--yes", "--provider", "echo", "--revision", revision)
    assert (done.code, done.out) == (0, "user:\n[echo] Muse.\n")
    assert shop("prompt", SHOP, "muse", "--deny", "--revision", revision).code == 1
