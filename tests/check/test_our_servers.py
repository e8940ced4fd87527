"""Our own servers and examples are checked, and are right."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from antiphon import Server
from antiphon.cli.commands.demo.server import make_server
from antiphon.testing import check_server

EXAMPLES = Path(__file__).parents[2] / "examples"
MAY_LACK = {"tools.undescribed", "prompts.undescribed"}


def list_servers() -> dict[str, Server]:
    """Load the servers of the examples and of the demo."""
    servers = {"demo": make_server(0.0)}
    for path in sorted(EXAMPLES.glob("*.py")):
        for name, value in runpy.run_path(str(path), run_name="example").items():
            if isinstance(value, Server):
                servers[f"{path.name}:{name}"] = value
    return servers


SERVERS = list_servers()


@pytest.mark.parametrize("server", SERVERS.values(), ids=[*SERVERS])
async def test_our_own_servers_break_no_rule(server: Server):
    """The examples and the demo break no rule on any revision, and mislead nobody."""
    report = await check_server(server, timeout=30.0)
    assert {one.rule.id for one in report.findings} <= MAY_LACK, report.findings
    assert len(report.revisions) == 5
