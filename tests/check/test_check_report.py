"""A report is written for people, for programs and for code scanning; all of it is bounded."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from antiphon.check.check_report import (
    MAX_OF_RULE,
    CheckReport,
    add_fault,
    format_report,
    make_json,
    make_junit,
    make_sarif,
)
from antiphon.check.check_rules import read_rules


def make_report() -> CheckReport:
    """Make a report with an error and a piece of advice."""
    report = CheckReport(target="server.py", revisions=["2025-06-18"])
    add_fault(report, "stdio.exit", "end", "it runs")
    add_fault(report, "rpc.id", "ping", {"id": 7}, "2025-06-18")
    return report


def test_a_person_reads_errors_first():
    """Each rule says why, where, by which section and how to mend it; the counts come last."""
    lines = [line for line, _ in format_report(make_report())]
    assert lines[0] == "server.py speaks 2025-06-18"
    assert lines[1].startswith("\nerror   A response has an id")
    assert "  where   ping (2025-06-18)" in lines
    assert '  seen    {"id":7}' in lines
    assert "  source  https://modelcontextprotocol.io/specification/2025-06-18/basic" in lines
    assert lines[-1] == "\n1 error, 1 piece of advice"


def test_json_holds_what_the_rule_says():
    """A program needs no table of rules."""
    found = make_json(make_report())
    assert [one["severity"] for one in found["findings"]] == ["advice", "error"]
    assert found["findings"][1]["title"] == "A response has an id that no open request has."


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


def test_many_findings_of_a_rule_are_cut():
    """A thousand wrong tools are no thousand lines."""
    report = CheckReport(target="x")
    for number in range(1000):
        add_fault(report, "tools.name", f"tools[{number}]", "x", "2025-06-18")
    assert len(report.findings) == MAX_OF_RULE


def test_a_fault_on_several_revisions_is_one_finding():
    """The finding names all of them."""
    report = CheckReport(target="x")
    for revision in ("2025-06-18", "2025-11-25", "2025-11-25"):
        add_fault(report, "tools.name", "tools[0]", "x", revision)
    assert [one.revisions for one in report.findings] == [("2025-06-18", "2025-11-25")]
