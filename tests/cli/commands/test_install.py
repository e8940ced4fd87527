"""``antiphon install`` and ``uninstall``: as a person uses them, from nothing to a server behind the gateway."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from antiphon.gateway.hosts.known_hosts import KNOWN
from tests.cli.conftest import Cli
from tests.cli.program import SHOP, environment


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a host with one server, in a home of the test's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    entry = {"command": sys.executable, "args": [SHOP], "env": {"API_KEY": "sk-proj-abcdefghijklmnopqrstuvwx"}}
    path.write_text(json.dumps({"mcpServers": {"shop": entry}}, indent=2))
    return path


async def test_from_a_hosts_file_to_its_servers_behind_the_gateway(file: Path, cli: Cli, tmp_path: Path):
    """What the host would start from then on serves the tools of its server."""
    done = cli("install", "cursor")
    assert done.code == 0
    assert "Served by the gateway: shop." in done.out
    assert "antiphon uninstall cursor undoes it" in done.out
    entry = entries(file)["antiphon"]
    words = [sys.executable, "-m", "antiphon", *entry["args"], "--yes", "--provider", "echo"]
    env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"), XDG_STATE_HOME=str(tmp_path / "state"))
    async with Client({"command": words[0], "args": words[1:], "env": env}) as client:
        assert all([tool.name.startswith("shop__") async for tool in client.tools()])
    assert "as it was before" in cli("uninstall", "cursor").out
    assert list(entries(file)) == ["shop"]


def entries(file: Path) -> dict[str, Any]:
    """Return the servers of a file."""
    return json.loads(file.read_text())["mcpServers"]


def test_a_dry_run_changes_nothing_and_shows_no_secret(file: Path, cli: Cli):
    """The difference, as one knows it from other tools."""
    before = file.read_bytes()
    done = cli("install", "cursor", "--dry-run")
    assert done.code == 0
    assert '+    "antiphon": {' in done.out
    assert "sk-proj" not in done.out
    assert file.read_bytes() == before
    assert "has not been installed" in cli("uninstall", "cursor").err


def test_another_file(file: Path, cli: Cli, tmp_path: Path):
    """For a host whose settings are elsewhere."""
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert cli("install", "cursor", "--file", str(other), "--keep").code == 0
    assert "antiphon" in other.read_text()
    assert "antiphon" not in file.read_text()


def test_a_host_that_is_not_known_is_named_with_those_that_are(cli: Cli):
    """All of them."""
    done = cli("install", "emacs")
    assert done.code == 2
    assert all(name in done.err for name in KNOWN)
