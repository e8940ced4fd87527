"""A gateway for a day, in two minutes: ten thousand sessions over twenty servers, and then it is killed."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gateway.test_hostile_servers import BASE
from tests.support.network import until
from tests.support.processes import lives

SESSIONS = 10_000
SERVERS = 20
LIMIT = 8

SERVER = """
import os
if os.fork() == 0:
    # What some servers leave behind: out of the session and the group, with nothing open.
    os.setsid()
    for stream in (0, 1, 2):
        os.close(stream)
    note = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(note, f"{os.getpid()}\\n".encode())
    time.sleep(600)
    os._exit(0)
serve(done)
"""

GATEWAY = """
import asyncio, json, os, random, sys
from pathlib import Path

from antiphon import Client
from antiphon.gateway import Gateway
from antiphon.host import Host, Limits, Policy, Scripted

SESSIONS, SERVERS, LIMIT = (int(word) for word in sys.argv[1:4])
program, notes, lists = sys.argv[4:]
PAGE = os.sysconf("SC_PAGE_SIZE")

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE

def children():
    return [pid for pid in os.listdir("/proc") if pid.isdigit() and is_server(pid)]

def is_server(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return int(status[1]) == os.getpid() and program.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False

async def session(gateway, name):
    async with Client(gateway.server) as client:
        assert len([tool async for tool in client.tools()]) == SERVERS
        text = (await client.call_tool(f"{name}__go")).text
        assert text == "done", text

async def main():
    names = [f"s{number}" for number in range(SERVERS)]
    targets = {name: [sys.executable, "-ISu", program, notes, name] for name in names}
    host = Host(Scripted([]), policy=Policy(default="allow"), limits=Limits(per_minute=None))
    gateway = Gateway(targets, host, max_processes=LIMIT, lists=Path(lists), idle_timeout=5.0, list_timeout=60)
    most, sizes, chosen = 0, [], random.Random(1)
    async with Client(gateway.server) as keeps_open:
        await keeps_open.ping()
        for number in range(SESSIONS // 50):
            # Some servers are in use for a while, then others.
            if number % 10 == 0:
                few = chosen.sample(names, LIMIT - 2)
            await asyncio.gather(*(session(gateway, chosen.choice(few)) for _ in range(50)))
            most = max(most, len(children()))
            if number % (SESSIONS // 500) == 0:
                sizes.append(resident())
        print(json.dumps({"most": most, "sizes": sizes, "running": gateway._terms.processes.running}), flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""


@pytest.mark.slow
async def test_ten_thousand_sessions_leave_nothing_behind(tmp_path: Path):
    """Never more servers than the limit, memory stays where it was, and when it is killed nothing is left."""
    program, notes = tmp_path / "server.py", tmp_path / "notes"
    program.write_text(BASE + SERVER)
    command = [sys.executable, "-c", GATEWAY, str(SESSIONS), str(SERVERS), str(LIMIT)]
    gateway = await asyncio.to_thread(
        subprocess.Popen,
        [*command, str(program), str(notes), str(tmp_path / "lists")],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        assert gateway.stdout is not None
        async with asyncio.timeout(600):
            said = json.loads(await asyncio.to_thread(gateway.stdout.readline))
    finally:
        os.killpg(gateway.pid, signal.SIGKILL)
        await asyncio.to_thread(gateway.communicate)
    assert said["most"] <= LIMIT
    assert said["running"] <= LIMIT
    early, late = max(said["sizes"][:3]), max(said["sizes"][-3:])
    assert late < early + 16 * 1024 * 1024, said["sizes"]
    left = [int(line) for line in notes.read_text().splitlines()]
    assert len(left) >= SERVERS
    await until(lambda: not any(lives(pid) for pid in left), 30)
