"""The official Python SDK 2.x as a client that does what it is told: a command for each line of standard input.

Usage: python2_calls.py MODE   with MODE ``legacy`` or ``2026-07-28``. A line is a JSON object with ``id`` and
``target``, which is an address or a command line, and perhaps ``token``, which is sent as a bearer token. A target is
connected to when it is first named, once for each token. ``do`` is ``call`` (with ``tool`` and ``arguments``, and
perhaps ``meta``, ``progress``, or ``seconds`` after which the call is given up), ``tools``, ``read`` (with ``uri``), or
``close``. The answer is a line with the same ``id``.
"""

from __future__ import annotations

import asyncio
import json
import sys
import warnings
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPDeprecationWarning

warnings.simplefilter("ignore", MCPDeprecationWarning)


def say(**members: Any) -> None:
    """Answer a command."""
    print(json.dumps(members), flush=True)


async def carry_out(client: Client, command: dict[str, Any]) -> None:
    """Carry out one command."""
    reports: list[str | None] = []

    async def report(progress: float, total: float | None, message: str | None) -> None:
        reports.append(message)

    try:
        options: dict[str, Any] = {"progress_callback": report} if command.get("progress") else {}
        if command["do"] == "tools":
            doing: Any = client.list_tools()
        elif command["do"] == "read":
            doing = client.read_resource(command["uri"])
        else:
            doing = client.call_tool(command["tool"], command["arguments"], meta=command.get("meta"), **options)
        result = await asyncio.wait_for(doing, command.get("seconds"))
        said = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        say(id=command["id"], result=said, reports=reports)
    except Exception as error:
        say(id=command["id"], error=f"{type(error).__name__}: {error}", reports=reports)


async def connect(mode: str, command: dict[str, Any], waiting: asyncio.Queue[dict[str, Any]]) -> None:
    """Connect to a target, and carry out its commands at the same time until it is closed."""
    target = command["target"]
    if isinstance(target, str):
        token = command.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        where: Any = streamable_http_client(target, http_client=httpx2.AsyncClient(headers=headers, timeout=90))
    else:
        where = StdioServerParameters(command=target[0], args=target[1:])
    tasks: set[asyncio.Task[None]] = set()
    try:
        async with Client(where, mode=mode) as client:
            while (command := await waiting.get())["do"] != "close":
                task = asyncio.create_task(carry_out(client, command))
                tasks.add(task)
                task.add_done_callback(tasks.discard)
        say(id=command["id"], result={})
    except Exception as error:
        while not waiting.empty():
            command = waiting.get_nowait()
            say(id=command["id"], error=f"{type(error).__name__}: {error}")


async def main(mode: str) -> None:
    """Hand each command to the connection with its target, until there are no more."""
    loop = asyncio.get_running_loop()
    places: dict[str, tuple[asyncio.Queue[dict[str, Any]], asyncio.Task[None]]] = {}
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        key = json.dumps([command["target"], command.get("token")])
        if key not in places or places[key][1].done():
            waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            waiting.put_nowait(command)
            places[key] = waiting, asyncio.create_task(connect(mode, command, waiting))
        else:
            places[key][0].put_nowait(command)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
