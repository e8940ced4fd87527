"""A client that is killed while it follows a task: another process goes on with it, and the person is asked once."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path

import pytest

from antiphon.host import Approve, Queue, digest
from antiphon.host.review.question import Question
from antiphon.host.store import open_store
from tests.support.ports import free_port

pytestmark = pytest.mark.slow

PATIENCE = 120.0
"""Seconds for anything that a process here does, on a machine that is busy with other work."""

SERVER = """
from pathlib import Path
from antiphon import Context, Server
from antiphon.server import SqlTaskStore, TaskOptions

place = Path(__file__).parent
store = SqlTaskStore(place / "tasks.db")
server = Server("press", keys=[b"k" * 32], tasks=TaskOptions(store=store, poll_every=0.05, lease=1))

def noted() -> str:
    with (place / "steps").open("a") as file:
        file.write("draft\\n")
    return "draft"

@server.tool(task="required")
async def publish(title: str, ctx: Context) -> str:
    await ctx.step("draft", noted)
    return f"{title}: {(await ctx.sample('May I?')).text}"

if __name__ == "__main__":
    server.run()
"""


class Place:
    """A folder in which programs run: a server, and one command after the other."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        own = {name: os.environ[name] for name in ("PATH", "PYTHONPATH") if name in os.environ}
        self._env = {
            **own,
            "HOME": str(folder),
            "XDG_STATE_HOME": str(folder / "state"),
            "XDG_CONFIG_HOME": str(folder / "config"),
        }

    @asynccontextmanager
    async def runs(self, *words: str) -> AsyncIterator[asyncio.subprocess.Process]:
        """Run a command; at the end, nothing of its process group is left, and nothing in its pipes."""
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "antiphon", *words, cwd=self.folder, env=self._env, start_new_session=True,
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                await process.communicate()

    async def said(self, *words: str) -> str:
        """Run a command to its end; return what it has said."""
        async with self.runs(*words) as process, asyncio.timeout(PATIENCE):
            out, _ = await process.communicate()
            assert process.returncode == 0, out.decode()
            return out.decode().strip()

    async def served(self, stack: AsyncExitStack, transport: str) -> str:
        """Return what to call the server by; over HTTP it runs until the stack is left."""
        if transport == "stdio":
            return "press.py"
        port = free_port()
        server = await stack.enter_async_context(self.runs("serve", "press.py", "--http", f"127.0.0.1:{port}"))
        assert server.stdout is not None
        async with asyncio.timeout(PATIENCE):
            said = await server.stdout.readuntil(f":{port}".encode())
        assert b"Traceback" not in said, said
        return f"http://127.0.0.1:{port}/mcp"


async def asked(queue: Queue) -> Question:
    """Return the question that waits, once a living process waits for it."""
    async with asyncio.timeout(PATIENCE):
        async for _ in queue.changes():
            for question in await queue.pending():
                if question.waited_for:
                    return question
    raise AssertionError


async def left_alone(queue: Queue) -> None:
    """Wait until it is known that nobody waits for the question any more."""
    async with asyncio.timeout(PATIENCE):
        async for _ in queue.changes():
            if not any(question.waited_for for question in await queue.pending()):
                return


@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_a_killed_client_comes_back_in_a_new_process(tmp_path: Path, transport: str) -> None:
    """With nothing but the id: the open question is taken over and not put again, no step is repeated."""
    place = Place(tmp_path)
    (tmp_path / "press.py").write_text(SERVER)
    async with AsyncExitStack() as stack:
        target = await place.served(stack, transport)
        said = await place.said("call", target, "publish", "title=Tides", "--background")
        # On stdio a note precedes it on standard error: the server has ended, and only its store has the task.
        id = said.splitlines()[-1]
        store = open_store(tmp_path / "host.db")
        stack.push_async_callback(store.aclose)
        queue = Queue(store)
        follow = (
            "tasks",
            "follow",
            id,
            "--provider",
            "echo",
            "--review",
            "queue",
            "--store",
            str(tmp_path / "host.db"),
        )
        async with place.runs(*follow) as killed:
            first = await asked(queue)
            # What comes before the question is recorded. (The process in which the task began may have been killed
            # between the step and its record; it is then taken again.)
            steps = (tmp_path / "steps").read_text()
            os.killpg(killed.pid, signal.SIGKILL)
        # As the beat of any process with the store does, every few seconds.
        await store.recover()
        await left_alone(queue)
        async with place.runs(*follow) as follower:
            second = await asked(queue)
            assert second.id == first.id
            assert second.item is not None
            task = second.item.origin.task
            assert task is not None
            assert (task.asks, task.started is not None) == (0, True)
            await queue.decide(second.id, Approve(digest=digest(second.item.params)), hash=second.hash)
            async with asyncio.timeout(PATIENCE):
                out, _ = await follower.communicate()
        assert out.decode().strip().endswith("Tides: [echo] May I?")
        assert follower.returncode == 0
    assert steps
    assert (tmp_path / "steps").read_text() == steps
