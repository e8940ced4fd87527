from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP


def test_without_a_target_this_installation_is_checked(cli: Cli):
    """0 where nothing has failed."""
    done = cli("doctor")
    assert done.code == 0
    assert done.out.startswith("ok    python: 3.")


def test_a_server_is_examined(shop: Cli):
    """A finding a line, or an object a line."""
    assert "ok    server: The shop 1.2\n" in shop("doctor", SHOP).out
    found = shop("doctor", SHOP, "--json").objects
    assert {"kind": "ok", "subject": "server", "text": "The shop 1.2"} in found


def test_a_broken_configuration_is_a_failure(cli: Cli):
    """1, and the place."""
    Path(".mcp.json").write_text("{\n", encoding="utf-8")
    done = cli("doctor")
    assert done.code == 1
    assert "FAIL  .mcp.json: line 2, column 1: not JSON" in done.out


def test_a_server_that_dies_is_a_failure(cli: Cli):
    """With its exit code and last words, inert."""
    done = cli("doctor", str(SERVERS / "dying.py"))
    assert done.code == 1
    assert "FAIL  connection: " in done.out
    assert "(exit code 3)" in done.out
    assert "⟦U+001B⟧[31mdatabase" in done.out


def test_what_is_odd_is_no_failure(cli: Cli):
    """It is worth a look."""
    done = cli("doctor", str(SERVERS / "noisy.py"))
    assert done.code == 0
    assert "odd   stdout: 1 lines that are not messages" in done.out


def test_a_wrong_target_is_wrong_usage(cli: Cli):
    """It is not the server that is ill."""
    assert cli("doctor", "nothing.py").code == 2
