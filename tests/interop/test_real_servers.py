"""Twelve servers that other people publish, from their packages, behind one gateway: the same as without it.

Some of them speak 2026-07-28, the others are older. Without a network some calls end in an error, which has to be
the same error.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import pytest

from antiphon import Client
from antiphon.errors import MethodNotFound
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted
from tests.interop.host_homes import OFFLINE
from tests.interop.peers import PATIENCE, Peers


class RealServer(NamedTuple):
    """A server, and a call that it answers in the same way each time."""

    program: str
    tool: str
    arguments: Mapping[str, Any] = MappingProxyType({})
    words: tuple[str, ...] = ()
    """Arguments of its command line; ``FOLDER`` is a folder of the test."""


SERVERS = {
    "everything": RealServer("mcp-server-everything", "echo", {"message": "hello"}),
    "filesystem": RealServer("mcp-server-filesystem", "list_allowed_directories", words=("FOLDER",)),
    "memory": RealServer("mcp-server-memory", "read_graph"),
    "thinking": RealServer(
        "mcp-server-sequential-thinking",
        "sequentialthinking",
        {"thought": "so", "nextThoughtNeeded": False, "thoughtNumber": 1, "totalThoughts": 1},
    ),
    # Declares resources, and has no templates: it answers their list with an error.
    "kubernetes": RealServer("mcp-server-kubernetes", "ping"),
    "playwright": RealServer("playwright-mcp", "browser_close"),
    "context7": RealServer("context7-mcp", "resolve-library-id", {"libraryName": "x", "query": "x"}),
    "time": RealServer(
        "mcp-server-time", "convert_time", {"source_timezone": "UTC", "time": "12:00", "target_timezone": "Asia/Tokyo"}
    ),
    "git": RealServer("mcp-server-git", "git_branch", {"repo_path": "FOLDER", "branch_type": "local"}),
    "fetch": RealServer("mcp-server-fetch", "fetch", {"url": OFFLINE}),
    "sqlite": RealServer("mcp-server-sqlite", "list_tables", words=("--db-path", "FOLDER/tables.db")),
    "calculator": RealServer("mcp-server-calculator", "calculate", {"expression": "6*7"}),
}


@pytest.mark.timeout(2 * PATIENCE)
async def test_twelve_servers_behind_one_gateway(tmp_path: Path, peers: Peers):
    """Each lists and answers as it does directly."""
    peers.run(["git", "init", "--quiet", str(tmp_path)])
    targets = {name: target(peers, server, tmp_path) for name, server in SERVERS.items()}
    host = Host(Scripted([]), policy=Policy(default="allow"))
    direct: dict[str, Any] = {}
    for name, server in SERVERS.items():
        async with Client(targets[name], sampling=host, elicitation=host.elicit) as client:
            direct[name] = await seen(client, server, tmp_path)

    async with Client(Gateway(targets, host).server) as client:
        await all_listed(client)
        through = {name: await seen(client, server, tmp_path, f"{name}__") for name, server in SERVERS.items()}
    assert {name: one["here"] for name, one in through.items()} == {name: one["here"] for name, one in direct.items()}
    for one in through.values():
        assert one["anywhere"] == sorted(entry for each in direct.values() for entry in each["anywhere"])


def target(peers: Peers, server: RealServer, folder: Path) -> dict[str, Any]:
    """Return how a server is started: in a folder of its own, and without a network."""
    program, *words = [*peers.server(server.program), *server.words]
    proxies = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), OFFLINE)
    env = {**proxies, "MEMORY_FILE_PATH": str(folder / "memory.json")}
    return {"command": program, "args": placed(words, folder), "env": env, "cwd": str(folder)}


def placed(value: Any, folder: Path) -> Any:
    """Return arguments with the folder of the test."""
    return json.loads(json.dumps(value, default=dict).replace("FOLDER", str(folder)))


async def all_listed(client: Client) -> None:
    """Wait until each server has listed its tools."""
    async with client.listen(tools=True) as changes:
        while True:
            names = {tool.name.partition("__")[0] async for tool in client.tools()}
            if names == SERVERS.keys():
                return
            await anext(changes)


async def seen(client: Client, server: RealServer, folder: Path, prefix: str = "") -> dict[str, Any]:
    """Return what a client sees of a server: what bears its name, and what is listed for all servers together."""
    result = await client.call_tool(prefix + server.tool, placed(server.arguments, folder))
    here = {
        "tools": named(prefix, await entries(client.tools())),
        "prompts": named(prefix, await entries(client.prompts())),
        "answer": (result.text, result.is_error),
    }
    resources = [one.uri for one in await entries(client.resources())]
    templates = [one.uri_template for one in await entries(client.resource_templates())]
    return {"here": here, "anywhere": sorted([*resources, *templates])}


async def entries(listed: AsyncIterator[Any]) -> list[Any]:
    """Return the entries of a list; a server that does not offer it has none."""
    try:
        return [entry async for entry in listed]
    except MethodNotFound:
        return []


def named(prefix: str, listed: Sequence[Any]) -> dict[str, Any]:
    """Return the definitions of one server by the names that it gave to them.

    Tools of 2026-07-28 have no ``execution``, and the gateway speaks that revision whatever its servers speak.
    """
    own = {one.name.removeprefix(prefix): one for one in listed if one.name.startswith(prefix)}
    return {name: {**msgspec.to_builtins(one), "name": name, "execution": None} for name, one in own.items()}
