"""``antiphon dev`` as a process: changes, errors, sessions, and that nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from yarl import URL

from antiphon import Client
from antiphon.cli.commands import dev
from antiphon.cli.commands.dev import FolderWatch
from antiphon.machine.public_names import describe_install
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, environment
from tests.support.ports import free_port

PATIENCE = 60
"""Seconds for whatever is waited for: a machine may be busy."""
HEADERS = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}

FILE = """
import os
from antiphon import Server
from words import GREETING

server = Server("shop")


@server.tool
async def greet(password: str) -> str:
    if password == "Tr0ub4dor-and-3":
        raise KeyError(password)
    return GREETING


@server.tool
async def pid() -> str:
    return str(os.getpid())
"""


class Development:
    """A running command, and what it has said."""

    def __init__(self, process: Process, url: str, folder: Path) -> None:
        self.process, self.url, self.folder = process, url, folder

    async def says(self, words: str) -> str:
        """Wait for a line with these words, and return it."""
        assert self.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            while line := (await self.process.stderr.readline()).decode():
                if words in line:
                    return line
        raise AssertionError(f"ended without {words!r}")

    async def until(self, client: Client, tool: str, fits: Callable[[str], bool]) -> None:
        """Call a tool until what it says fits."""
        async with asyncio.timeout(PATIENCE):
            while not fits((await client.call_tool(tool, {"password": "x"} if tool == "greet" else {})).text):
                pass

    def write(self, greeting: str, *, file: str = FILE) -> None:
        """Change the server's files."""
        write_files(self.folder, greeting, file)


def write_files(folder: Path, greeting: str, file: str) -> None:
    """Write a server that greets, and its words."""
    (folder / "words.py").write_text(f"GREETING = {greeting!r}\n")
    (folder / "shop.py").write_text(file)


@asynccontextmanager
async def developing(folder: Path, *options: str, file: str = FILE, **more: str) -> AsyncGenerator[Development]:
    """Run the command on a server that greets."""
    port = free_port()
    write_files(folder, "hello", file)
    process = await asyncio.create_subprocess_exec(
        *COMMAND, "dev", "shop.py", "--http", f"127.0.0.1:{port}", *options,
        cwd=folder, env=environment(**more), stdin=DEVNULL, stdout=DEVNULL, stderr=PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield Development(process, f"http://127.0.0.1:{port}/mcp", folder)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE):
            await process.communicate()


async def post(http: aiohttp.ClientSession, url: str, session: dict[str, str], **message: Any) -> Any:
    """Send a message in a session; return the response."""
    async with http.post(url, json={"jsonrpc": "2.0", **message}, headers=session) as response:
        assert response.status in (200, 202), await response.text()
        return response.headers.get("Mcp-Session-Id"), await response.text()


async def test_a_change_is_served_without_the_loss_of_a_session(tmp_path: Path):
    """The same session of 2025-11-25, and the same client of 2026-07-28, are served by another process."""
    async with developing(tmp_path, "--no-messages") as running, aiohttp.ClientSession(headers=HEADERS) as http:
        await running.says(f"Serving shop.py at {running.url}")
        await running.says("Connect: claude mcp add -t http shop")
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}
        id, _ = await post(http, running.url, {}, id=0, method="initialize", params=params)
        session = {"Mcp-Session-Id": id}
        await post(http, running.url, session, method="notifications/initialized")
        call = {"method": "tools/call", "params": {"name": "greet", "arguments": {"password": "x"}}}
        async with Client(running.url, revision="2026-07-28") as client:
            assert "hello" in (await post(http, running.url, session, id=1, **call))[1]
            before = (await client.call_tool("pid")).text
            running.write("howdy", file=FILE + "\n\n@server.tool\nasync def new() -> str:\n    return 'new'\n")
            await running.says("has changed: loading it again.")
            await running.until(client, "pid", lambda text: text != before)
            assert (await client.call_tool("greet", {"password": "x"})).text == "howdy"
            assert "new" in [tool.name for tool in (await client.list_tools()).tools]
            assert "howdy" in (await post(http, running.url, session, id=2, **call))[1]


async def test_the_server_from_before_goes_on_while_the_file_has_an_error(tmp_path: Path):
    """The line is named, and the mended file is served again."""
    async with developing(tmp_path, "--no-messages") as running:
        await running.says("Serving")
        async with Client(running.url) as client:
            running.write("hello", file=FILE + "\ndef broken(:\n")
            assert "shop.py:20: SyntaxError" in await running.says("SyntaxError")
            assert "the old ones go on" in await running.says("the workers are not replaced")
            assert (await client.call_tool("greet", {"password": "x"})).text == "hello"
            running.write("mended")
            await running.says("has changed")
            await running.until(client, "greet", lambda text: text == "mended")


async def test_a_file_that_cannot_be_served_at_first_is_served_when_it_is_mended(tmp_path: Path):
    """The error has its line, and no traceback."""
    async with developing(tmp_path, file="x = 1 / 0\n") as running:
        assert "shop.py:1: ZeroDivisionError" in await running.says("ZeroDivisionError")
        await running.says("It serves when the file is mended.")
        with pytest.raises(OSError, match="in use"):
            # Nobody else can take the port meanwhile.
            socket.create_server(("127.0.0.1", URL(running.url).port or 0)).close()
        running.write("mended")
        await running.says("Serving")
        async with Client(running.url) as client:
            assert (await client.call_tool("greet", {"password": "x"})).text == "mended"


async def test_messages_are_shown_without_secrets_and_failures_with_their_line(tmp_path: Path):
    """A request, its result, and where the function failed."""
    async with developing(tmp_path) as running:
        await running.says("Serving")
        async with Client(running.url) as client:
            await client.call_tool("greet", {"password": "Tr0ub4dor-and-3"})
        assert "Tr0ub4dor" not in await running.says("tools/call greet {")
        assert "tool 'greet' failed" in await running.says("failed")
        assert "shop.py:12: KeyError" in await running.says("KeyError")
        assert "isError" in await running.says("tools/call greet ended")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
async def test_nothing_is_left_when_it_ends(tmp_path: Path, number: signal.Signals):
    """Neither the worker nor Inspector outlives the command, however it ends."""
    fake = tmp_path / "bin"
    fake.mkdir()
    npx = fake / "npx"
    npx.write_text('#!/bin/sh\necho "inspector $5 $6 $7" >&2\nexec sleep 1000\n')
    npx.chmod(0o755)
    path = f"{fake}{os.pathsep}{os.environ['PATH']}"
    async with developing(tmp_path, "--inspector", PATH=path) as running:
        assert running.url in await running.says("inspector")
        async with Client(running.url) as client:
            await client.call_tool("pid")
        running.process.send_signal(number)
        assert running.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            # The pipe closes when the last process that has it is gone.
            await running.process.stderr.read()
            await running.process.wait()


async def test_an_inspector_that_does_not_end_by_itself_is_killed(tmp_path: Path):
    """The command would wait for it without end."""
    fake = tmp_path / "bin"
    fake.mkdir()
    npx = fake / "npx"
    npx.write_text('#!/bin/sh\ntrap "" TERM\necho "does not end" >&2\nwhile true; do sleep 1; done\n')
    npx.chmod(0o755)
    async with developing(tmp_path, "--inspector", PATH=f"{fake}{os.pathsep}{os.environ['PATH']}") as running:
        await running.says("does not end")
        running.process.send_signal(signal.SIGTERM)
        assert running.process.stderr is not None
        async with asyncio.timeout(PATIENCE):
            await running.process.stderr.read()
            await running.process.wait()


async def test_ctrl_c_ends_it_while_nothing_is_served(tmp_path: Path):
    """Also where the file has an error."""
    async with developing(tmp_path, file="x = 1 / 0\n") as running:
        await running.says("It serves when the file is mended.")
        running.process.send_signal(signal.SIGINT)
        async with asyncio.timeout(PATIENCE):
            assert await running.process.wait() == 128 + signal.SIGINT


async def test_only_what_people_write_is_watched(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """Neither packages nor hidden folders, data, or links."""
    for name in ("a.py", "sub/b.html", "node_modules/c.js", ".venv/d.py", ".git/e.py", "build/f.py", "data.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("")
    (tmp_path / "link").symlink_to(tmp_path, target_is_directory=True)
    FolderWatch(tmp_path)
    assert f"Watching 2 files below {tmp_path}." in capsys.readouterr().err


async def test_a_large_folder_is_watched_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    """It says so, and goes no further."""
    monkeypatch.setattr(dev, "_MAX_ENTRIES", 10)
    for number in range(30):
        (tmp_path / f"{number}.py").write_text("")
    FolderWatch(tmp_path)
    assert "Watching 10 files" in (said := capsys.readouterr().err)
    assert "the rest is not watched, beyond 10 entries" in said


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["none.py"], "no such file: none.py"),
        (["."], "is a folder; name the .py file in it"),
        (["shop.py", "--ws", "127.0.0.1:0"], "antiphon dev serves --http"),
    ],
)
def test_what_cannot_be_developed_is_refused(options: list[str], said: str, tmp_path: Path, cli: Cli):
    """Before anything is started."""
    write_files(tmp_path, "Hello", FILE)
    done = cli("dev", *options)
    assert done.code == 2
    assert said in done.err


def test_the_package_that_seals_sessions_is_named_before_anything_is_served(
    tmp_path: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    """Without it no worker can start, whatever a person changes in the file."""
    write_files(tmp_path, "Hello", FILE)
    monkeypatch.setattr("antiphon.server.state.request_state.find_spec", lambda name: None)
    done = cli("dev", "shop.py")
    assert (done.code, "Watching" in done.err) == (2, False)
    assert "antiphon dev, which hands sessions to a new process, encrypts " in done.err
    assert describe_install("keys") in done.err


async def test_a_file_that_never_ends_loading_is_given_up_when_it_changes(tmp_path: Path):
    """When the command starts, and while a server runs: what is mended is loaded at once."""
    endless = "while True:\n    pass\n"
    async with developing(tmp_path, "--no-messages", file=endless) as running:
        await running.says("Watching")
        running.write("hello")
        await running.says("Serving")
        async with Client(running.url) as client:
            await running.until(client, "greet", "hello".__eq__)
            running.write("hello", file=FILE + endless)
            await running.says("has changed")
            running.write("howdy")
            await running.until(client, "greet", "howdy".__eq__)


async def test_a_file_that_ends_the_process_is_named_with_its_line(tmp_path: Path):
    """Some scripts do so at their end."""
    async with developing(tmp_path, file="import sys\n\nsys.exit(3)\n") as running:
        assert "shop.py:3: SystemExit: 3" in await running.says("SystemExit")
        running.write("hello")
        await running.says("Serving")


async def test_a_client_hears_that_the_tools_have_changed(tmp_path: Path):
    """Hosts keep the list, and would not see what was written since they connected."""
    async with developing(tmp_path, "--no-messages") as running:
        await running.says("Serving")
        async with Client(running.url, revision="2025-11-25") as client, client.listen(tools=True) as changes:
            running.write("hello", file=FILE + "\n\n@server.tool\nasync def new() -> str:\n    return 'new'\n")
            async with asyncio.timeout(PATIENCE):
                change = await anext(changes)
            assert change.kind == "tools"
            assert "new" in [tool.name for tool in (await client.list_tools()).tools]
