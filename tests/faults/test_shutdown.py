"""A server that is told to stop lets those that are being served have their answer, and is gone after that."""

from __future__ import annotations

import asyncio
import signal

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import AntiphonError
from tests.support.child_server import ended, listens, served
from tests.support.network import listening, until

REVISIONS = ["2025-03-26", "2025-11-25", "2026-07-28"]

PROGRAM = '''
import asyncio, pathlib
from antiphon import Context, Server
from antiphon.server.serving import network

network.DRAIN = 3
server = Server("patient", version="1")


@server.tool
async def work(signal: str, ctx: Context) -> str:
    """Work until a file is there."""
    await ctx.progress(1)
    while not pathlib.Path(signal).exists():
        await asyncio.sleep(0.01)
    return "done"


@server.tool
async def ask(ctx: Context) -> str:
    """Ask the client's model."""
    return (await ctx.sample("?", max_tokens=5)).text
'''


async def has_begun(calling, reported):
    """Wait until a call has reported; if it has ended instead, say how."""
    await until(lambda: reported.is_set() or calling.done())
    assert reported.is_set(), calling


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_has_its_answer_before_the_end(tmp_path, revision):
    """SIGTERM during a call: nobody new is let in, the answer arrives, and the exit is clean."""
    go, reported = tmp_path / "go", asyncio.Event()
    # The call ends as soon as it has been seen that nobody new is let in, which takes a busy machine some time.
    async with served(PROGRAM.replace("DRAIN = 3", "DRAIN = 60"), tmp_path) as (process, place):
        async with Client(f"http://{place}/mcp", revision=revision) as client:
            asked = {"signal": str(go)}
            calling = asyncio.ensure_future(client.call_tool("work", asked, progress=lambda *_: reported.set()))
            await has_begun(calling, reported)
            process.send_signal(signal.SIGTERM)
            await until(lambda: not listens(place))
            assert not calling.done()
            go.touch()
            assert (await calling).text == "done"
        code, err = await ended(process)
    assert code == 0
    assert "Traceback" not in err
    assert "ERROR" not in err


@pytest.mark.parametrize(("option", "url"), [("--sse", "http://{}/sse"), ("--ws", "ws://{}/ws")])
async def test_the_other_transports_end_as_cleanly(tmp_path, option, url):
    """A client that is there is told, and does not hold up the end."""
    async with served(PROGRAM, tmp_path, option) as (process, place), Client(url.format(place)) as client:
        await client.list_tools()
        process.send_signal(signal.SIGTERM)
        code, err = await ended(process)
        with pytest.raises(AntiphonError):
            await client.list_tools()
    assert code == 0
    assert "Traceback" not in err


async def test_a_call_that_does_not_end_is_given_up(tmp_path):
    """After the time that open requests have, its caller gets an error."""
    reported = asyncio.Event()
    async with served(PROGRAM, tmp_path) as (process, place):
        async with Client(f"http://{place}/mcp") as client:
            asked = {"signal": str(tmp_path / "never")}
            calling = asyncio.ensure_future(client.call_tool("work", asked, progress=lambda *_: reported.set()))
            await has_begun(calling, reported)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(AntiphonError):
                await calling
        code, err = await ended(process)
    assert code == 0
    assert "Traceback" not in err


async def test_a_call_between_rounds_is_reported_when_the_server_has_gone(tmp_path):
    """2026-07-28: the answer finds nobody; the caller is told at once, and not left to wait."""
    codes = []
    async with served(PROGRAM, tmp_path) as (process, place):

        async def answer(_params, _origin):
            process.send_signal(signal.SIGTERM)
            codes.append((await ended(process))[0])
            return "too late"

        async with Client(f"http://{place}/mcp", revision="2026-07-28", sampling=answer) as client:
            with pytest.raises(AntiphonError, match="cannot reach"):
                await client.call_tool("ask")
    assert codes == [0]


async def test_a_round_that_comes_back_while_the_server_closes_is_served():
    """On a connection that is still there: what a person has answered is not lost."""
    server, go, working = Server("closing", version="1"), asyncio.Event(), asyncio.Event()

    @server.tool
    async def work() -> str:
        """Hold up the end."""
        working.set()
        await go.wait()
        return "done"

    @server.tool
    async def ask(ctx: Context) -> str:
        """Ask the client's model."""
        return (await ctx.sample("?", max_tokens=5)).text

    async with listening(server) as network:

        async def answer(_params, _origin):
            network.should_exit = True
            await until(lambda: not network.servers[0].sockets)
            return "in time"

        async with Client(f"http://{network.place}/mcp", revision="2026-07-28", sampling=answer) as client:
            working_on = asyncio.ensure_future(client.call_tool("work"))
            await working.wait()
            assert (await client.call_tool("ask")).text == "in time"
            go.set()
            assert (await working_on).text == "done"
