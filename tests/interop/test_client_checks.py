"""``antiphon check --client`` on the clients of other SDKs and on ours: what it finds was looked at by hand."""

from __future__ import annotations

import sys
from collections.abc import Callable

import pytest
from msgspec import structs

from antiphon.check import client_checkup
from antiphon.check.check_rules import read_rules
from antiphon.check.client_checkup import check_client
from tests.interop.peers import PROGRAMS, Peers

LOOPS = {"client.repeated-cursor"}
"""What is due to the loop over the pages in our program, where the SDK leaves that to its users."""
CLIENTS: dict[str, tuple[Callable[[Peers], str], set[str]]] = {
    "ours": (lambda _: sys.executable, set()),
    "python1": (
        lambda peers: str(peers.root / "python1" / "bin" / "python"),
        {"client.session-left", "client.unknown-method-code", "client.stuck", *LOOPS},
    ),
    "python2": (
        lambda peers: str(peers.root / "python2" / "bin" / "python"),
        {"client.session-left", "client.wrong-id", *LOOPS},
    ),
    "fastmcp": (
        lambda peers: str(peers.root / "fastmcp" / "bin" / "python"),
        {"client.session-left", "client.wrong-id"},
    ),
    "ts1": (lambda peers: peers.node, {"client.session-left", *LOOPS}),
    "ts2": (lambda peers: peers.node, {"client.session-left"}),
}
"""Who runs each client, and the rules that it breaks over HTTP; docs/topics/checked-clients.md says why."""
PIPED = {
    "ours": set[str](),
    "python1": {"client.unknown-method-code", *LOOPS},
    "python2": {"client.stuck", *LOOPS},
    "fastmcp": {"client.stuck"},
    "ts1": LOOPS,
    "ts2": set[str](),
}
"""The rules that each client breaks over stdio."""


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", CLIENTS)
@pytest.mark.parametrize("word", ["{url}", "{server}"])
async def test_a_client_of_others_has_the_findings_that_are_true(
    name: str, word: str, peers: Peers, monkeypatch: pytest.MonkeyPatch
):
    """Nothing else is found in all trials but that of pages without end, which takes a minute."""
    chosen = tuple(one for one in read_rules().trial if one.name != "endless")
    monkeypatch.setattr(client_checkup, "read_rules", lambda: structs.replace(read_rules(), trial=chosen))
    find_program, expected = CLIENTS[name]
    expected = PIPED[name] if word == "{server}" else expected
    file = PROGRAMS / f"{name}_tried.{'mjs' if name.startswith('ts') else 'py'}"
    command = ["env", f"ANTIPHON_INTEROP_DIR={peers.root}", find_program(peers), str(file), word]
    report = await check_client(command)
    assert {one.rule.id for one in report.findings} == expected, report.findings
    assert report.errors == []
    assert report.problem == ""
