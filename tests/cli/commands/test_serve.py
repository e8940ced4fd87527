from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.cli.commands.serve import find_server, load_file
from antiphon.errors import AntiphonError, ConfigError
from tests.cli.conftest import Cli
from tests.cli.program import COMMAND, ROOT, SERVERS, environment, in_process
from tests.support.certificates import write_certificate
from tests.support.ports import free_port

INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}},
}


def test_a_server_is_served_over_stdio():
    """Standard output holds messages only: what the file prints goes to standard error."""
    done = in_process("serve", f"{SERVERS / 'two.py'}:second", stdin=json.dumps(INITIALIZE) + "\n")
    assert done.code == 0
    [reply] = done.objects
    assert reply["result"]["serverInfo"]["name"] == "second"
    assert "loaded" in done.err


@pytest.mark.parametrize(
    ("file", "code", "message"),
    [
        ("two.py", 2, "there are several Server objects (first, second, also_second); choose one"),
        ("two.py:third", 2, "'third' is no Server; it has: first, second, also_second"),
        ("none.py", 2, "no such file"),
        ("silent.txt", 2, "no such file"),
        ("broken.py", 1, "broken.py:6: ZeroDivisionError: division by zero"),
        ("../program.py", 2, "there is no Server object at the top of this file"),
    ],
)
def test_what_cannot_be_served_is_named(file: str, code: int, message: str, cli: Cli):
    """Line or name."""
    done = cli("serve", str(SERVERS / file))
    assert done.code == code
    assert message in done.err


def test_a_file_named_from_its_folder_is_named_with_the_line(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """As it was typed."""
    monkeypatch.chdir(SERVERS)
    done = cli("serve", "broken.py")
    assert done.err == "antiphon: broken.py:6: ZeroDivisionError: division by zero\n"


def test_a_mistake_that_a_decorator_finds_is_named_with_the_line(cli: Cli, tmp_path: Path):
    """As an exception of Python is; the exit code says that the file is wrong."""
    file = tmp_path / "hats.py"
    tool = "@server.tool\ndef price(): ...\n"
    file.write_text(f"from antiphon import Server\nserver = Server('hats')\n{tool}{tool}", encoding="utf-8")
    done = cli("serve", str(file))
    assert done.code == 2
    assert done.err == f"antiphon: {file}:5: tool 'price' is there already: choose another name, or remove it first\n"


def test_one_server_under_two_names_is_one():
    """An alias is no second server."""
    module = load_file(SERVERS / "two.py")
    del module.first
    assert find_server(module, None, "x").name == "second"


def test_a_file_that_is_no_python_is_refused(tmp_path):
    """It cannot be imported."""
    file = tmp_path / "server.txt"
    file.touch()
    with pytest.raises(ConfigError, match="not a Python file"):
        load_file(file)


@contextmanager
def served(option: str, *more: str, port: int | None = None) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """Serve over a network in a process of its own, at a port that is free now or this one; yields the address."""
    place = f"127.0.0.1:{free_port() if port is None else port}"
    process = subprocess.Popen(
        [*COMMAND, "serve", f"{SERVERS / 'two.py'}:second", option, place, *more],
        cwd=ROOT,
        env=environment(),
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        yield place, process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=60)


async def connected(url: str, revision: str, trusting: ssl.SSLContext | None = None, auth: str | None = None) -> Client:
    """Connect as soon as somebody listens there."""
    async with asyncio.timeout(60):
        while True:
            client = Client(url, revision=revision, ssl=trusting, auth=auth)
            try:
                await client.connect()
            except (AntiphonError, OSError):
                await asyncio.sleep(0.05)
            else:
                return client


@pytest.mark.parametrize(
    ("option", "url", "revision"),
    [
        ("--http", "http://{}/mcp", "2026-07-28"),
        ("--http", "http://{}/mcp", "2025-11-25"),
        ("--sse", "http://{}/sse", "2024-11-05"),
        ("--ws", "ws://{}/ws", "2025-11-25"),
    ],
)
async def test_a_server_is_served_over_a_network(option: str, url: str, revision: str):
    """Until Ctrl-C, which ends it quietly and at once, though a client is still there."""
    with served(option) as (place, process):
        client = await connected(url.format(place), revision)
        assert client.server_info is not None
        assert client.server_info.name == "second"
        process.send_signal(signal.SIGINT)
        _, err = await asyncio.to_thread(process.communicate, timeout=60)
        await client.close()
    assert process.returncode in (0, 130)
    assert f"at {url.format(place)}. Ctrl-C" in err
    assert "Traceback" not in err
    assert "ERROR" not in err


@pytest.mark.parametrize("workers", ["1", "2"])
async def test_who_connects_at_once_when_an_address_is_said_is_served(workers: str):
    """A script waits for that line; it names the port that the system has chosen."""
    with served("--http", "--workers", workers, port=0) as (_, process):
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        async with asyncio.timeout(60):
            # The file prints something, in each process that loads it.
            url = await asyncio.to_thread(lambda: next(line for line in lines if " at http" in line).split()[3])
            async with Client(url.rstrip(".")) as client:
                assert client.server_info is not None
                assert client.server_info.name == "second"


async def test_workers_are_said_once_and_end_together():
    """However many there are; the second knows what it serves though it was started by the first."""
    with served("--http", "--workers", "2", "--stateless") as (place, process):
        client = await connected(f"http://{place}/mcp", "2025-11-25")
        assert client.server_info is not None
        assert client.server_info.name == "second"
        await client.close()
        os.killpg(process.pid, signal.SIGINT)
        _, err = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0
    assert err.count("Serving 'second'") == 1
    assert "with 2 workers. Ctrl-C" in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--http", "nowhere"], "'nowhere' is no address"),
        (["--http", "127.0.0.1:99999"], "is no address"),
        (["--http", "127.0.0.1:1", "--ws", "127.0.0.1:2"], "choose one of --http, --sse and --ws"),
        (["--http", "0.0.0.0:8000"], "allowed_hosts"),
        (["--stateless", "--workers", "2"], "--stateless, --workers: for a network only"),
        (["--sse", "127.0.0.1:0", "--workers", "2"], "a session over HTTP+SSE lives in one process"),
        (["--ws", "127.0.0.1:0", "--stateless"], "--stateless: the sessions of --ws 127.0.0.1:0 cannot be left out"),
    ],
)
def test_an_address_that_cannot_be_served_is_named(arguments: list[str], message: str, cli: Cli):
    """Before anything listens."""
    done = cli("serve", f"{SERVERS / 'two.py'}:second", *arguments)
    assert done.code == 2
    assert message in done.err


async def test_a_server_is_served_with_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The password of its key comes from the environment."""
    cert, key = write_certificate(tmp_path, password="open sesame")
    monkeypatch.setenv("ANTIPHON_TLS_PASSWORD", "open sesame")
    with served("--http", "--tls-cert", str(cert), "--tls-key", str(key)) as (place, process):
        client = await connected(f"https://{place}/mcp", "2026-07-28", ssl.create_default_context(cafile=str(cert)))
        assert client.server_info is not None
        await client.close()
        process.terminate()
        _, err = await asyncio.to_thread(process.communicate, timeout=60)
    assert process.returncode == 0
    assert f"at https://{place}/mcp" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--http", "127.0.0.1:1", "--tls-cert", "none.pem"], "TLS: no such file: none.pem"),
        (["--http", "127.0.0.1:1", "--tls-key", "none.pem"], "a key alone is of no use"),
        (["--tls-cert", "none.pem"], "--tls-cert: for a network only"),
        (["--allow-origin", "https://app.example"], "--allow-origin: for a network only"),
        (["--issuer", "https://id.example"], "--issuer: for a network only"),
    ],
)
def test_options_that_cannot_be_served_are_named(arguments: list[str], message: str, cli: Cli):
    """Before anything listens."""
    done = cli("serve", f"{SERVERS / 'two.py'}:second", *arguments)
    assert done.code == 2
    assert message in done.err


def test_a_file_that_ends_itself_says_why(cli: Cli, tmp_path: Path):
    """As it would by itself."""
    (tmp_path / "ends.py").write_text("raise SystemExit('the database is missing')", encoding="utf-8")
    done = cli("serve", "ends.py")
    assert (done.code, done.err) == (1, "the database is missing\n")


async def test_a_server_with_a_token_lets_only_those_in_who_send_it():
    """``--header`` sends it; whoever sends another one is told so."""
    with served("--http", "--token", "s3cret") as (place, process):
        url = f"http://{place}/mcp"
        async with asyncio.timeout(60):
            while (await asyncio.to_thread(in_process, "doctor", url, "-H", "Authorization: Bearer s3cret")).code:
                assert process.poll() is None
        for more in ([], ["--header", "Authorization: Bearer other"]):
            refused = await asyncio.to_thread(in_process, "prompts", url, *more)
            assert (refused.code, refused.out) == (1, ""), refused
            assert "401" in refused.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--http", "127.0.0.1:1", "--token", ""], "--token is one word"),
        (["--http", "127.0.0.1:1", "--token", "two words"], "--token is one word"),
        (["--token", "x"], "--token: for a network only"),
    ],
)
def test_a_token_that_cannot_be_sent_is_refused(cli: Cli, options: list[str], message: str):
    """Before anything listens."""
    done = cli("serve", str(SERVERS / "two.py:second"), *options)
    assert done.code == 2
    assert message in done.err


def test_a_port_in_use_is_one_sentence(cli: Cli):
    """With the remedy, and no traceback."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        place = f"127.0.0.1:{taken.getsockname()[1]}"
        done = cli("serve", f"{SERVERS / 'two.py'}:second", "--http", place)
    assert done.code == 2
    assert done.err.splitlines()[-1].startswith(f"antiphon: cannot serve at {place}: the port is in use; ")
    assert "Traceback" not in done.err


def test_a_folder_is_no_file(tmp_path: Path, cli: Cli):
    """The file in it is what is served."""
    done = cli("serve", str(tmp_path))
    assert (done.code, "is a folder; name the .py file in it" in done.err) == (2, True)
