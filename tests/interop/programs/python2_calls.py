"""The official Python SDK 2.x as a client that does what it is told: a command for each line of standard input.

Usage: python2_calls.py MODE   with MODE ``legacy`` or ``2026-07-28``. A line is a JSON object with ``id`` and
``target``, which is an address or a command line, and perhaps ``token``, which is sent as a bearer token. A target is
connected to when it is first named, once for each token. ``do`` is ``call`` (with ``tool`` and ``arguments``, and
perhaps ``meta`` or ``progress``), ``tools``, ``read`` (with ``uri``), or ``close``. The answer is a line with the same
``id``. With ``give up`` in place of all that, the call with this ``id`` is given up, and answered.
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


doing: dict[int, asyncio.Task[None]] = {}
"""What is being done, by the ids of the commands."""


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
            result: Any = await client.list_tools()
        elif command["do"] == "read":
            result = await client.read_resource(command["uri"])
        else:
            result = await client.call_tool(command["tool"], command["arguments"], meta=command.get("meta"), **options)
        said = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        say(id=command["id"], result=said, reports=reports)
    except (Exception, asyncio.CancelledError) as error:
        say(id=command["id"], error=f"{type(error).__name__}: {error}", reports=reports)
    finally:
        del doing[command["id"]]


async def connect(mode: str, command: dict[str, Any], waiting: asyncio.Queue[dict[str, Any]]) -> None:
    """Connect to a target, and carry out its commands at the same time until it is closed."""
    target = command["target"]
    if isinstance(target, str):
        token = command.get("token")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        where: Any = streamable_http_client(target, http_client=httpx2.AsyncClient(headers=headers, timeout=200))
    else:
        where = StdioServerParameters(command=target[0], args=target[1:])
    try:
        async with Client(where, mode=mode) as client:
            while (command := await waiting.get())["do"] != "close":
                doing[command["id"]] = asyncio.create_task(carry_out(client, command))
        say(id=command["id"], result={})
    except Exception as error:
        unanswered = {command["id"]} if command["do"] == "close" else set()
        while not waiting.empty():
            unanswered.add(waiting.get_nowait()["id"])
        for id in unanswered:
            say(id=id, error=f"{type(error).__name__}: {error}")


async def main(mode: str) -> None:
    """Hand each command to the connection with its target, until there are no more."""
    loop = asyncio.get_running_loop()
    places: dict[str, tuple[asyncio.Queue[dict[str, Any]], asyncio.Task[None]]] = {}
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        command = json.loads(line)
        if command["do"] == "give up":
            doing[command["id"]].cancel()
            continue
        key = json.dumps([command["target"], command.get("token")])
        if key not in places or places[key][1].done():
            waiting: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
            waiting.put_nowait(command)
            places[key] = waiting, asyncio.create_task(connect(mode, command, waiting))
        else:
            places[key][0].put_nowait(command)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
