"""What ``antiphon install`` writes, as the hosts read it themselves: those whose command line comes from npm.

None of them needs a login to list its servers, and Claude Code, Gemini CLI and opencode start each server and greet it.
Their home is an empty folder, and whatever they would send over the network goes to a port where nobody listens.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from pathlib import Path

import pytest

from antiphon.gateway.hosts.known_hosts import KNOWN, place_of
from tests.cli.program import SHOP
from tests.interop.peers import PATIENCE, Peers

SERVER = [sys.executable, SHOP]
OFFLINE = "http://127.0.0.1:9"


class Home:
    """A user of one host, who has nothing but it."""

    def __init__(self, folder: Path, peers: Peers) -> None:
        self.folder = folder
        node = Path(peers.node).parent
        self._environ = {
            "HOME": str(folder),
            "PATH": f"{peers.hosts}:{node}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            "HTTP_PROXY": OFFLINE,
            "HTTPS_PROXY": OFFLINE,
            "BROWSER": "",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Else Gemini CLI starts no servers in a folder that nobody has said to trust.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
        }

    async def run(self, *words: str) -> str:
        """Run a program, and return what it prints; its process group ends with it."""
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env=self._environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(PATIENCE):
                said, _ = await process.communicate()
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()
        text = said.decode()
        assert process.returncode == 0, text
        return text

    async def antiphon(self, *words: str) -> str:
        """Run our command."""
        return await self.run(sys.executable, "-m", "antiphon", *words)

    def file(self, host: str) -> Path:
        """Where a host keeps its servers."""
        return place_of(KNOWN[host], {"HOME": str(self.folder)})


def opencode(home: Home) -> None:
    """Write the server into the file by hand: its own command asks questions."""
    file = home.file("opencode")
    file.parent.mkdir(parents=True)
    entry = json.dumps({"type": "local", "command": SERVER})
    file.write_text(f'{{\n  // mine\n  "mcp": {{"shop": {entry}}}\n}}\n', encoding="utf-8")


HOSTS = {
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


@pytest.mark.parametrize("name", HOSTS)
async def test_a_host_lists_the_gateway_in_the_place_of_its_server(name: str, tmp_path: Path, peers: Peers):
    """Written by its own command, moved by ours, listed by its own; undone, its server is there again."""
    adds, lists, well = HOSTS[name]
    home = Home(tmp_path, peers)
    if adds is None:
        opencode(home)
    else:
        home.file(name).parent.mkdir(parents=True, exist_ok=True)
        await home.run(*adds)
    before = home.file(name).read_bytes()
    assert "Served by the gateway: shop." in await home.antiphon("install", name)
    installed = home.file(name).read_bytes()

    listed = await home.run(*lists)
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
