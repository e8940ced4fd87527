from __future__ import annotations

import subprocess
from pathlib import Path

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
