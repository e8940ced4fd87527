"""A server as a process: how it begins, and every way in which it ends."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, ConfigError, ConnectionClosed, Server
from antiphon.server.serving.run import run_loop

PROGRAM = """
import sys
from contextlib import asynccontextmanager
from antiphon import Context, Server

@asynccontextmanager
async def lifespan(server):
    print("opened")
    try:
        yield
    finally:
        print("closed")

server = Server("shop", lifespan=lifespan)

@server.tool
async def hang() -> str:
    import asyncio
    try:
        await asyncio.Event().wait()
    finally:
        print("cleaned up")

@server.tool
async def name() -> str:
    print("to whom it may concern")
    return "shop"

server.run()
print("after the end")
"""
PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
HANG = (
    b'{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"hang","arguments":{},"_meta":{'
    b'"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}\n'
)


@pytest.fixture
def program(tmp_path: Path) -> Path:
    """Return the path of a server."""
    path = tmp_path / "shop.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


@contextmanager
def started(program: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it answers."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(program)], stdin=pipe, stdout=pipe, stderr=pipe) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(PING)
            process.stdin.flush()
            assert b'"id":1' in process.stdout.readline()
            yield process
        finally:
            process.kill()


def test_an_unknown_transport_is_refused() -> None:
    """The error says which there are."""
    with pytest.raises(ConfigError, match="unknown transport 'nope'"):
        Server("s").run("nope")


@pytest.mark.parametrize(
    "option", [{"port": 9000}, {"host": "192.0.2.1"}, {"workers": 2}, {"allowed_hosts": ["*"]}, {"port": "x"}]
)
def test_options_of_a_network_are_refused_over_stdio(option: dict[str, Any]) -> None:
    """Ignored, they would leave the author at a URL that nothing serves; the error says how to serve it."""
    (name,) = option
    with pytest.raises(ConfigError, match=f"^{name}= is for a network, .*: write server\\.run\\('http', {name}="):
        Server("s").run(**option)


def test_a_server_at_a_terminal_says_what_it_waits_for(program: Path) -> None:
    """Someone who starts the file by hand would otherwise see nothing; standard output stays the protocol's."""
    from pty import openpty

    ours, theirs = openpty()
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(program)], stdin=theirs, stdout=pipe, stderr=pipe) as process:
        assert process.stderr is not None
        said = process.stderr.readline().decode()
        os.close(theirs)
        os.close(ours)
        output, _ = process.communicate(timeout=60)
    assert said == f"'shop' waits for a client over stdio. Ctrl-C ends it. To try it: antiphon dev {program}\n"
    assert output == b"after the end\n"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_a_server_cleanly(program: Path, number: signal.Signals) -> None:
    """What it has begun is cleaned up, nothing looks like a crash, and stdout is the protocol's until all is over."""
    with started(program) as process:
        process.send_signal(number)
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.decode().split("\n") == ["opened", "closed", ""]
    assert output == b"after the end\n"


def test_a_signal_ends_the_handlers_too(program: Path) -> None:
    """Their ``finally`` blocks run before the lifespan ends."""
    with started(program) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(HANG + PING)
        process.stdin.flush()
        assert b'"id":1' in process.stdout.readline()
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate(timeout=60)
    assert errors.decode().split("\n") == ["opened", "cleaned up", "closed", ""]
    assert output == b"after the end\n"


def test_a_server_ends_with_its_input(program: Path) -> None:
    """The client has gone: it cleans up and ends well."""
    with started(program) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.decode().split("\n") == ["opened", "closed", ""]
    assert output == b"after the end\n"


def test_a_server_runs_in_a_thread_that_handles_no_signals(program: Path) -> None:
    """A program that does something else in its main thread serves beside it."""
    in_thread = "import threading\nthread = threading.Thread(target=server.run)\nthread.start()\nthread.join()"
    program.write_text(PROGRAM.replace("server.run()", in_thread), encoding="utf-8")
    with started(program) as process:
        output, errors = process.communicate(timeout=60)
    assert process.returncode == 0
    assert errors.decode().split("\n") == ["opened", "closed", ""]
    assert output == b"after the end\n"


async def test_what_a_tool_prints_is_not_protocol(program: Path) -> None:
    """It goes to standard error, and the client goes on."""
    lines: list[str] = []
    async with Client([sys.executable, str(program)], errlog=lines.append) as client:
        assert (await client.call_tool("name")).text == "shop"
    assert "to whom it may concern" in lines


def test_a_coroutine_runs_to_its_end() -> None:
    """On whichever loop is installed."""
    done: list[str] = []

    async def main() -> None:
        done.append("done")

    run_loop(main())
    assert done == ["done"]


async def test_within_an_event_loop_it_says_what_to_do() -> None:
    """Before anything was made that nobody would await."""
    for transport in ("stdio", "http"):
        with pytest.raises(ConfigError, match=r"one is running here already.*server\.asgi"):
            Server("shop").run(transport)


WAITING = """
import asyncio
import sys
from contextlib import asynccontextmanager
from antiphon import Server

@asynccontextmanager
async def lifespan(server):
    try:
        if "start" in sys.argv:
            print("waits", flush=True)
            await asyncio.Event().wait()
        yield
        print("waits", flush=True)
        await asyncio.Event().wait()
    finally:
        print("cleaned up", flush=True)

Server("shop", lifespan=lifespan).run("http", port=0, on_listening=lambda port: print("serves", flush=True))
print("after the end")
"""


@pytest.mark.parametrize(("when", "said"), [("start", []), ("end", ["serves"])])
def test_ctrl_c_ends_what_a_lifespan_waits_for(tmp_path: Path, when: str, said: list[str]) -> None:
    """A database that does not answer, for example: while the server starts, or at a second Ctrl-C, while it ends."""
    path = tmp_path / "waiting.py"
    path.write_text(WAITING, encoding="utf-8")
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, str(path), when], stdout=pipe, stderr=pipe, text=True) as process:
        try:
            assert process.stdout is not None
            for line in [*said, "waits"]:
                assert process.stdout.readline() == f"{line}\n"
                process.send_signal(signal.SIGINT)
            output, errors = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0
    assert output.splitlines() == ["cleaned up", "after the end"]
    assert "Traceback" not in errors


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
async def test_a_server_for_a_network_is_no_target_over_stdio(tmp_path: Path, transport: str) -> None:
    """It ends at once and says why, instead of listening where nobody comes."""
    program = tmp_path / "web.py"
    program.write_text(f"from antiphon import Server\nServer('web').run({transport!r}, port=0)\n")
    with pytest.raises(ConnectionClosed) as caught:
        await Client(program).connect()
    assert caught.value.exit_code == 1
    assert f"to speak over stdio, but it would serve {transport}" in caught.value.stderr
    assert "give its URL to the client" in caught.value.stderr


def test_workers_need_the_main_thread():
    """Only there can a program be told of the signals to stop; nothing was started."""
    caught: list[BaseException] = []

    def run() -> None:
        try:
            Server("shop").run("http", port=0, workers=2)
        except ConfigError as error:
            caught.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert "main thread" in str(caught[0])


BUSY = """
import asyncio, signal, sys
from antiphon import Server

server = Server("busy")

@server.tool
async def hold() -> str:
    \"\"\"Be told to end, and go on for a little.\"\"\"
    for number in sys.argv[1:]:
        signal.raise_signal(int(number))
    await asyncio.sleep(0.2)
    return "held"

server.run("http", port=0, on_listening=lambda port: print(port, flush=True))
print("after the end", flush=True)
"""


@pytest.mark.parametrize("numbers", [[signal.SIGINT, signal.SIGINT], [signal.SIGHUP]])
async def test_a_call_is_finished_when_its_server_is_to_end(tmp_path: Path, numbers: list[signal.Signals]) -> None:
    """A second Ctrl-C ends the waiting for the rest without a traceback; a terminal that is closed is a SIGTERM."""
    program = tmp_path / "busy.py"
    program.write_text(BUSY, encoding="utf-8")
    pipe = asyncio.subprocess.PIPE
    words = [str(program), *(str(int(number)) for number in numbers)]
    process = await asyncio.create_subprocess_exec(sys.executable, *words, stdout=pipe, stderr=pipe)
    try:
        assert process.stdout is not None
        port = int(await process.stdout.readline())
        async with Client(f"http://127.0.0.1:{port}/mcp", revision="2026-07-28") as client:
            assert (await client.call_tool("hold")).text == "held"
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
    assert (process.returncode, output) == (0, b"after the end\n")
    assert errors == b""
