"""Hosts that are killed while their questions wait: people see at once that nobody waits for them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from pathlib import Path

from antiphon.host import Queue, open_store
from tests.cli.program import in_process

ROOT = Path(__file__).parents[2]
HOST = """
import asyncio, sys
from antiphon.host import Host, Queue, Scripted, open_store
from tests.host.asks import origin, request

async def main():
    store = open_store(sys.argv[1])
    host = Host(Scripted(["one"]), reviewer=Queue(store), store=store)
    asked = [asyncio.ensure_future(host(request(f"{sys.argv[2]} {n}"), origin(f"{sys.argv[2]}-{n}"))) for n in range(2)]
    while len(await Queue(store).pending()) < int(sys.argv[3]):
        await asyncio.sleep(0.05)
    print("asked", flush=True)
    await asyncio.wait(asked)

asyncio.run(main())
"""


async def started(place: Path, name: str, waiting: int) -> asyncio.subprocess.Process:
    """Start a host, and wait until so many questions are in the store."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", HOST, str(place), name, str(waiting), cwd=ROOT, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    assert await process.stdout.readline() == b"asked\n"
    return process


async def test_questions_of_killed_hosts_are_marked(tmp_path: Path):
    """By whoever looks at the store next, in a command and in a queue that was open before; others keep waiting."""
    place = tmp_path / "host.db"
    first = await started(place, "first", 2)
    second = await started(place, "second", 4)
    store = open_store(str(place))
    queue = Queue(store)
    try:
        assert [one.waited_for for one in await queue.pending()] == [True] * 4
        os.kill(first.pid, signal.SIGKILL)
        await first.wait()
        listed = await asyncio.to_thread(in_process, "review", "list", "--store", str(place))
        assert [line.split("\t")[1] for line in listed.out.splitlines()] == ["left", "left", "pending", "pending"]
        async for _ in queue.changes():
            if [one.waited_for for one in await queue.pending()] == [False, False, True, True]:
                break
    finally:
        await store.aclose()
        with contextlib.suppress(ProcessLookupError):
            second.kill()
        await second.wait()
