"""A host is played: what it declares is what a server sees, and what it would lose is advice."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Context, Server
from antiphon.check.check_rules import find_faults, read_rules
from antiphon.check.checkup import check_server
from antiphon.errors import ConfigError
from tests.check.faulty_definitions import GOOD_SCHEMA, GOOD_TOOL

RIGHT: dict[str, Any] = {
    "tools": [GOOD_TOOL, {**GOOD_TOOL, "name": "n" * 50, "description": "d" * 4096}],
    "instructions": "",
    "prompts": 0,
    "resources": 0,
}
UNION = {**GOOD_SCHEMA, "anyOf": [{"required": ["text"]}]}
LOSSES: list[tuple[str, str, str, dict[str, Any]]] = [
    ("as.dropped", "claude-code", "tools[0].name", {"name": "n" * 114}),
    ("as.cut-113", "codex", "tools[0].name", {"name": "n" * 114}),
    ("as.cut-50", "gemini", "tools[0].name", {"name": "n" * 51}),
    ("as.cut-55", "copilot", "tools[0].name", {"name": "n" * 56}),
    ("as.renamed", "opencode", "tools[0].name", {"name": "with.point"}),
    ("as.renamed-hyphen", "codex", "tools[0].name", {"name": "with-hyphen"}),
    ("as.renamed-slash", "gemini", "tools[0].name", {"name": "with/slash"}),
    ("as.description", "claude-code", "tools[0].description", {"description": "d" * 4097}),
    ("as.root-union", "copilot", "tools[0].inputSchema", {"inputSchema": UNION}),
    ("as.instructions-cut", "claude-code", "instructions", {"instructions": "i" * 4097}),
    ("as.instructions-lost", "copilot", "", {"instructions": "Call first add_note."}),
    ("as.prompts", "opencode", "", {"prompts": 1}),
    ("as.resources", "copilot", "", {"resources": 1}),
]
"""A rule, a host that it is about, the place, and what a server has that is lost: of a tool, or beside its tools."""


@pytest.mark.parametrize(("rule", "client", "place", "change"), LOSSES)
def test_what_a_host_loses_is_found_and_nothing_else(rule: str, client: str, place: str, change: dict[str, Any]):
    """A server with one such thing has findings of one rule at its place; what is just within bounds has none."""
    value = {**RIGHT, **change} if change.keys() <= RIGHT.keys() else {**RIGHT, "tools": [{**GOOD_TOOL, **change}]}
    found = [(broken, at) for broken, at, _ in find_faults(f"as:{client}", value)]
    assert {broken for broken, _ in found} == {rule}
    assert all(at.startswith(place) for _, at in found), found


@pytest.mark.parametrize("client", read_rules().clients)
def test_a_server_that_loses_nothing_has_no_finding(client: str):
    """Names of 50 characters and descriptions of 4,096 come to the models of all hosts."""
    assert [*find_faults(f"as:{client}", RIGHT)] == []


async def test_a_server_meets_the_host_that_is_played():
    """It sees its name and what it declares, on the revisions that the host asks for."""
    server, seen = Server("sums", instructions="Add first."), list[tuple[str, bool]]()

    @server.tool
    async def add(ctx: Context, number: int) -> int:
        """Add a number to the sum."""
        about = ctx.request
        seen.append((about.client.name if about.client else "", about.capabilities.sampling is not None))
        return number

    report = await check_server(server, calls=['add={"number": 3}'], timeout=30.0, client="copilot")
    assert [one.rule.id for one in report.findings] == ["as.instructions-lost"], report.findings
    assert report.findings[0].place == "Copilot CLI 1.0.102: instructions"
    # One on each of two revisions is examined; one that is cancelled may not run at all.
    assert seen.count(("copilot-cli", True)) >= 2
    assert len(report.revisions) == 5


async def test_a_host_whose_revision_is_not_spoken_is_named():
    """What it would do then was not measured, and nothing else is said of it."""
    report = await check_server(Server("sums"), timeout=30.0, revision="2024-11-05", client="codex")
    assert [one.rule.id for one in report.findings] == ["as.revision"]


async def test_of_a_host_that_was_not_measured_nothing_is_said():
    """The error names those that were."""
    with pytest.raises(ConfigError, match="claude-code, codex"):
        await check_server(Server("sums"), client="cursor")
