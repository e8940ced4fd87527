"""The report of a check: its findings, as lines for people and as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import structs

from antiphon.check.check_rules import CheckRule, Finding, Severity, excerpt_of, read_rules

MAX_OF_RULE = 10  # findings: a server with a thousand wrong tools needs no thousand lines


@dataclass(slots=True)
class CheckReport:
    """What a check has found. It is made by ``check_server``.

    Args:
        target: the server, as it was named.
        revisions: the revisions that it speaks, the oldest first.
        findings: what is wrong, in the order in which it was found.
        definitions: a digest of each tool, resource and prompt, to be compared with those of a later check.
        problem: why the server could not be checked; empty if it could.
        network: which network a program that was started had, and why; empty if none was started.
        is_client: whether it is a client that was checked, and no server.
    """

    target: str
    revisions: list[str] = field(default_factory=list[str])
    findings: list[Finding] = field(default_factory=list[Finding])
    definitions: dict[str, str] = field(default_factory=dict[str, str])
    problem: str = ""
    network: str = ""
    is_client: bool = False

    @property
    def errors(self) -> list[Finding]:
        """The findings that break a MUST of the specification."""
        return [one for one in self.findings if one.rule.severity == "error"]


def add_fault(report: CheckReport, rule: str, place: str, seen: object, revision: str = "") -> None:
    """Add a finding; one at a known place adds its revision only, and of each rule the first ten are kept."""
    place = excerpt_of(place)
    for at, one in enumerate(report.findings):
        if (one.rule.id, one.place) == (rule, place):
            if revision not in one.revisions:
                report.findings[at] = structs.replace(one, revisions=(*one.revisions, revision))
            return
    if sum(one.rule.id == rule for one in report.findings) < MAX_OF_RULE:
        spoken = (revision,) if revision else ()
        broken = read_rules().rules[rule]
        report.findings.append(Finding(rule=broken, place=place, seen=excerpt_of(seen), revisions=spoken))


def group_findings(findings: Sequence[Finding]) -> list[tuple[CheckRule, list[Finding]]]:
    """Return each broken rule with its findings: errors first, then in the order of the rules."""
    groups = [(rule, [one for one in findings if one.rule.id == rule.id]) for rule in read_rules().rules.values()]
    return sorted((group for group in groups if group[1]), key=lambda group: group[0].severity != "error")


def format_report(report: CheckReport) -> Iterator[tuple[str, Severity | None]]:
    """Yield the lines of a report for people, each with the severity that gives it its colour."""
    yield f"{report.target} speaks {', '.join(report.revisions) or 'no revision'}", None
    if report.network:
        yield f"its network: {report.network}", None
    for rule, findings in group_findings(report.findings):
        yield f"\n{rule.severity:6}  {rule.title}  [{rule.id}]", rule.severity
        for one in findings:
            spoken = f" ({', '.join(sorted(one.revisions))})" if one.revisions else ""
            yield f"  where   {one.place}{spoken}", None
            yield f"  seen    {one.seen}", None
        yield f"  why     {rule.why}", None
        yield f"  source  {findings[-1].source}", None
        yield f"  mend    {rule.mend}", None
    if report.problem:
        yield f"\ncould not be checked: {report.problem}", "error"
    errors, advice = len(report.errors), len(report.findings) - len(report.errors)
    yield f"\n{errors} error{'s' * (errors != 1)}, {advice} piece{'s' * (advice != 1)} of advice", None


def make_json(report: CheckReport) -> dict[str, Any]:
    """Return a report as JSON: each finding with all that its rule says."""
    said = ("severity", "title", "why", "mend")
    findings = [
        {"rule": one.rule.id, **{name: getattr(one.rule, name) for name in said}, "place": one.place, "seen": one.seen,
         "revisions": one.revisions, "source": one.source}
        for one in report.findings
    ]  # fmt: skip
    about = {name: getattr(report, name) for name in ("target", "revisions", "network", "problem", "definitions")}
    return {**about, "findings": findings}
