"""The official SDKs that know only the tasks of 2025-11-25, as clients of our server."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import pytest

from tests.interop.peers import Peers
from tests.support.three_replicas import three_replicas

SERVER = """
import os
import sys
from pathlib import Path

from antiphon import Context, Server
from antiphon.server import RedisCluster, SqlTaskStore, TaskOptions

engine = os.environ.get("REPLICAS_ENGINE")
if engine is None:
    server = Server("press", tasks=TaskOptions(poll_every=0.05))
else:
    store = SqlTaskStore(Path(os.environ["REPLICAS_FOLDER"]) / "tasks.db")
    tasks = TaskOptions(store=store, poll_every=0.05)
    server = Server("press", tasks=tasks, keys=[b"k" * 32], cluster=RedisCluster(engine))

@server.tool(task="required")
async def publish(ctx: Context) -> str:
    return f"{(await ctx.sample('one')).text} {(await ctx.sample('two')).text}"

if engine is None:
    server.run()
else:
    server.run("http", port=int(sys.argv[1]))
"""


@pytest.fixture(scope="module", params=["stdio", "replicas"])
def place(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Say where the server is: the command line that starts it, or the address of nginx before three of it."""
    program = tmp_path_factory.mktemp("press") / "press.py"
    program.write_text(SERVER)
    command = [sys.executable, str(program)]
    if request.param == "stdio":
        yield command
        return
    with three_replicas(command) as url:
        yield [url]


@pytest.mark.parametrize("peer", ["python1", "ts1"])
def test_they_call_a_tool_as_a_task_and_are_asked(peers: Peers, place: list[str], peer: str):
    """Once for each question; the result is that of the call, and a task that they cancel is cancelled."""
    done = peers.run([*peers.program(f"{peer}_tasks"), *place])
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["statuses"][0] == "working"
    assert "input_required" in seen["statuses"]
    assert (seen["text"], seen["asked"][:2], seen["cancelled"]) == ("ONE TWO", ["one", "two"], "cancelled")
