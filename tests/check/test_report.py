"""A report is written for people, for programs, for code scanning and for test reports; all of it is bounded."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from antiphon.check.findings import MAX_SEEN, Finding, find_rule
from antiphon.check.report import MAX_OF_RULE, CheckReport, format_report, make_json, make_junit, make_sarif


def make_report() -> CheckReport:
    """Make a report with an error and a piece of advice."""
    report = CheckReport(target="server.py", revisions=["2025-06-18"])
    report.add(Finding(rule="stdio.exit", place="end", seen="it runs"))
    report.add(Finding(rule="rpc.id", place="ping", seen='{"id":7}', revision="2025-06-18"))
    return report


def test_a_person_reads_errors_first():
    """With why, where, the section and how to mend it; the counts come last."""
    lines = [line for line, _ in format_report(make_report())]
    assert lines[0] == "server.py speaks 2025-06-18"
    assert lines[1].startswith("\nERROR ")
    assert "  where   ping (2025-06-18)" in lines
    assert "  source  https://modelcontextprotocol.io/specification/2025-06-18/basic" in lines
    assert "  source  specification: basic/lifecycle" in lines
    assert lines[-1] == "\n1 errors, 1 pieces of advice"


def test_json_holds_what_the_rule_says():
    """A program needs no table of rules."""
    found = make_json(make_report())
    assert (found["errors"], found["advice"]) == (1, 1)
    assert found["findings"][1]["title"] == find_rule("rpc.id").title


def test_sarif_has_rules_results_and_places():
    """Version 2.1.0: an error is an error, advice a note."""
    run = make_sarif([make_report()], "1")["runs"][0]
    assert {one["ruleId"]: one["level"] for one in run["results"]} == {"rpc.id": "error", "stdio.exit": "note"}
    assert [one["id"] for one in run["tool"]["driver"]["rules"]] == ["rpc.id", "stdio.exit"]


def test_junit_fails_for_errors_only():
    """Advice is output of a case that passes; a server without findings is one case."""
    root = ET.fromstring(make_junit([make_report(), CheckReport(target="good")]))
    assert [(one.get("tests"), one.get("failures")) for one in root] == [("2", "1"), ("1", "0")]
    assert [one.get("name") for one in root.iter("testcase") if one.find("failure") is not None] == ["rpc.id"]


def test_many_findings_of_a_rule_are_cut():
    """A thousand wrong tools are no thousand lines."""
    report = CheckReport(target="x")
    for number in range(1000):
        report.add(Finding(rule="list.repeated", place=f"tools[{number}]", seen="x", revision="2025-06-18"))
    assert len(report.findings) == MAX_OF_RULE


def test_what_is_seen_is_bounded_and_without_secrets():
    """It is shown at a terminal, and kept by others."""
    report = CheckReport(target="x")
    report.add(Finding(rule="rpc.id", place="p", seen="\x1b[31m " + "AKIA" + "IOSFODNN7EXAMPLA " + "y" * 100_000))
    assert len(report.findings[0].seen) <= 2 * MAX_SEEN
    assert ET.fromstring(make_junit([report])).tag == "testsuites"
    assert "IOSFODNN7" not in report.findings[0].seen
