"""Our own servers and examples are checked, and are right."""

from __future__ import annotations

import asyncio
import re
import runpy
from pathlib import Path

import pytest

from antiphon import Server
from antiphon.cli.commands.demo.server import make_server
from antiphon.testing import check_server

EXAMPLES = Path(__file__).parents[2] / "examples"
MAY_LACK = {"tools.undescribed", "prompts.undescribed"}


def list_servers() -> list[str]:
    """Name the servers of the examples, without running these."""
    return [
        f"{path.name}:{name}"
        for path in sorted(EXAMPLES.glob("*.py"))
        for name in re.findall(r"^(\w+) = Server\(", path.read_text(encoding="utf-8"), re.MULTILINE)
    ]


def make_example(name: str) -> Server:
    """Run an example, and return a server of it."""
    if name == "demo":
        return make_server(0.0)
    path, _, variable = name.partition(":")
    return runpy.run_path(str(EXAMPLES / path), run_name="example")[variable]


@pytest.mark.parametrize("name", ["demo", *list_servers()])
def test_our_own_servers_break_no_rule(name: str):
    """The examples and the demo break no rule on any revision, and mislead nobody."""
    report = asyncio.run(check_server(make_example(name), timeout=30.0))
    assert {one.rule.id for one in report.findings} <= MAY_LACK, report.findings
    assert len(report.revisions) == 5
