"""A check of a client: each fault is found at its place, and nothing else; a right client has no finding."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from msgspec import structs

from antiphon.check import client_checkup
from antiphon.check.check_report import CheckReport
from antiphon.check.check_rules import find_faults, read_rules
from antiphon.check.client_checkup import check_client
from antiphon.errors import ConfigError
from antiphon.wire.revisions import find_revision
from tests.check.faulty_client import CLIENT_FAULTS, LEGACY, MODERN
from tests.check.piped_client import PIPED_FAULTS

SILENT = {"waits for ever", "silent to the unknown", "silent to persons"}
PROGRAM = str(Path(__file__).with_name("faulty_client.py"))
ROOT = Path(__file__).parents[2]


async def check_with(fault: str, era: str, monkeypatch: pytest.MonkeyPatch, *trials: str) -> CheckReport:
    """Check the client that has a fault, in some of the trials."""
    chosen = tuple(one for one in read_rules().trial if one.name in trials)
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    wait = 2.0 if fault in SILENT else 30.0
    return await check_client([sys.executable, PROGRAM, fault, era, "{url}"], timeout=wait)


@pytest.mark.parametrize("name", CLIENT_FAULTS)
async def test_a_fault_of_a_client_is_found_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch):
    """A client with one fault has findings of one rule, at the place of the fault."""
    fault = CLIENT_FAULTS[name]
    if name == "never ends":
        monkeypatch.setattr(client_checkup, "TRIAL_WAIT", 3.0)
    report = await check_with(name, fault.era, monkeypatch, fault.trial)
    found = {one.rule.id for one in report.findings}
    assert found == {fault.rule}, report.findings
    assert any(fault.place in one.place for one in report.findings)
    assert {one.rule.severity for one in report.findings} == {fault.level}


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_a_right_client_has_no_finding(era: str, monkeypatch: pytest.MonkeyPatch):
    """It is tried by all trials but the one with pages without end, and speaks what it offered."""
    names = [one.name for one in read_rules().trial if one.name != "endless"]
    report = await check_with("none", era, monkeypatch, *names)
    assert (report.findings, report.problem) == ([], "")
    assert report.revisions == ([MODERN] if era == "modern" else [LEGACY[1], LEGACY[-1]])


async def check_piped(
    words: list[str], monkeypatch: pytest.MonkeyPatch, *trials: str, wait: float = 30.0
) -> CheckReport:
    """Check the client over stdio that these words start, in some of the trials."""
    chosen = tuple(one for one in read_rules().trial if one.name in trials)
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    monkeypatch.chdir(ROOT)
    return await check_client([sys.executable, "-m", "tests.check.piped_client", *words], timeout=wait)


@pytest.mark.parametrize("name", PIPED_FAULTS)
async def test_a_fault_over_stdio_is_found_and_nothing_else(name: str, monkeypatch: pytest.MonkeyPatch):
    """Its messages are examined as over HTTP, and a server that ends is tried here only."""
    fault = PIPED_FAULTS[name]
    # The first trial shows that it ends by itself, so that silence says something.
    wait = 5.0 if name == "waits for the dead" else 30.0
    report = await check_piped([name, "{server}"], monkeypatch, "asks", fault.trial, wait=wait)
    assert {one.rule.id for one in report.findings} == {fault.rule}, report.findings
    assert any(fault.place in one.place for one in report.findings), report.findings
    assert {one.rule.severity for one in report.findings} == {fault.level}


async def test_a_client_may_start_the_server_several_times(monkeypatch: pytest.MonkeyPatch):
    """Each of them is a session of its own, so that the ids of one are no ids of the other."""
    chosen = tuple(one for one in read_rules().trial if one.name == "asks")
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    monkeypatch.chdir(ROOT)
    program = (
        "import sys; from threading import Thread; from tests.check.piped_client import main\n"
        "both = [Thread(target=main, args=('none', sys.argv[1:])) for _ in range(2)]\n"
        "for each in both: each.start()\n"
        "for each in both: each.join()\n"
    )
    report = await check_client([sys.executable, "-c", program, "{server}"], timeout=30.0)
    assert (report.findings, report.problem) == ([], "")


async def test_a_right_client_over_stdio_has_no_finding(monkeypatch: pytest.MonkeyPatch):
    """It is tried by all trials that need no HTTP, but for the one with pages without end."""
    names = [one.name for one in read_rules().trial if one.name not in ("endless", "rounds")]
    report = await check_piped(["none", "{server}"], monkeypatch, *names)
    assert (report.findings, report.problem, report.revisions) == ([], "", [LEGACY[1], LEGACY[-1]])


async def test_a_client_that_reads_a_configuration_gets_an_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """Within a word, and in its environment, the server is an entry of a configuration."""
    program = tmp_path / "reads_entry.py"
    program.write_text(
        "import json, os, subprocess, sys\nentry = json.loads(sys.argv[1].partition('=')[2])\n"
        "assert entry == json.loads(os.environ['ANTIPHON_CHECK_SERVER'])\n"
        "words = [sys.executable, '-m', 'tests.check.piped_client', 'none', entry['command'], *entry['args']]\n"
        "sys.exit(subprocess.call(words))\n",
        encoding="utf-8",
    )
    chosen = tuple(one for one in read_rules().trial if one.name == "older")
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    monkeypatch.chdir(ROOT)
    report = await check_client([sys.executable, str(program), "config={server}"], timeout=30.0)
    assert (report.findings, report.problem, report.revisions) == ([], "", [LEGACY[1]])


def test_pages_without_end_are_found():
    """A client that has read more than 10,001 pages has no bound; ours has one of 10,000."""
    seen = {"pages": 10_050, "how": "ended", "code": 0}
    assert [one[0] for one in find_faults("trial:endless", seen, find_revision(LEGACY[-1]))] == ["client.endless"]
    assert [*find_faults("trial:endless", {**seen, "pages": 10_000}, find_revision(LEGACY[-1]))] == []


async def test_a_program_that_opens_no_session_could_not_be_checked(monkeypatch: pytest.MonkeyPatch):
    """What it has written to standard error is in the report."""
    monkeypatch.setattr(
        client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=read_rules().trial[:1])
    )
    report = await check_client([sys.executable, "-c", "import sys; sys.exit('no such option: {url}')"])
    assert "no such option: http://127.0.0.1:" in report.problem
    with pytest.raises(ConfigError):
        await check_client(["antiphon-no-such-program"])
