from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest
from msgspec import structs

from antiphon.check import client_checkup
from antiphon.check.check_rules import read_rules
from tests.check import faulty_client
from tests.cli.conftest import Cli
from tests.cli.program import SERVERS, SHOP

FAULTY_CLIENT = Path(faulty_client.__file__)
ONE = ("--revision", "2025-11-25", "--timeout", "30")


def test_nothing_is_started_where_nobody_can_be_asked(cli: Cli):
    """The command is shown, with what it would get."""
    done = cli("check", SHOP)
    assert done.code == 2
    assert "shop.py" in done.err
    assert "home         a temporary one" in done.err
    assert "network      none but its own loopback" in done.err
    assert "network      that of this machine\n" in cli("check", SHOP, "--network").err
    assert "--yes allows it" in done.err


def test_a_right_server_ends_with_0_and_is_compared_later(shop: Cli):
    """The report is one object, which a later check compares with what is listed then."""
    done = shop("check", SHOP, "--yes", "--json", *ONE)
    assert done.code == 0, done.out
    assert done.objects[0]["revisions"] == ["2025-11-25"]
    assert done.objects[0]["network"] == "none but its own loopback"
    digests = dict.fromkeys(done.objects[0]["definitions"], "0")
    Path("before.json").write_text(json.dumps({"definitions": digests}), encoding="utf-8")
    done = shop("check", "--yes", "--since", "before.json", *ONE, "--", sys.executable, SHOP)
    assert done.code == 0
    assert "[deception.changed]" in done.out


def test_a_server_that_dies_ends_with_1_and_a_file_says_so(cli: Cli):
    """SARIF is written beside what is printed."""
    done = cli("check", str(SERVERS / "dying.py"), "--yes", *ONE, "--sarif", "c.sarif")
    assert done.code == 1
    assert "error   The server does not open a session.  [handshake.none]" in done.out
    found = json.loads(Path("c.sarif").read_text(encoding="utf-8"))
    assert found["runs"][0]["results"][0]["ruleId"] == "handshake.none"


def test_what_cannot_be_checked_ends_with_2(cli: Cli):
    """So do a server that is not there, a name that is not configured, and a report that is none."""
    Path("mcp.json").write_text('{"mcpServers": {"one": {"command": "antiphon-no-such-program"}}}', encoding="utf-8")
    done = cli("check", "one", "--config", "mcp.json", "--yes")
    assert done.code == 2
    assert "could not be checked" in done.out
    assert cli("check", "http://127.0.0.1:9/mcp").code == 2
    assert cli("check", "nothing.py").code == 2
    Path(".mcp.json").write_text('{"mcpServers": {"ours": {"command": "x"}}}', encoding="utf-8")
    for words in (["ours"], ["--all"]):
        untrusted = cli("check", *words, "--yes")
        assert (untrusted.code, "is not trusted" in untrusted.err) == (2, True), words
    assert cli("check", SHOP, "--yes", "--since", "mcp.json").code == 2


def test_all_servers_of_a_file_are_checked_though_one_fails(cli: Cli):
    """Each is asked for, none ends the others, and the exit code is that of the worst."""
    entries: dict[str, Any] = {
        "gone": {"command": "antiphon-no-such-program"},
        "nothing": {"env": {}},
        "shop": {"command": sys.executable, "args": [SHOP]},
    }
    Path("all.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    done = cli("check", "--all", "all.json", "--yes", "--json", "--junit", "j.xml", "--sarif", "c.sarif", *ONE)
    assert done.code == 2, done.out + done.err
    assert [bool(one["problem"]) for one in done.objects] == [True, True, False]
    assert [one["target"].partition(":")[0] for one in done.objects] == ["gone", "nothing", "shop"]
    suites = ET.parse("j.xml").getroot()
    assert [one.attrib["errors"] for one in suites] == ["1", "1", "0"]
    assert len(json.loads(Path("c.sarif").read_text(encoding="utf-8"))["runs"]) == 1
    asked = cli("check", "--all", "all.json", *ONE)
    assert asked.code == 2
    assert "--yes allows it" in asked.out
    assert SHOP in asked.err


def test_a_client_is_tried_by_servers(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """Its command gets the address; a fault ends with 1, and options about servers are refused."""
    chosen = tuple(one for one in read_rules().trial if one.name == "older")
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    program = [sys.executable, str(FAULTY_CLIENT), "accepts JSON only", "legacy", "{url}"]
    done = cli("check", "--client", "--yes", "--json", "--junit", "c.xml", "--", *program)
    assert done.code == 1, done.err
    assert {one["rule"] for one in done.objects[0]["findings"]} == {"client.accept"}
    assert done.objects[0]["revisions"] == ["2025-03-26"]
    assert ET.parse("c.xml").getroot()[0].attrib["failures"] == "1"
    refused = cli("check", "--client", "--call", "x", "--", *program)
    assert (refused.code, "--client takes a command" in refused.err) == (2, True)
    unasked = cli("check", "--client", "--", *program)
    assert (unasked.code, "would be started" in unasked.err) == (2, True)


def test_what_to_check_must_be_said(cli: Cli):
    """Without a name or --all there is nothing; an earlier report is of one server."""
    assert cli("check").code == 2
    assert cli("check", "--all").code == 2
    Path("before.json").write_text('{"definitions": {}}', encoding="utf-8")
    assert "one server" in cli("check", "--all", "--since", "before.json").err
