"""A gateway, its server and its host as processes, for calls that a person decides about late.

python -m tests.support.pending gateway STORE PORT FOLDER
python -m tests.support.pending server FOLDER
python -m tests.support.pending host PORT FOLDER COUNT
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from antiphon import Client, Server
from antiphon.errors import AntiphonError
from antiphon.gateway import Gateway
from antiphon.host import Host, Limits, Queue, Scripted
from antiphon.host.pipeline import tool_consent
from antiphon.host.store import open_store

__all__ = ["AT_ONCE", "RAN"]

RAN = "ran"
"""The file that the server adds a line to whenever a call runs."""
AT_ONCE = 16
"""Calls that the host makes at the same time; fewer than one principal may leave."""


def serve_gateway(store_path: str, port: int, folder: Path) -> None:
    """Serve the server behind it over HTTP; callers wait only briefly for a person."""
    # The host is killed and comes again, on a machine that may be busy for longer than the minute of the real gateway.
    tool_consent.REPEATED = 3600.0
    store = open_store(store_path)
    plenty = Limits(per_minute=1_000_000, concurrent=1_000, pending_reviews=1_000, per_call=1_000_000)
    host = Host(Scripted([]), reviewer=Queue(store), store=store, limits=plenty)
    command = [sys.executable, "-m", "tests.support.pending", "server", str(folder)]
    Gateway({"shop": command}, host, answer_within=1.0, inherit_env=True).run("http", port=port)


def serve_tool(folder: Path) -> None:
    """Offer one tool that notes each of its calls before it returns."""
    (folder / f"server-{os.getpid()}").touch()
    server = Server("shop")

    @server.tool
    def order(sku: str) -> str:
        with (folder / RAN).open("a") as ran:
            ran.write(f"{sku}\n")
        return f"ordered {sku}"

    server.run()


async def ask(port: int, folder: Path, count: int) -> None:
    """Make each call again and again until its outcome is known, and note that; those that have one are left out."""
    noted = folder / "outcomes"
    known = {line.split()[0] for line in (noted.read_text() if noted.exists() else "").splitlines()}
    left = iter([sku for at in range(count) if (sku := f"P-{at}") not in known])
    async with Client(f"http://127.0.0.1:{port}/mcp", timeout=30, revision="2025-11-25") as client:

        async def work() -> None:
            for sku in left:
                while (outcome := await make_call(client, sku)) is None:
                    pass
                with noted.open("a") as file:
                    file.write(f"{sku} {outcome}\n")

        await asyncio.gather(*(work() for _ in range(AT_ONCE)))


async def make_call(client: Client, sku: str) -> str | None:
    """Make a call; return what became of it, or nothing if it waits or its gateway has ended."""
    text = (await client.call_tool("shop__order", {"sku": sku})).text
    if f"ordered {sku}" in text:
        return "run"
    if "Nobody knows" in text:
        return "unknown"
    return "refused" if "User rejected" in text else None


def main(role: str, *given: str) -> None:
    """Play one of the roles."""
    if role == "gateway":
        serve_gateway(given[0], int(given[1]), Path(given[2]))
    elif role == "server":
        serve_tool(Path(given[0]))
    else:
        try:
            asyncio.run(ask(int(given[0]), Path(given[1]), int(given[2])))
        except* (AntiphonError, OSError):
            sys.exit(3)


if __name__ == "__main__":
    main(*sys.argv[1:])
