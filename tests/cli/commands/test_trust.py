"""``antiphon trust``."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli
from tests.cli.program import SHOP


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the record of these tests by itself."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def test_a_projects_server_is_reached_after_it_was_trusted(cli: Cli):
    """Without a terminal it is refused with the command to type; that shows what it trusts."""
    Path(".mcp.json").write_text(json.dumps({"mcpServers": {"ours": {"command": sys.executable, "args": [SHOP]}}}))
    refused = cli("tools", "ours")
    assert (refused.code, refused.out) == (2, "")
    assert "antiphon trust add .mcp.json" in refused.err
    added = cli("trust", "add", ".mcp.json")
    assert added.code == 0
    assert f"ours: starts {shlex.join([sys.executable, SHOP])}" in added.out
    assert cli("tools", "ours").code == 0


def test_what_is_trusted_is_listed_and_taken_back(cli: Cli):
    """And said where it has changed, or is gone."""
    assert cli("trust").code == 0
    for name in ("a.json", "b.json", "c.json"):
        Path(name).write_text('{"servers": {}}', encoding="utf-8")
    assert cli("trust", "add", "a.json", "b.json", "c.json").code == 0
    Path("b.json").write_text("{}", encoding="utf-8")
    Path("c.json").unlink()
    lines = cli("trust", "list").out.splitlines()
    assert [line.split("\t")[-1] for line in lines] == ["as it was", "has changed: asks again", "is gone"]
    assert [one["path"] for one in cli("trust", "--json").objects] == [
        str(Path(name).absolute()) for name in ("a.json", "b.json", "c.json")
    ]
    assert cli("trust", "revoke", "a.json", "c.json").code == 0
    again = cli("trust", "revoke", "a.json")
    assert (again.code, again.out) == (1, "a.json: was not trusted\n")


def test_a_file_that_cannot_be_read_keeps_none_from_the_list(cli: Cli):
    """It may be in a folder that was taken from this user."""
    Path("a.json").write_text('{"servers": {}}', encoding="utf-8")
    Path("b.json").write_text('{"servers": {}}', encoding="utf-8")
    assert cli("trust", "add", "a.json", "b.json").code == 0
    Path("a.json").unlink()
    Path("a.json").symlink_to("a.json")
    done = cli("trust", "list")
    assert [line.split("\t")[-1] for line in done.out.splitlines()] == ["cannot be read", "as it was"]


def test_the_whole_environment_is_trusted_by_itself(cli: Cli):
    """It is named when it is given, and in the list; trusting the file anew without it takes it back."""
    Path(".mcp.json").write_text('{"mcpServers": {}}')
    for options, said, listed in ((["--environment"], "your whole environment", "whole"), ([], "a minimal", "minimal")):
        assert said in cli("trust", "add", *options, ".mcp.json").out
        assert cli("trust").out.split("\t")[2] == listed


def test_a_file_that_cannot_be_read_is_not_trusted(cli: Cli):
    """Nobody could have looked at it."""
    Path("bad.json").write_text("{", encoding="utf-8")
    done = cli("trust", "add", "bad.json")
    assert done.code == 2
    assert "bad.json, line 1, column 2: not JSON" in done.err
    assert cli("trust", "add", "none.json").code == 2
