"""A server process is killed in the middle of a session, and started again at the same address."""

from __future__ import annotations

import asyncio

import pytest

from antiphon import Client, ConnectionClosed, PeerError
from antiphon.transports.http.client.error_replies import BROKEN, UNREACHABLE
from tests.support.child_server import listens, started
from tests.support.network import until
from tests.support.ports import free_port

PROGRAM = '''
import asyncio, pathlib
from antiphon import Context, Server
from antiphon.wire.tools import ToolAnnotations

server = Server("mortal", version="1")


async def work(signal: str, ctx: Context) -> str:
    """Report, and work until a file is there."""
    await ctx.progress(1)
    while not pathlib.Path(signal).exists():
        await asyncio.sleep(0.01)
    return "done"


server.tool(work, name="pay")
server.tool(work, name="look", annotations=ToolAnnotations(read_only_hint=True))
'''

HTTP = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]
CASES = [("--http", "http://{}/mcp", revision) for revision in HTTP]
CASES += [
    ("--sse", "http://{}/sse", "auto"),
    ("--ws", "ws://{}/ws", "2025-11-25"),
    ("--ws", "ws://{}/ws", "2026-07-28"),
]


class Mortal:
    """A server process that can be killed and started again."""

    def __init__(self, folder, option):
        self._file = folder / "program.py"
        self._file.write_text(PROGRAM)
        self._option = option
        self.go = folder / "go"
        self.place = f"127.0.0.1:{free_port()}"
        self._process = None

    async def start(self):
        self._process = started("serve", str(self._file), self._option, self.place)
        await until(lambda: listens(self.place))

    def kill(self):
        self._process.kill()
        self._process.communicate()


@pytest.mark.parametrize(("option", "url", "revision"), CASES)
async def test_a_server_is_killed_and_started_again(tmp_path, option, url, revision):
    """Open calls are reported, or made again where that is safe; the next call is served."""
    server = Mortal(tmp_path, option)
    await server.start()
    reports = asyncio.Semaphore(0)
    try:
        async with Client(url.format(server.place), revision=revision) as client:
            await client.list_tools()
            paying, looking = (
                asyncio.ensure_future(
                    client.call_tool(name, {"signal": str(server.go)}, progress=lambda *_: reports.release())
                )
                for name in ("pay", "look")
            )
            await reports.acquire()
            await reports.acquire()
            server.kill()
            await server.start()
            async with asyncio.timeout(30):
                with pytest.raises((PeerError, ConnectionClosed), match=server.place) as raised:
                    await paying
                server.go.touch()
                assert (await looking).text == "done"
                assert (await client.call_tool("pay", {"signal": str(server.go)})).text == "done"
        assert isinstance(raised.value, ConnectionClosed) or raised.value.code == BROKEN
    finally:
        server.kill()


@pytest.mark.parametrize(("option", "url", "revision"), CASES[2:])
async def test_a_server_that_stays_away_is_reported_until_it_is_back(tmp_path, option, url, revision):
    """Each call says that nobody answers, at once; the first one after the return is served."""
    server = Mortal(tmp_path, option)
    server.go.touch()
    await server.start()
    try:
        async with Client(url.format(server.place), revision=revision) as client:
            signal = {"signal": str(server.go)}
            assert (await client.call_tool("pay", signal)).text == "done"
            server.kill()
            for _ in range(2):
                async with asyncio.timeout(30):
                    with pytest.raises((PeerError, ConnectionClosed), match=server.place) as raised:
                        await client.call_tool("pay", signal)
            assert isinstance(raised.value, ConnectionClosed) or raised.value.code == UNREACHABLE
            await server.start()
            assert (await client.call_tool("pay", signal)).text == "done"
            assert client.revision in (revision, "2024-11-05", "2025-11-25")
    finally:
        server.kill()
