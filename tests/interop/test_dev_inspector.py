"""``antiphon dev --inspector`` with the real Inspector: its page is served, and its process reaches our server."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path
from typing import Any

import aiohttp

from tests.cli.commands.test_dev import developing
from tests.interop.peers import Peers
from tests.support.child_server import listens
from tests.support.network import until
from tests.support.ports import free_port

PATIENCE = 90
TOKEN = "token-of-the-page"
INFO = {"name": "page", "version": "0"}


def prepare_npx(peers: Peers, folder: Path, port: int) -> dict[str, str]:
    """Let npx find the installed Inspector in a folder, fetch nothing, and open no browser; returns the environment."""
    (folder / "package.json").write_text('{"private": true}')
    (folder / "node_modules").symlink_to(peers.root / "npm" / "node_modules")
    return {
        "PATH": f"{Path(peers.node).parent}{os.pathsep}{os.environ['PATH']}",
        "HOME": str(folder),
        "npm_config_offline": "true",
        "MCP_AUTO_OPEN_ENABLED": "false",
        "MCP_INSPECTOR_API_TOKEN": TOKEN,
        "CLIENT_PORT": str(port),
        "MCP_SANDBOX_PORT": str(free_port()),
    }


async def converse(http: aiohttp.ClientSession, server: Any, *messages: dict[str, Any]) -> dict[int, Any]:
    """Do as the page does at a click: connect to a server, and send it messages; returns the results by their id."""
    async with http.post("/api/mcp/connect", json={"config": server}) as response:
        session = (await response.json())["sessionId"]
    for message in messages:
        body = {"sessionId": session, "message": {"jsonrpc": "2.0", **message}}
        async with http.post("/api/mcp/send", json=body) as response:
            assert await response.json() == {"ok": True}
    wanted = {message["id"] for message in messages if "id" in message}
    results: dict[int, Any] = {}
    async with http.get("/api/mcp/events", params={"sessionId": session}) as events:
        while wanted - results.keys():
            line = await events.content.readline()
            assert line, f"the stream has ended after {results}"
            event = json.loads(line.removeprefix(b"data: ")) if line.startswith(b"data: ") else {}
            if event.get("type") == "message" and "id" in event["data"]:
                results[event["data"]["id"]] = event["data"]["result"]
    return results


async def test_inspector_lists_and_calls_the_tools_of_the_file(peers: Peers, tmp_path: Path):
    """The page is served and names our server, and the process behind it lists and calls the tools."""
    port = free_port()
    async with developing(tmp_path, "--inspector", **prepare_npx(peers, tmp_path, port)) as running:
        await running.says("Serving")
        headers = {"x-mcp-remote-auth": f"Bearer {TOKEN}"}
        async with (
            asyncio.timeout(PATIENCE),
            aiohttp.ClientSession(f"http://127.0.0.1:{port}", headers=headers) as http,
        ):
            await until(lambda: listens(f"127.0.0.1:{port}"))
            async with http.get("/") as response:
                assert "<title>MCP Inspector</title>" in await response.text()
            async with http.get("/api/servers") as response:
                (server,) = (await response.json())["mcpServers"].values()
            assert server == {"type": "streamable-http", "url": running.url}
            greeting = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": INFO}
            call = {"name": "greet", "arguments": {"password": "x"}}
            results = await converse(
                http,
                server,
                {"id": 1, "method": "initialize", "params": greeting},
                {"method": "notifications/initialized"},
                {"id": 2, "method": "tools/list"},
                {"id": 3, "method": "tools/call", "params": call},
            )
            assert [tool["name"] for tool in results[2]["tools"]] == ["greet", "pid"]
            assert results[3]["content"][0]["text"] == "hello"
            await running.says("tools/call greet")
