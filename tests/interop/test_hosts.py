"""What ``antiphon install`` writes, as the hosts read it themselves: those whose command line comes from npm.

None of them needs a login to list its servers, and Claude Code, Gemini CLI and opencode start each server and greet it.
``test_hosts_at_work`` has them call what they list.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

from tests.cli.program import SHOP
from tests.interop.host_homes import Home
from tests.interop.peers import PATIENCE, Peers

SERVER = [sys.executable, SHOP]


def opencode(home: Home) -> None:
    """Write the server into the file by hand: its own command asks questions."""
    file = home.file("opencode")
    file.parent.mkdir(parents=True)
    entry = json.dumps({"type": "local", "command": SERVER})
    file.write_text(f'{{\n  // mine\n  "mcp": {{"shop": {entry}}}\n}}\n', encoding="utf-8")


LISTING = {
    "claude-code": (["claude", "mcp", "add", "--scope", "user", "shop", "--", *SERVER], ["claude", "mcp", "list"], "✔"),
    "codex": (["codex", "mcp", "add", "shop", "--", *SERVER], ["codex", "mcp", "list"], "enabled"),
    "gemini": (["gemini", "mcp", "add", "--scope", "user", "shop", *SERVER], ["gemini", "mcp", "list"], "Connected"),
    "copilot": (
        ["copilot", "mcp", "add", "shop", "--", *SERVER],
        ["copilot", "mcp", "list", "--json"],
        '"enabled": true',
    ),
    "opencode": (None, ["opencode", "mcp", "list"], "connected"),
}
"""How a server comes into its configuration, how its servers are listed, and what it says of ours if all is well."""

HURRIED = ("gemini", "opencode")
"""Those that wait only some seconds for a server to start, unless its entry in the file says otherwise."""


@pytest.mark.parametrize("name", LISTING)
async def test_a_host_lists_the_gateway_in_the_place_of_its_server(name: str, tmp_path: Path, peers: Peers):
    """Written by its own command, moved by ours, listed by its own; undone, its server is there again."""
    adds, lists, well = LISTING[name]
    home = Home(tmp_path, peers, {"MCP_TIMEOUT": str(1_000 * PATIENCE)})
    if adds is None:
        opencode(home)
    else:
        home.file(name).parent.mkdir(parents=True, exist_ok=True)
        await home.run(*adds)
    before = home.file(name).read_bytes()
    assert "Served by the gateway: shop." in await home.antiphon("install", name)
    installed = home.file(name).read_bytes()

    if name in HURRIED:
        patient = installed.replace(b'"antiphon": {', b'"antiphon": {"timeout": %d,' % (1_000 * PATIENCE))
        assert patient != installed
        home.file(name).write_bytes(patient)
    listed = await home.run(*lists)
    if name in HURRIED:
        home.file(name).write_bytes(installed)
    assert re.search(r"\bantiphon\b", listed)
    assert f"hosts/{name}.json" in listed
    assert well in listed
    assert "shop" not in without(listed, tmp_path)

    untouched = home.file(name).read_bytes() == installed
    await home.antiphon("uninstall", name)
    if untouched:
        assert home.file(name).read_bytes() == before
    listed = await home.run(*lists)
    assert "shop" in without(listed, tmp_path)
    assert f"hosts/{name}.json" not in listed


def without(listed: str, folder: Path) -> str:
    """Return a list without the paths of this run."""
    return listed.replace(str(folder), "").replace(SHOP, "")
