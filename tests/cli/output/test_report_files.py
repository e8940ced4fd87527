"""A check is written for code scanning and for what counts tests; whatever a server says stays text there."""

from __future__ import annotations

import os
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from antiphon.check.check_report import CheckReport, add_fault
from antiphon.check.check_rules import read_rules
from antiphon.cli.output.report_files import make_junit, make_sarif, read_definitions
from antiphon.errors import ConfigError
from tests.check.test_check_report import make_report


def test_sarif_has_rules_results_and_places():
    """An error is an error, and advice is a note."""
    run = make_sarif([make_report()], "1")["runs"][0]
    assert {one["ruleId"]: one["level"] for one in run["results"]} == {"rpc.id": "error", "stdio.exit": "note"}
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == ["rpc.id", "stdio.exit"]


def test_junit_has_a_case_for_each_rule_and_server():
    """An error fails, advice is output, and a server that could not be checked is an error of its own."""
    suites = [*ET.fromstring(make_junit([make_report(), CheckReport("b", problem="not reached")]))]
    about_servers = [name for name in read_rules().rules if not name.startswith("client.")]
    assert suites[0].attrib["tests"] == str(len(about_servers)) == str(len(suites[0]))
    assert [one.attrib["name"] for one in suites[0] if one.find("failure") is not None] == ["rpc.id"]
    assert 'ping: {"id":7}' in (suites[0].findtext("testcase/failure") or "")
    assert [one.attrib["name"] for one in suites[0] if one.find("system-out") is not None] == ["stdio.exit"]
    assert suites[1].attrib == {"name": "b", "tests": "1", "failures": "0", "errors": "1"}


def test_junit_of_a_client_has_the_rules_on_clients():
    """A rule that was not tried is no case that has passed."""
    (suite,) = ET.fromstring(make_junit([CheckReport("client.py", is_client=True)]))
    assert {one.attrib["name"].partition(".")[0] for one in suite} == {"client"}


def test_junit_has_no_character_that_xml_forbids():
    """Readers would refuse the whole file; markup in what a server says stays text."""
    bad = "".join(map(chr, [*range(32), 0x7F, 0xD800, 0xFFFE, 0xFFFF])) + "]]></failure><b a='&\""
    report = CheckReport(target=f"server {bad}", problem=bad)
    add_fault(report, "rpc.id", bad, bad, "2025-06-18")
    (suite,) = ET.fromstring(make_junit([report]))
    assert [one.attrib["name"] for one in suite] == ["rpc.id", "check"]
    assert "]]></failure><b a='&" in suite.attrib["name"]


def test_an_earlier_report_is_a_file(tmp_path: Path):
    """Opening a pipe would wait for whoever writes to it."""
    os.mkfifo(tmp_path / "pipe")
    for name in ("pipe", "missing"):
        with pytest.raises(ConfigError, match=f"--since: .*{name} is no report of antiphon check --json"):
            read_definitions(tmp_path / name)
