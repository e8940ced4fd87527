"""More calls at once than a process may have files open: they wait for a connection, and none fails."""

from __future__ import annotations

import asyncio
import sys

import pytest

from antiphon import Context, Server
from tests.support.network import listening

CLIENT = """
import asyncio, resource, sys
from antiphon import Client

resource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))


async def answer(params, origin):
    return "fine"


async def main():
    async with Client(sys.argv[1], sampling=answer, revision=sys.argv[2]) as client:
        calls = [client.call_tool("ask") for _ in range(300)]
        results = await asyncio.gather(*calls, return_exceptions=True)
    failed = [repr(each) for each in results if isinstance(each, BaseException) or each.text != "fine"]
    print(len(results), len(failed), failed[:2])


asyncio.run(main())
"""


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_calls_wait_for_a_connection(revision: str) -> None:
    """Three hundred calls, each of which asks, with 128 open files: answers need connections, too."""
    server = Server("busy", version="1")

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("?", max_tokens=5)).text

    async with listening(server) as network:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", CLIENT, f"http://{network.place}/mcp", revision, stdout=asyncio.subprocess.PIPE
        )
        said, _ = await process.communicate()
    assert said.decode().split()[:2] == ["300", "0"], said.decode()
