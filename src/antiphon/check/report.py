"""The report of a check: its findings, and the four ways in which it is written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from xml.etree import ElementTree as ET

from antiphon.check.findings import CheckRule, Finding, Level, excerpt_of, find_rule, load_rules
from antiphon.host.checks.redact import mask_text
from antiphon.host.checks.visible import make_inert

MAX_OF_RULE = 10
"""Most findings of one rule on one revision: a server with a thousand wrong tools needs no thousand lines."""
SARIF = "https://json.schemastore.org/sarif-2.1.0.json"


@dataclass(slots=True)
class CheckReport:
    """What a check has found. It is made by ``check_server``.

    Args:
        target: the server, as it was named.
        revisions: the revisions that it speaks, the oldest first.
        findings: what is wrong, in the order in which it was found.
    """

    target: str
    revisions: list[str] = field(default_factory=list[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    _counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])

    @property
    def errors(self) -> list[Finding]:
        """The findings that break a MUST of the specification."""
        return [one for one in self.findings if one.level == "error"]

    @property
    def advice(self) -> list[Finding]:
        """All other findings."""
        return [one for one in self.findings if one.level == "advice"]

    def add(self, finding: Finding) -> None:
        """Keep a finding, unless it is known or there are many of its kind; secrets in it are masked.

        Args:
            finding: what was found.
        """
        count = (finding.rule, finding.revision)
        place, seen = mask_text(excerpt_of(finding.place)), mask_text(excerpt_of(finding.seen))
        is_known = any((one.rule, one.revision, one.place) == (*count, place) for one in self.findings)
        if is_known or self._counts[count] >= MAX_OF_RULE:
            return
        self._counts[count] += 1
        self.findings.append(Finding(rule=finding.rule, place=place, seen=seen, revision=finding.revision))


def group_findings(findings: Sequence[Finding]) -> Iterator[tuple[CheckRule, list[Finding]]]:
    """Yield each rule with its findings: errors first, then in the order of the rules."""
    by_rule: dict[str, list[Finding]] = {}
    for finding in findings:
        by_rule.setdefault(finding.rule, []).append(finding)
    for level in ("error", "advice"):
        for id, rule in load_rules().items():
            if id in by_rule and rule.level == level:
                yield rule, by_rule[id]


def format_report(report: CheckReport) -> Iterator[tuple[str, Level | None]]:
    """Yield the lines of a report for people, each with the level that gives it its colour."""
    spoken = ", ".join(report.revisions) or "no revision"
    yield f"{report.target} speaks {spoken}", None
    for rule, findings in group_findings(report.findings):
        yield f"\n{'ERROR ' if rule.level == 'error' else 'advice'}  {rule.title}  [{rule.id}]", rule.level
        places: dict[tuple[str, str], list[Finding]] = {}
        for finding in findings:
            places.setdefault((finding.place, finding.seen), []).append(finding)
        for (place, seen), same in places.items():
            on = ", ".join(one.revision for one in same if one.revision)
            yield f"  where   {place}{f' ({on})' if on else ''}", None
            yield f"  seen    {seen}", None
        yield f"  why     {rule.why}", None
        yield f"  source  {findings[-1].source}", None
        yield f"  mend    {rule.remedy}", None
    yield f"\n{len(report.errors)} errors, {len(report.advice)} pieces of advice", None


def make_json(report: CheckReport) -> dict[str, Any]:
    """Return a report as JSON: each finding with all that its rule says."""
    return {
        "target": report.target,
        "revisions": report.revisions,
        "errors": len(report.errors),
        "advice": len(report.advice),
        "findings": [
            {
                "rule": one.rule, "level": one.level, "title": rule.title, "place": one.place, "seen": one.seen,
                "revision": one.revision, "why": rule.why, "source": one.source, "remedy": rule.remedy,
            }
            for one in report.findings
            for rule in [find_rule(one.rule)]
        ],
    }  # fmt: skip


def make_sarif(reports: Sequence[CheckReport], version: str) -> dict[str, Any]:
    """Return reports as SARIF 2.1.0, one run for all servers."""
    rules = [rule for rule, _ in group_findings([one for report in reports for one in report.findings])]
    levels = {"error": "error", "advice": "note"}
    described = [
        {
            "id": rule.id,
            "shortDescription": {"text": rule.title},
            "fullDescription": {"text": rule.why},
            "help": {"text": rule.remedy},
            "defaultConfiguration": {"level": levels[rule.level]},
        }
        for rule in rules
    ]
    results = [
        {
            "ruleId": one.rule,
            "level": levels[one.level],
            "message": {"text": f"{find_rule(one.rule).title} {one.place}: {one.seen}"},
            "locations": [
                {"logicalLocations": [{"fullyQualifiedName": f"{report.target} {one.revision} {one.place}"}]}
            ],
            "partialFingerprints": {"antiphon/v1": f"{report.target}|{one.rule}|{one.revision}|{one.place}"},
        }
        for report in reports
        for one in report.findings
    ]
    driver = {"name": "antiphon check", "version": version, "rules": described}
    return {"$schema": SARIF, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def make_junit(reports: Sequence[CheckReport]) -> str:
    """Return reports as JUnit XML: a suite for each server, a case for each broken rule; advice is no failure."""
    root = ET.Element("testsuites", name="antiphon check")
    for report in reports:
        broken = list(group_findings(report.findings))
        failures = sum(rule.level == "error" for rule, _ in broken)
        suite = ET.SubElement(
            root, "testsuite", name=report.target, tests=str(len(broken) or 1), failures=str(failures)
        )
        if not broken:
            ET.SubElement(suite, "testcase", classname=report.target, name="no finding")
        for rule, findings in broken:
            case = ET.SubElement(suite, "testcase", classname=report.target, name=rule.id)
            text = make_inert("\n".join(f"{one.revision} {one.place}: {one.seen}" for one in findings))
            is_error = rule.level == "error"
            element = ET.SubElement(case, "failure" if is_error else "system-out")
            element.attrib |= {"message": rule.title} if is_error else {}
            element.text = text
    return ET.tostring(root, encoding="unicode", xml_declaration=True)
