"""``antiphon gateway``: the servers of a configuration as one, as a host would start it."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from antiphon import Client
from tests.cli.conftest import Cli
from tests.cli.program import SHOP, environment


def written(path: Path, **servers: object) -> Path:
    """Write a configuration as other hosts have it."""
    path.write_text(json.dumps({"mcpServers": servers}))
    return path


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-11-25", "2026-07-28"])
async def test_a_host_starts_it_and_finds_the_servers(tmp_path: Path, revision: str):
    """Over stdio, each tool under the name of its server; what the servers ask is answered there."""
    file = written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    command = [sys.executable, "-m", "antiphon", "gateway", "--config", str(file), "--yes", "--provider", "echo"]
    entry = {"command": command[0], "args": command[1:], "env": environment(XDG_STATE_HOME=str(tmp_path))}
    async with Client(entry, revision=revision) as client:
        names = [tool.name async for tool in client.tools()]
        assert names
        assert all(name.startswith("shop__") for name in names)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "there are no servers in"),
        (("--config", "none.json"), "none.json: No such file"),
        (("--config", "mcp.json", "--only", "other"), "there is no server 'other' in mcp.json"),
        (("--config", "mcp.json", "--http", "0.0.0.0:9000"), "serves this machine only: write 127.0.0.1:9000"),
        (("--config", "mcp.json", "--http", "here"), "is no address"),
        (("--config", "mcp.json", "--review", "terminal"), "over stdio the terminal is the protocol's"),
        (("--config", "mcp.json", "--names", "short"), "is not one of"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(arguments: tuple[str, ...], message: str, cli: Cli, tmp_path: Path):
    """One sentence, and nothing is started."""
    written(tmp_path / "mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    done = cli("gateway", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_projects_file_starts_nothing_before_it_is_trusted(cli: Cli, tmp_path: Path):
    """It came with the project."""
    written(tmp_path / ".mcp.json", shop={"command": sys.executable, "args": [SHOP]})
    done = cli("gateway")
    assert done.code == 1
    assert "antiphon trust add" in done.err
