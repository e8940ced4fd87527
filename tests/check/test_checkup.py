"""Our own servers break no rule, and a tool is called only if that was allowed."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import pytest

from antiphon import Server
from antiphon.errors import ConfigError
from antiphon.testing import check_server
from antiphon.wire.revisions import REVISIONS
from tests.support.network import listening

PROGRAM = '''
from antiphon import Server

server = Server("own", instructions="Add numbers.")


@server.tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.prompt
async def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


@server.resource("note://one")
async def one() -> str:
    """The first note."""
    return "1"


if __name__ == "__main__":
    server.run()
'''


def make_server(calls: list[str]) -> Server:
    """Make a server that notes its calls."""
    server = Server("own")

    @server.tool
    async def erase(name: str = "all") -> str:
        """Erase something."""
        calls.append(name)
        return "erased"

    return server


async def test_our_server_as_a_program_has_no_finding(tmp_path: Path):
    """A command line is one text; it is checked on every revision, with a life of its own in between."""
    file = tmp_path / "own.py"
    file.write_text(PROGRAM, encoding="utf-8")
    report = await check_server(shlex.join([sys.executable, str(file)]), calls=["all"], timeout=30)
    assert report.errors == []
    assert report.revisions == [one.name for one in REVISIONS]


async def test_our_server_over_http_has_no_finding_among_errors():
    """Headers, statuses and sessions are as the specification has them."""
    async with listening(make_server([])) as network:
        report = await check_server(f"http://{network.place}/mcp", timeout=30)
    assert report.errors == []
    assert report.revisions == [one.name for one in REVISIONS]


async def test_no_tool_is_called_that_was_not_allowed():
    """What a tool says of itself is a claim, so that none is called by default."""
    calls: list[str] = []
    assert (await check_server(make_server(calls), timeout=30)).errors == []
    assert calls == []


async def test_a_tool_is_called_with_the_arguments_that_were_given():
    """Once on each revision."""
    calls: list[str] = []
    await check_server(make_server(calls), calls=['erase={"name": "a"}'], timeout=30)
    assert calls == ["a"] * len(REVISIONS)


async def test_one_revision_is_tried_alone():
    """The others are not spoken."""
    assert (await check_server(make_server([]), revision="2026-07-28", timeout=30)).revisions == ["2026-07-28"]


@pytest.mark.parametrize("options", [{"revision": "2020-01-01"}, {"timeout": 0}])
async def test_an_option_that_cannot_be_is_refused(options: dict[str, object]):
    """The error comes before anything is started."""
    with pytest.raises(ConfigError):
        await check_server("antiphon-check-no-such-program", **options)


async def test_a_program_that_is_not_there_is_a_finding():
    """A check never raises for what a server does, or does not."""
    report = await check_server(["antiphon-check-no-such-program"])
    assert [one.rule for one in report.errors] == ["handshake.none"]


async def test_keys_are_replaced_by_a_placeholder(tmp_path: Path):
    """A server that is checked gets no secret of its entry, and a home of its own."""
    file = tmp_path / "env.py"
    file.write_text("import os, sys\nsys.exit(repr([os.environ['API_KEY'], os.environ['HOME']]))\n", encoding="utf-8")
    entry = {"command": sys.executable, "args": [str(file)], "env": {"API_KEY": "s3cret-of-the-user-123"}}
    seen = " ".join(one.seen for one in (await check_server(entry)).findings)
    assert "antiphon-check-placeholder" in seen
    assert "s3cret" not in seen
    assert "antiphon-check-" in seen.split("placeholder", 1)[1]
