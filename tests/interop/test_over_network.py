"""Our client and their servers over the network: every transport of theirs, sampling included."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.host.host import Host
from tests.interop.answers import Answerer
from tests.interop.peers import OUR_SERVER, PATIENCE, SURVEYING_SERVER, Peers
from tests.support.ports import free_port


@contextlib.asynccontextmanager
async def listening(command: list[str], port: int) -> AsyncIterator[None]:
    """Run a server until its port answers, and end it afterwards."""
    env = {**os.environ, "PORT": str(port)}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*command, env=env, stdin=quiet, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                with contextlib.suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                await asyncio.sleep(0.05)
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


@pytest.mark.parametrize(("transport", "path"), [("streamableHttp", "/mcp"), ("sse", "/sse")])
async def test_the_reference_server_is_met_by_url(peers: Peers, transport: str, path: str):
    """The client finds era and transport by itself; the server's sampling request is answered by a host."""
    port = free_port()
    async with listening([*peers.everything[:-1], transport], port):
        host = Host("echo", review="never")
        async with Client(f"http://127.0.0.1:{port}{path}", sampling=host, timeout=PATIENCE) as client:
            assert (await client.call_tool("echo", {"message": "héllo ☃"})).text == "Echo: héllo ☃"
            sampled = await client.call_tool("trigger-sampling-request", {"prompt": "hello", "maxTokens": 20})
            reports: list[float] = []
            arguments = {"duration": 1, "steps": 3}
            long = "trigger-long-running-operation"
            done = await client.call_tool(long, arguments, progress=lambda value, *_: reports.append(value))
    assert "[echo]" in sampled.text
    assert not done.is_error
    assert reports == sorted(reports)


@pytest.mark.parametrize("revision", ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "auto"])
async def test_the_official_python_server_is_met_by_url(peers: Peers, revision: str):
    """In both eras, with sampling and elicitation."""
    port = free_port()
    answers = Answerer(form={"guests": 2, "window": True})
    async with listening([*peers.python2_server, str(port)], port):
        address = f"http://127.0.0.1:{port}/mcp"
        async with Client(address, sampling=answers.sample, revision=revision, timeout=PATIENCE) as client:
            assert (await client.call_tool("echo", {"text": "héllo ☃"})).text == "héllo ☃"
            described = await client.call_tool("describe", {"product": "hat"})
    assert not described.is_error
    assert len(answers.sampled) == 1


@pytest.mark.parametrize(
    ("name", "era"),
    [
        ("python2", "legacy"),
        ("python2", "modern"),
        ("python2", "auto"),
        ("ts1", "legacy"),
        ("ts2", "legacy"),
        ("ts2", "modern"),
        ("ts2", "auto"),
    ],
)
async def test_their_clients_walk_through_our_server(peers: Peers, name: str, era: str):
    """Sampling, in chains and with tools as well, elicitation, roots, progress and errors, over Streamable HTTP."""
    port = free_port()
    async with listening([*SURVEYING_SERVER, str(port)], port):
        seen = await asyncio.to_thread(peers.walk, name, era, [f"http://127.0.0.1:{port}/mcp"])
    assert seen["version"] == ("2025-11-25" if era == "legacy" else "2026-07-28")
    calls = ("echo", "describe", "compare", "survey", "use_tool", "forecast", "book", "folders", "count")
    assert {call: seen[call].get("isError", False) for call in calls} == dict.fromkeys(calls, False)
    assert seen["compare"]["content"][0]["text"] == "answer to Describe hat | answer to Describe cap"
    assert seen["survey"]["content"][0]["text"].startswith("12 answers, the last: answer to Cloth 12,")
    assert ("error" in seen["long_survey"]) is (era != "legacy")
    assert [report[0] for report in seen["progress"]] == [1, 2, 3]


@pytest.mark.parametrize("era", ["legacy", "modern"])
async def test_the_inspector_reaches_our_server_by_url(peers: Peers, tmp_path: Path, era: str):
    """It lists and calls, and has nothing to complain about."""
    port = free_port()
    address = [f"http://127.0.0.1:{port}/mcp", "--transport", "http"]
    async with listening([*OUR_SERVER, str(port)], port):
        listing = ["--method", "tools/list", "--strict"]
        listed = await asyncio.to_thread(peers.inspect, tmp_path, era, *listing, server=address)
        call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40"]
        called = await asyncio.to_thread(peers.inspect, tmp_path, era, *call, server=address)
        load = ["--load", "--load-requests", "1000", "--load-concurrency", "50"]
        loaded = await asyncio.to_thread(peers.inspect, tmp_path, era, *call, *load, server=address)
    assert json.loads(loaded.stdout)["result"]["ok"] == 1000
    assert listed.returncode == 0, listed.stderr
    assert json.loads(called.stdout)["result"]["structuredContent"] == {"total": 42}
