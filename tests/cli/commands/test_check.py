from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP


def test_nothing_is_started_where_nobody_can_be_asked(cli: Cli):
    """The command is shown, with what it would get."""
    done = cli("check", SHOP)
    assert done.code == 1
    assert "shop.py" in done.err
    assert "home         a temporary one" in done.err
    assert "--yes allows it" in done.err


def test_a_right_server_ends_with_0(shop: Cli):
    """Each server is one object."""
    done = shop("check", SHOP, "--yes", "--json", "--revision", "2025-11-25", "--timeout", "30")
    assert done.code == 0, done.out
    assert done.objects[0]["revisions"] == ["2025-11-25"]


def test_a_server_that_dies_ends_with_1_and_files_say_so(cli: Cli):
    """SARIF and JUnit are written beside what is printed."""
    done = cli(
        "check",
        str(SERVERS / "dying.py"),
        "--yes",
        "--revision",
        "2025-11-25",
        "--sarif",
        "c.sarif",
        "--junit",
        "c.xml",
    )
    assert done.code == 1
    assert "ERROR   The server does not open a session.  [handshake.none]" in done.out
    assert (
        json.loads(Path("c.sarif").read_text(encoding="utf-8"))["runs"][0]["results"][0]["ruleId"] == "handshake.none"
    )
    assert "handshake.none" in Path("c.xml").read_text(encoding="utf-8")


def test_all_servers_of_a_file_are_checked(cli: Cli):
    """Each by itself; the worst decides the exit code."""
    servers = {name: {"command": "antiphon-no-such-program"} for name in ("one", "two")}
    Path("mcp.json").write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    done = cli("check", "--all", "mcp.json", "--yes", "--json")
    assert done.code == 1
    assert [one["errors"] for one in done.objects] == [1, 1]


def test_no_target_is_wrong_usage(cli: Cli):
    """So is a name that is not configured."""
    assert cli("check").code == 2
    assert cli("check", "nothing.py").code == 2
