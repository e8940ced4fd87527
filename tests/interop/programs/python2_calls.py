"""The official Python SDK 2.x as a client that calls what it is told to: a command for each line of standard input.

Usage: python2_calls.py MODE URL|COMMAND...   with MODE ``legacy`` or ``2026-07-28``. A line is a JSON object with
``id``, ``tool`` and ``arguments``, and perhaps ``meta``, ``progress`` or ``seconds``, after which the call is given
up. The answer is a line with the same ``id``. With ``TOKEN`` in the environment it is sent as a bearer token.
"""

from __future__ import annotations

import asyncio
import json
import os
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
        calling = client.call_tool(command["tool"], command["arguments"], meta=command.get("meta"), **options)
        result = await asyncio.wait_for(calling, command.get("seconds"))
        said = result.model_dump(mode="json", by_alias=True, exclude_none=True)
        say(id=command["id"], result=said, reports=reports)
    except Exception as error:
        say(id=command["id"], error=f"{type(error).__name__}: {error}", reports=reports)


async def main(mode: str, target: list[str]) -> None:
    """Connect, and carry out commands at the same time until there are no more."""
    if "://" in target[0]:
        token = os.environ.get("TOKEN")
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        where: Any = streamable_http_client(target[0], http_client=httpx2.AsyncClient(headers=headers, timeout=60))
    else:
        where = StdioServerParameters(command=target[0], args=target[1:])
    loop = asyncio.get_running_loop()
    async with Client(where, mode=mode) as client:
        say(id=0)
        tasks: set[asyncio.Task[None]] = set()
        while line := await loop.run_in_executor(None, sys.stdin.readline):
            task = loop.create_task(carry_out(client, json.loads(line)))
            tasks.add(task)
            task.add_done_callback(tasks.discard)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2:]))
