"""A gateway between other implementations: what is seen through it is what is seen without it."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from tests.interop.answers import Answerer
from tests.interop.peers import HERE, SURVEYING_SERVER, Peers

GATEWAY = [sys.executable, str(HERE / "gateway.py")]
WALKS = [
    ("python1", "legacy"),
    ("python2", "legacy"),
    ("python2", "modern"),
    ("ts1", "legacy"),
    ("ts2", "legacy"),
    ("ts2", "modern"),
]
OWN = {"server", "instructions"}
"""What a gateway says of itself."""


def seen_by(record: Any) -> Any:
    """Leave out who answered, and how long that may be kept: the lists are the gateway's own."""
    if isinstance(record, dict):
        left_out = {"io.modelcontextprotocol/serverInfo", "ttlMs", "cacheScope"}
        return {name: seen_by(value) for name, value in record.items() if name not in left_out}
    return [seen_by(value) for value in record] if isinstance(record, list) else record


@pytest.mark.parametrize(("name", "era"), WALKS)
def test_a_client_sees_the_same_through_it(peers: Peers, name: str, era: str):
    """Lists, calls, asks of all kinds, progress, logs, errors: in the same order, with the same members."""
    direct = seen_by(peers.walk(name, era, SURVEYING_SERVER))
    through = seen_by(peers.walk(name, era, [*GATEWAY, *SURVEYING_SERVER]))
    different = {
        key: (direct.get(key), through.get(key))
        for key in direct.keys() | through.keys()
        if key not in OWN and direct.get(key) != through.get(key)
    }
    assert different == {}


@pytest.mark.parametrize("era", ["legacy", "modern"])
@pytest.mark.parametrize("method", ["tools/list", "prompts/list", "resources/list", "resources/templates/list"])
def test_the_inspector_lists_the_same_through_it(peers: Peers, tmp_path: Path, era: str, method: str):
    """With the reference server behind it, which only speaks legacy revisions."""
    direct = peers.inspect(tmp_path, "legacy", "--method", method, server=peers.everything)
    through = peers.inspect(tmp_path, era, "--method", method, server=[*GATEWAY, *peers.everything])
    assert (direct.returncode, through.returncode) == (0, 0), through.stderr
    expected = seen_by(json.loads(direct.stdout))
    if era == "modern":
        # A member that revision 2026-07-28 does not have.
        for tool in expected["result"].get("tools", ()):
            tool.pop("execution", None)
    assert seen_by(json.loads(through.stdout)) == expected


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_server_of_the_python_sdk_asks_through_it(peers: Peers, revision: str):
    """The user of a client of either era is asked, for a completion, with a form, and for roots."""
    async with asking(peers.python2_server, revision) as client:
        assert (await client.call_tool("describe", {"product": "hat"})).text == "ours: answer to Describe hat"
        assert (await client.call_tool("book", {"day": "Friday"})).text == "Friday: 4 guests, window=True"
        assert (await client.call_tool("folders")).text.endswith("file:///project")


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_the_server_of_the_typescript_sdk_asks_through_it(peers: Peers, revision: str):
    """Likewise."""
    async with asking([*peers.ts2_server, "stdio"], revision) as client:
        assert (await client.call_tool("ask_model", {"question": "why?"})).text == "ours: answer to why?"
        assert (await client.call_tool("book", {"day": "Friday"})).text == "Friday: 4 guests, window=true"
        assert (await client.call_tool("folders")).text == "file:///project"


def asking(server: list[str], revision: str) -> Client:
    """Make a client that answers everything, of a server behind the gateway."""
    user = Answerer()
    return Client(
        [*GATEWAY, *server], sampling=user.sample, elicitation=user.elicit, roots=["file:///project"], revision=revision
    )
