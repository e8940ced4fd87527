"""A report is written for people, for programs and for code scanning; all of it is bounded."""

from __future__ import annotations

from antiphon.check.check_report import MAX_OF_RULE, CheckReport, add_fault, format_report, make_json


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
