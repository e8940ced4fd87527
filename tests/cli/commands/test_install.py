"""``antiphon install`` and ``uninstall``: as a person uses them, from nothing to a server behind the gateway."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon import Client
from antiphon.gateway.hosts.known_hosts import KNOWN
from tests.cli.conftest import Cli
from tests.cli.program import SHOP, environment
from tests.support.network import until
from tests.web.pages import visitor


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


def test_a_host_without_servers_gets_none_that_would_not_start(file: Path, cli: Cli, tmp_path: Path):
    """It is told where to add one; the user's own servers are served where there are some."""
    file.write_text("{}")
    done = cli("install", "cursor")
    assert (done.code, file.read_text()) == (2, "{}")
    assert "Cursor has no servers that the gateway could serve: add one to it first" in done.err
    own = tmp_path / "config" / "antiphon" / "servers.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": {"mine": {"command": "mine"}}}))
    assert cli("install", "cursor").code == 0
    assert entries(file)["antiphon"]["args"] == ["gateway"]


async def test_from_nothing_to_a_request_on_the_page(file: Path, cli: Cli, tmp_path: Path):
    """As a new user would: install, have the host call a tool that samples, and decide on the page that opens."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    assert cli("install", "cursor").code == 0
    entry = entries(file)["antiphon"]
    words = [sys.executable, "-m", "antiphon", *entry["args"], "--provider", "echo"]
    env = environment(XDG_STATE_HOME=str(tmp_path / "state"), BROWSER=f"{browser} %s")
    # As its host starts it, which neither samples nor shows anything.
    async with Client({"command": words[0], "args": words[1:], "env": env}, revision="2025-11-25") as host:
        call = asyncio.create_task(host.call_tool("shop__describe", {"product": "tea"}))
        await until(opened.exists)
        address = re.search(r"http://[^\s\"'<>]+", opened.read_text())
        assert address
        async with visitor(follow_redirects=True) as person:
            await person.get(address[0])
            origin = address[0].partition("/open")[0]
            may = await question(person, origin, seen=set())
            assert "describe" in (await person.get(f"{origin}/review/{may}")).text
            await approved(cli, may)
            asked = await question(person, origin, seen={may})
            assert "Describe tea" in (await person.get(f"{origin}/review/{asked}")).text
            await approved(cli, asked)
        assert "Describe tea" in (await call).text


async def approved(cli: Cli, id: str) -> None:
    """Approve what is shown."""
    shown = await asyncio.to_thread(cli, "review", "show", id)
    seen = re.search(rf"{id}:\w+", shown.out)
    assert seen
    assert (await asyncio.to_thread(cli, "review", "approve", seen[0])).code == 0


async def question(person: httpx.AsyncClient, origin: str, seen: set[str]) -> str:
    """Wait until the page shows a question that was not there before, and return its id."""
    async with asyncio.timeout(60):
        while True:
            page = (await person.get(f"{origin}/")).text
            new = [one for one in re.findall(r'href="/review/(\w+)"', page) if one not in seen]
            if new:
                return new[0]
            await asyncio.sleep(0.05)


def test_another_file(file: Path, cli: Cli, tmp_path: Path):
    """For a host whose settings are elsewhere."""
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert cli("install", "cursor", "--file", str(other), "--keep").code == 0
    assert "antiphon" in other.read_text()
    assert "antiphon" not in file.read_text()


def test_the_files_of_projects_are_installations_of_their_own(file: Path, cli: Cli, tmp_path: Path):
    """Beside that of the user: each has its own servers, and is undone by itself."""
    before = {}
    for project in ("one", "two"):
        path = tmp_path / project / ".cursor" / "mcp.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"mcpServers": {project: {"command": project}}}))
        before[path] = path.read_bytes()
        done = cli("install", "cursor", "--file", str(path))
        assert f"antiphon uninstall cursor --file {path} undoes it" in done.out
        assert f"Served by the gateway: {project}." in done.out
    assert cli("install", "cursor").code == 0
    for path, content in before.items():
        assert "as it was before" in cli("uninstall", "cursor", "--file", str(path)).out
        assert path.read_bytes() == content
    assert "antiphon" in entries(file)
    assert cli("uninstall", "cursor").code == 0


def test_a_host_that_is_not_known_is_named_with_those_that_are(cli: Cli):
    """All of them."""
    done = cli("install", "emacs")
    assert done.code == 2
    assert all(name in done.err for name in KNOWN)
