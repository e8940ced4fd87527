"""Servers that hang, flood, die or change behind a gateway, as real processes: it costs their own calls alone."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from antiphon.errors import AntiphonError
from antiphon.gateway import Gateway, upstream
from antiphon.host import Host, Policy, Scripted
from tests.support.behind_gateway import upstreams_of
from tests.support.processes import lives

BASE = """
import json, sys, threading, time

def send(message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def lists_changed():
    send({"method": "notifications/tools/list_changed"})

names = ["go"]

def serve(call):
    for line in sys.stdin:
        asked = json.loads(line)
        method, id = asked.get("method"), asked.get("id")
        if method == "initialize":
            info = {"name": "raw", "version": "1"}
            capabilities = {"tools": {"listChanged": True}}
            result = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "serverInfo": info}
            send({"id": id, "result": result})
        elif method == "tools/list":
            tools = [{"name": name, "inputSchema": {"type": "object"}} for name in names]
            send({"id": id, "result": {"tools": tools}})
        elif method == "tools/call":
            call(id)
        elif id is not None:
            send({"id": id, "error": {"code": -32601, "message": "no such method"}})

def done(id, text="done"):
    send({"id": id, "result": {"content": [{"type": "text", "text": text}]}})
"""

GOOD = "serve(done)"

HANGS_AT_ONCE = "time.sleep(600)"

HANGS_IN_A_CALL = "serve(lambda id: None)"

DIES = """
def call(id):
    sys.exit("out of luck")
serve(call)
"""

FLOODS_WITH_NOISE = """
def call(id):
    while True:
        sys.stdout.write("noise " * 10_000 + "\\n")
serve(call)
"""

FLOODS_WITH_CHANGES = """
def call(id):
    def flood():
        line = json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}) + "\\n"
        while True:
            sys.stdout.write(line * 1000)
    threading.Thread(target=flood, daemon=True).start()
serve(call)
"""

FLOODS_WITHOUT_AN_END = """
def call(id):
    while True:
        sys.stdout.write("{" + "x" * 1_000_000)
serve(call)
"""

ANSWERS_TOO_MUCH = """
def call(id):
    done(id, "x" * 100_000_000)
serve(call)
"""

CHANGES = """
def call(id):
    names[:] = ["stop"]
    lists_changed()
    done(id)
serve(call)
"""


def made(folder: Path, program: str, **options: Any) -> Gateway:
    """Make a gateway with a good server, and one with this program."""
    (folder / "good.py").write_text(BASE + GOOD)
    (folder / "bad.py").write_text(BASE + program)
    targets = {name: [sys.executable, "-ISu", str(folder / f"{name}.py")] for name in ("good", "bad")}
    return Gateway(targets, Host(Scripted([]), policy=Policy(default="allow")), **options)


async def answered(client: Client, name: str = "good__go") -> str:
    """Call a tool; return its text."""
    async with asyncio.timeout(30):
        return (await client.call_tool(name)).text


async def test_one_that_hangs_at_its_start_keeps_nobody(tmp_path: Path):
    """Others are listed without it after a while, and called at once."""
    gateway = made(tmp_path, HANGS_AT_ONCE, list_timeout=0.5)
    async with Client(gateway.server) as client:
        assert await answered(client) == "done"
        assert [tool.name async for tool in client.tools()] == ["good__go"]
        assert [one.state for one in gateway.upstreams] == ["running", "starting"]


@pytest.mark.parametrize(
    "program",
    [HANGS_IN_A_CALL, FLOODS_WITH_NOISE, FLOODS_WITH_CHANGES, FLOODS_WITHOUT_AN_END],
    ids=["hangs", "noise", "changes", "a line without an end"],
)
async def test_while_one_floods_another_answers(tmp_path: Path, program: str):
    """And whoever called the bad one can give up."""
    gateway = made(tmp_path, program)
    async with Client(gateway.server) as client:
        calling = asyncio.create_task(client.call_tool("bad__go"))
        for _ in range(50):
            assert await answered(client) == "done"
        assert not calling.done()
        calling.cancel()
        await asyncio.wait([calling])
        pids = [one.process for one in upstreams_of(gateway)]
    assert not any(lives(pid) for pid in pids if pid is not None)


async def test_an_answer_of_100_megabytes_is_an_error_of_its_call(tmp_path: Path):
    """Which says so; nobody waits for ever, and the server goes on."""
    gateway = made(tmp_path, ANSWERS_TOO_MUCH)
    async with Client(gateway.server) as client:
        text, other = await asyncio.gather(answered(client, "bad__go"), answered(client))
        assert (other, "too large: 100000082 bytes" in text) == ("done", True)
        assert [one.state for one in gateway.upstreams] == ["running", "running"]


async def test_one_that_dies_in_its_call_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With its last words, and when it is tried again."""
    # The usual second may be over before a busy machine makes the next call.
    monkeypatch.setattr(upstream, "_PAUSES", (600.0,))
    gateway = made(tmp_path, DIES)
    async with Client(gateway.server) as client:
        assert "out of luck" in await answered(client, "bad__go")
        assert re.search(r"tried again in (600|5\d\d) s", await answered(client, "bad__go"))
        assert await answered(client) == "done"
        assert [one.state for one in gateway.upstreams] == ["running", "stopped"]


async def test_one_that_dies_in_every_call_is_started_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Although each start succeeds; a call that ends well makes up for all."""
    monkeypatch.setattr(upstream, "_PAUSES", (0.0, 600.0))
    gateway = made(tmp_path, DIES)
    async with Client(gateway.server) as client:
        for _ in range(2):
            assert "out of luck" in await answered(client, "bad__go")
        assert "tried again in" in await answered(client, "bad__go")
        (tmp_path / "bad.py").write_text(BASE + GOOD)
        monkeypatch.setattr(upstream, "_PAUSES", (0.0, 0.0))
        [bad] = [one for one in upstreams_of(gateway) if one.name == "bad"]
        bad._again_at = 0.0
        assert (await answered(client, "bad__go"), bad.failures) == ("done", 0)


async def test_a_tool_that_is_gone_is_nobodys(tmp_path: Path):
    """And the one that came in its place is told of."""
    gateway = made(tmp_path, CHANGES)
    async with Client(gateway.server) as client, client.listen(tools=True) as changes:
        assert len([tool async for tool in client.tools()]) == 2
        assert await answered(client, "bad__go") == "done"
        async with asyncio.timeout(30):
            await anext(changes)
        assert [tool.name async for tool in client.tools()] == ["good__go", "bad__stop"]
        with pytest.raises(AntiphonError, match="Unknown tool: bad__go"):
            await answered(client, "bad__go")
