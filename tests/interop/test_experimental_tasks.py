"""The official SDKs that know only the tasks of 2025-11-25, as clients of our server."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.interop.peers import Peers

SERVER = """
from antiphon import Context, Server
from antiphon.server import TaskOptions

server = Server("press", tasks=TaskOptions(poll_every=0.05))

@server.tool(task="required")
async def publish(ctx: Context) -> str:
    return f"{(await ctx.sample('one')).text} {(await ctx.sample('two')).text}"

server.run()
"""


@pytest.mark.parametrize("peer", ["python1", "ts1"])
def test_they_call_a_tool_as_a_task_and_are_asked(peers: Peers, tmp_path: Path, peer: str):
    """Once for each question; the result is that of the call, and a task that they cancel is cancelled."""
    (tmp_path / "press.py").write_text(SERVER)
    done = peers.run([*peers.program(f"{peer}_tasks"), sys.executable, str(tmp_path / "press.py")])
    assert done.returncode == 0, done.stderr[-4000:]
    seen = json.loads(done.stdout)
    assert seen["statuses"][0] == "working"
    assert "input_required" in seen["statuses"]
    assert (seen["text"], seen["asked"][:2], seen["cancelled"]) == ("ONE TWO", ["one", "two"], "cancelled")
