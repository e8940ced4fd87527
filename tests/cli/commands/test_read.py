from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, SHOP, at_terminal, ended, environment


def test_text_is_printed(shop: Cli):
    """As it is."""
    assert shop("read", SHOP, "shop://list").out == "sweaters\nscarves\n"
    assert shop("read", SHOP, "shop://tea/label").out == "TEA\n"


def test_binary_data_goes_into_a_pipe():
    """Byte for byte."""
    done = subprocess.run(
        [*COMMAND, "read", SHOP, "shop://logo"], capture_output=True, check=True, env=environment(), timeout=60
    )
    assert done.stdout == b"\x89PNG\x00"


def test_binary_data_is_named_on_a_terminal():
    """Which it would upset."""
    child = at_terminal("read", SHOP, "shop://logo")
    child.expect_exact("[image/png, 5 bytes, shop://logo]")
    assert ended(child) == 0


def test_contents_are_saved(shop: Cli):
    """Into a file."""
    assert shop("read", SHOP, "shop://logo", "--output", "logo.png").code == 0
    assert Path("logo.png").read_bytes() == b"\x89PNG\x00"


def test_a_file_that_cannot_be_written_is_named(shop: Cli):
    """With the reason."""
    done = shop("read", SHOP, "shop://logo", "--output", "no/such/folder.png")
    assert (done.code, done.err) == (1, "antiphon: no/such/folder.png: No such file or directory\n")


def test_a_result_is_printed_as_json(shop: Cli):
    """Whole."""
    [result] = shop("read", SHOP, "shop://list", "--json").objects
    assert result["contents"][0]["mimeType"] == "text/plain"


def test_an_unknown_resource_is_named(shop: Cli):
    """By its address."""
    done = shop("read", SHOP, "shop://a/b/c")
    assert done.code == 1
    assert "shop://a/b/c" in done.err


def test_a_resource_that_is_nearly_there_is_proposed(shop: Cli):
    """After the server's own words; nothing is made up where none is close."""
    assert "did you mean shop://list?" in shop("read", SHOP, "shop://lst").err
    assert "did you mean" not in shop("read", SHOP, "other:///elsewhere/a/b").err


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
