"""The files of ``antiphon check``: SARIF for code scanning, JUnit XML for tests, an earlier report to compare with."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import msgspec

from antiphon.check.check_report import CheckReport, group_findings
from antiphon.check.check_rules import read_rules
from antiphon.errors import ConfigError
from antiphon.machine.files import name_errors, read_file, replace_file

_LARGEST = 64 * 1024 * 1024
"""Most bytes of an earlier report, as many as a message may have."""
_NOT_XML = re.compile("[^\\t\\n\\r -\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def make_sarif(reports: Sequence[CheckReport], version: str) -> dict[str, Any]:
    """Return reports as one run of SARIF 2.1.0."""
    findings = [(report.target, one) for report in reports for one in report.findings]
    rules = [
        {"id": rule.id, "shortDescription": {"text": rule.title}, "help": {"text": f"{rule.why} {rule.mend}"}}
        for rule, _ in group_findings([one for _, one in findings])
    ]
    results = [
        {
            "ruleId": one.rule.id, "level": "error" if one.rule.severity == "error" else "note",
            "message": {"text": f"{one.rule.title} {one.place}: {one.seen}"},
            "locations": [{"logicalLocations": [{"fullyQualifiedName": f"{target} {one.place}"}]}],
            "partialFingerprints": {"antiphon/v1": f"{target}|{one.rule.id}|{one.place}"},
        }
        for target, one in findings
    ]  # fmt: skip
    driver = {"name": "antiphon check", "version": version, "rules": rules}
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return {"$schema": schema, "version": "2.1.0", "runs": [{"tool": {"driver": driver}, "results": results}]}


def make_junit(reports: Sequence[CheckReport]) -> bytes:
    """Return reports as JUnit XML: a suite for each server, with a case for each rule; advice is output, no failure."""
    root = ET.Element("testsuites", name="antiphon check")
    for report in reports:
        suite = ET.SubElement(root, "testsuite", name=_clean_xml(report.target))
        broken = {rule.id: (rule, findings) for rule, findings in group_findings(report.findings)}
        # Rules on clients are not applied to servers, and the other way round.
        tried = [name for name in read_rules().rules if name.startswith("client.") == report.is_client]
        names = broken if report.problem else tried
        for name in names:
            case = ET.SubElement(suite, "testcase", classname=_clean_xml(report.target), name=name)
            if name in broken:
                rule, findings = broken[name]
                kind = "failure" if rule.severity == "error" else "system-out"
                said = [*(f"{one.place}: {one.seen}" for one in findings), rule.why, rule.mend]
                ET.SubElement(case, kind).text = _clean_xml("\n".join([rule.title, *said]))
        if report.problem:
            case = ET.SubElement(suite, "testcase", classname=_clean_xml(report.target), name="check")
            ET.SubElement(case, "error", message=_clean_xml(report.problem))
        failures = sum(rule.severity == "error" for rule, _ in broken.values())
        counts = {"tests": len(suite), "failures": failures, "errors": int(bool(report.problem))}
        suite.attrib.update({name: str(count) for name, count in counts.items()})
    return ET.tostring(root, encoding="utf-8", xml_declaration=True)


def _clean_xml(text: str) -> str:
    """Replace the characters that XML 1.0 has no way to write."""
    return _NOT_XML.sub("\ufffd", text)


def write_report(path: Path | None, data: bytes) -> None:
    """Write a file if one was named."""
    if path is not None:
        with name_errors(path):
            replace_file(path, data)


def read_definitions(path: Path) -> dict[str, str]:
    """Read the digests of definitions in a report that ``--json`` has printed."""
    try:
        return msgspec.convert(msgspec.json.decode(read_file(path, _LARGEST))["definitions"], dict[str, str])
    except (OSError, msgspec.MsgspecError, LookupError, TypeError, RecursionError):
        raise ConfigError(f"--since: {path} is no report of antiphon check --json") from None
