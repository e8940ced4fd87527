"""The rules are data: each can be applied, says what it costs and how to mend it, and some server breaks it."""

from __future__ import annotations

import re
from pathlib import Path

import jsonschema_rs
import pytest

from antiphon.check import check_rules
from antiphon.check.check_rules import MAX_SEEN, TESTS, CheckRule, excerpt_of, find_faults, get_probes, read_rules
from antiphon.wire.revisions import REVISIONS, find_revision
from tests.check.faults import FAULTS
from tests.check.faulty_client import CLIENT_FAULTS
from tests.check.faulty_definitions import FAULTY
from tests.check.faulty_web import WEB_FAULTS
from tests.check.test_clients import LOSSES
from tests.check.test_launch import UNSAFE

RULES = read_rules().rules
ELSEWHERE = {
    "capability.client", "capability.unknown", "deception.changed", "deception.server-name", "safety.unfinished",
    "session.second", "asks.unprompted", "http.origin-open", "http.oldest", "as.revision", "client.endless",
}  # fmt: skip
"""Rules with a test of their own."""


@pytest.mark.parametrize("one", RULES.values(), ids=[*RULES])
def test_a_rule_can_be_applied_and_read(one: CheckRule):
    """It has a reason and a remedy; an error has a section; its schema is valid, and its revisions exist."""
    assert all(text.endswith(".") for text in (one.title, one.why, one.mend)), one
    assert one.section or one.severity == "advice"
    assert bool(one.on) == (one.fits is not None or bool(one.test))
    assert not one.test or one.test.partition(":")[0] in TESTS
    assert all(not name or find_revision(name) for name in (one.since, one.until))
    if one.fits is not None:
        jsonschema_rs.validator_for(one.fits)


def test_every_rule_has_a_server_that_breaks_it():
    """No rule is there that was never seen to find anything."""
    broken = {one.rule for one in (*FAULTS.values(), *WEB_FAULTS.values(), *FAULTY)} | {rule for rule, *_ in LOSSES}
    broken |= {one.rule for one in CLIENT_FAULTS.values()}
    assert RULES.keys() - broken - {f"launch.{rule}" for rule, _ in UNSAFE.values()} == ELSEWHERE
    assert {rule for rule in broken if rule} <= RULES.keys()


REPRODUCED = {
    "notify.undeclared-log": "logs undeclared",
    "rpc.silent": "ends in between",
    "list.refused": "no list",
    "discover.unsupported": "unknown revision is an unknown method",
    "rpc.rubbish": "no end of line when cancelled",
}
"""The errors of published servers (docs/topics/checked-servers.md), and the small server that shows each."""


def test_every_error_of_a_published_server_has_a_small_reproduction():
    """It is a fault of our small server; that of a definition is one in the table of definitions."""
    page = Path(__file__).parents[2] / "docs" / "topics" / "checked-servers.md"
    rows = [line.split("|") for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    errors = {rule for row in rows if len(row) == 8 for rule in re.findall(r"`([\w.-]+)`", row[4])}
    assert errors == {*REPRODUCED, "tools.shape"}
    assert {rule: FAULTS[name].rule for rule, name in REPRODUCED.items()} == {rule: rule for rule in REPRODUCED}
    assert any(case.rule == "tools.shape" and "$schema" in str(case.lists) for case in FAULTY)


def test_every_reply_that_a_rule_examines_is_asked_for():
    """A rule on a probe that does not exist would never find anything."""
    made = {"reply:bad-cursor", "reply:unknown-tool", *(f"as:{name}" for name in read_rules().clients)}
    for one in REVISIONS:
        made |= {f"reply:{probe.name}" for probe in get_probes("probe", one)}
        made |= {f"http:{probe.name}" for probe in get_probes("http", one)}
    made |= {f"trial:{trial.name}" for trial in read_rules().trial}
    made |= {f"answer:{ask.name}" for trial in read_rules().trial for ask in trial.asks}
    examined = {kind for rule in RULES.values() for kind in rule.on if ":" in kind and not kind.startswith("page:")}
    assert examined <= made


@pytest.mark.parametrize(
    ("rule", "result"),
    [
        ("capability.client", {"capabilities": {"sampling": {}}}),
        ("capability.unknown", {"capabilities": {"tool": {}}}),
        ("deception.server-name", {"capabilities": {}, "serverInfo": {"name": "g1thub", "version": "1"}}),
    ],
)
def test_what_a_server_says_of_itself_is_examined(rule: str, result: dict[str, object]):
    """A capability that is none, and a name that imitates another, are found in the opening."""
    good = {"protocolVersion": "2025-11-25", "serverInfo": {"name": "x", "version": "1"}}
    found = list(find_faults("opening", {"result": {**good, **result}}, find_revision("2025-11-25")))
    assert [one[0] for one in found] == [rule]


def test_what_is_seen_is_bounded_inert_and_without_secrets():
    """It is shown at a terminal, and kept by others."""
    seen = excerpt_of("\x1b[31m " + "AKIA" + "IOSFODNN7EXAMPLA " + "y" * 100_000)
    assert MAX_SEEN / 2 < len(seen) <= 2 * MAX_SEEN
    assert "\x1b" not in seen
    assert "IOSFODNN7" not in seen


def test_a_server_elsewhere_that_serves_any_origin_gets_advice():
    """The specification demands it of servers on this machine only."""
    seen = {"status": 200, "isLocal": False}
    assert [one[0] for one in find_faults("http:origin", seen, REVISIONS[-1])] == ["http.origin-open"]


def test_a_check_stays_small():
    """Its code, with its command, has at most 1,800 lines; rules, probes and trials are data."""
    package = Path(check_rules.__file__).parent
    files = [*package.glob("*.py"), package.parent / "cli" / "commands" / "check.py"]
    assert sum(len(file.read_text(encoding="utf-8").splitlines()) for file in files) <= 1_800
