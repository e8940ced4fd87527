"""The programs that are measured do what they are measured by."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from antiphon import Client
from tests.support.ports import free_port

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"
SERVER = [sys.executable, str(BENCHMARKS / "server.py"), "stdio"]


@pytest.fixture
async def client() -> AsyncIterator[Client]:
    """Connect to the server, with two extra tools."""

    async def answer(params, origin):
        return f"{params.messages[0].text} within {params.max_tokens}"

    target = {"command": SERVER[0], "args": SERVER[1:], "env": {"EXTRA_TOOLS": "2"}}
    async with Client(target, sampling=answer) as connected:
        yield connected


@pytest.mark.parametrize(
    ("name", "arguments", "text"),
    [
        ("echo", {"text": "héllo"}, "héllo"),
        ("big", {"n": 3}, "xxx"),
        ("big", {"n": 1 << 20}, "x" * (1 << 20)),
        ("blob", {"data": "y" * 1000}, "1000"),
        ("sample", {"text": "Say hello"}, "Say hello within 64"),
        ("tool_001", {"a": 1, "b": "x", "c": True}, "ok"),
    ],
)
async def test_a_tool_returns_its_text_and_nothing_else(client: Client, name: str, arguments: dict, text: str):
    """No structured content: others have none here either."""
    result = await client.call_tool(name, arguments)
    assert (result.text, result.structured_content, result.is_error) == (text, None, False)


async def test_the_extra_tools_are_listed(client: Client):
    """Numbered, after the others."""
    assert [tool.name async for tool in client.tools()] == ["echo", "big", "blob", "sample", "tool_000", "tool_001"]


@pytest.mark.parametrize(("transport", "target"), [("mem", "-"), ("stdio", json.dumps(SERVER))])
def test_the_client_prints_its_figures(transport: str, target: str):
    """One line of JSON."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / "client.py", transport, target, "64"],
        capture_output=True,
        check=True,
        text=True,
        timeout=60,
    )
    figures = json.loads(done.stdout)
    assert set(figures) == {"seq", "conc32", "connect_ms", "cpu_us_seq", "cpu_us_conc", "version"}
    assert all(figures[name] > 0 for name in figures if name != "version")


def test_the_client_measures_over_http():
    """The server program serves HTTP; the client program reaches it by URL."""
    port = free_port()
    server = subprocess.Popen([sys.executable, BENCHMARKS / "server.py", "http", str(port)])
    try:
        until = time.monotonic() + 60
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=0.2):
                break
        command = [sys.executable, BENCHMARKS / "client.py", "http", f"http://127.0.0.1:{port}/mcp", "64"]
        done = subprocess.run(command, capture_output=True, check=True, text=True, timeout=60)
    finally:
        server.terminate()
        server.wait(60)
    assert json.loads(done.stdout)["version"] == "2026-07-28"


@pytest.mark.parametrize("program", ["server.py", "client.py"])
def test_an_unknown_transport_is_refused_plainly(program: str):
    """The usage says which there are."""
    done = subprocess.run(
        [sys.executable, BENCHMARKS / program, "pigeon", "-", "1"],
        capture_output=True,
        check=False,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "usage" in done.stderr
