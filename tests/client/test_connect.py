"""Targets, and how the era of a server is found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.client.connect import Command, allowed_revisions, resolve
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, RemoteProtocolError, UnsupportedVersion
from tests.support.raw_server import RawServer

ECHO = """
import sys, json
for line in sys.stdin:
    m = json.loads(line)
    {body}
"""

LEGACY = """
    if m["method"] == "initialize":
        r = {"protocolVersion": "2024-11-05", "capabilities": {}, "serverInfo": {"name": "old", "version": "0"}}
        print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "result": r}), flush=True)
"""


def program(body: str) -> list[str]:
    """Make the command line of a small server."""
    return [sys.executable, "-c", ECHO.replace("{body}", body.strip())]


@pytest.mark.parametrize(
    ("target", "argv"),
    [
        ("npx -y server --flag 'a b'", ["npx", "-y", "server", "--flag", "a b"]),
        (["python", "x.py"], ["python", "x.py"]),
        ({"command": "node", "args": ["s.js"]}, ["node", "s.js"]),
        (Path(__file__), [sys.executable, __file__]),
        (__file__, [sys.executable, __file__]),
    ],
)
def test_commands_in_every_spelling(target: Any, argv: list[str]) -> None:
    """Text, list, configuration entry, path."""
    where = resolve(target)
    assert isinstance(where, Command)
    assert list(where.argv) == argv


def test_an_entry_brings_its_environment() -> None:
    """As other hosts write it."""
    where = resolve({"command": "s", "env": {"KEY": "v"}, "cwd": "/"})
    assert isinstance(where, Command)
    assert (where.env, where.cwd) == ({"KEY": "v"}, "/")


def test_a_server_object_is_reached_in_memory() -> None:
    """It is its own target."""
    server = Server("s")
    assert resolve(server) is server


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("", "empty"),
        ([], "empty"),
        ("unbalanced 'quote", "cannot read the command line"),
        (Path("nowhere.py"), "no such file"),
        ({"args": ["x"]}, "command"),
        ({"command": 5}, "command"),
        (42, "cannot connect to 42"),
        ("https://example.com/mcp", "not yet over a network"),
    ],
)
def test_what_is_no_target_says_what_one_is(target: Any, why: str) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=why):
        resolve(target)


def test_an_unknown_revision_lists_the_known_ones() -> None:
    """At construction."""
    with pytest.raises(ConfigError, match=r"2024-11-05.*2026-07-28"):
        allowed_revisions("2023-01-01")


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"])
async def test_every_revision_can_be_chosen(revision: str) -> None:
    """And is then spoken."""
    async with Client(Server("s"), revision=revision) as client:
        assert client.revision == revision


async def test_the_newest_common_revision_is_found() -> None:
    """Without a choice."""
    async with Client(Server("s", version="3")) as client:
        assert client.revision == "2026-07-28"
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == ("s", "3")


@pytest.mark.parametrize(
    "to_probe",
    [
        (
            'if m["method"] == "server/discover": print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": -32601, "message": "what?"}}), flush=True)'
        ),
        (
            'if m["method"] == "server/discover": print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": 7, "message": "no"}}), flush=True)'
        ),
        'if m["method"] == "server/discover": sys.exit(3)',
        (
            'if m["method"] == "server/discover": print("I do not understand", flush=True); '
            'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": '
            '{"code": -32602, "message": "?"}}), flush=True)'
        ),
    ],
)
async def test_a_legacy_server_is_found_whatever_it_does_with_the_probe(to_probe: str) -> None:
    """Any error, and even its death, means the handshake."""
    async with Client(program(to_probe + "\n" + LEGACY)) as client:
        assert client.revision == "2024-11-05"


async def test_a_silent_server_is_a_legacy_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a while."""
    monkeypatch.setattr("antiphon.client.connect.PROBE_TIMEOUT", 0.05)
    async with Client(program(LEGACY)) as client:
        assert client.revision == "2024-11-05"


async def test_a_server_that_never_answers_is_given_up() -> None:
    """The error says how long it had, and what it said on stderr."""
    talk = 'print("I am busy", file=sys.stderr, flush=True)'
    with pytest.raises(CallTimeout, match=r"within 0\.8 s(.|\n)*I am busy"):
        await Client(program(talk), timeout=0.8, revision="2025-11-25").connect()


async def test_a_server_that_dies_shows_its_exit_code_and_stderr() -> None:
    """The cause, not a timeout."""
    dead = [sys.executable, "-c", "import sys; print('no licence', file=sys.stderr); sys.exit(3)"]
    with pytest.raises(ConnectionClosed) as caught:
        await Client(dead).connect()
    assert caught.value.exit_code == 3
    assert "no licence" in caught.value.stderr


async def test_a_program_that_is_not_there_is_named() -> None:
    """With the command line."""
    with pytest.raises(ConfigError, match="no-such-program-here"):
        await Client(["no-such-program-here"]).connect()


async def test_a_revision_the_server_does_not_choose_is_an_error() -> None:
    """It is not spoken by accident."""
    with pytest.raises(RemoteProtocolError, match="2024-11-05"):
        await Client(program(LEGACY), revision="2025-06-18").connect()


async def test_a_modern_revision_is_not_forced_on_a_legacy_server() -> None:
    """The error says what it wants."""
    refuse = (
        'print(json.dumps({"jsonrpc": "2.0", "id": m["id"], "error": {"code": -32601, "message": "?"}}), flush=True)'
    )
    with pytest.raises(ConfigError, match="handshake"):
        await Client(program(refuse), revision="2026-07-28").connect()


async def test_a_lifespan_that_fails_is_the_cause() -> None:
    """A server in memory fails with its own exception, not with a lost connection."""

    class Broken:
        async def __aenter__(self) -> None:
            raise ValueError("no database")

        async def __aexit__(self, *_: object) -> None: ...

    with pytest.raises(ValueError, match="no database"):
        await Client(Server("s", lifespan=lambda _: Broken())).connect()


def refusing(data: Any) -> RawServer:
    """Make a server that refuses the revision of the probe."""
    server = RawServer()

    def refuse(message: dict[str, Any]) -> None:
        error = {"code": -32022, "message": "Unsupported protocol version", "data": data}
        server.send({"id": message["id"], "error": error})

    server.replies["server/discover"] = refuse
    return server


async def test_a_server_that_names_an_earlier_revision_gets_its_handshake() -> None:
    """It knows the probe, and speaks nothing that new."""
    async with Client(refusing({"supported": ["2025-06-18", "2025-11-25"], "requested": "2026-07-28"})) as client:
        assert client.revision == "2025-11-25"


@pytest.mark.parametrize("data", [{"supported": ["2027-01-01"]}, {"supported": 3}, {}, None, ["2025-11-25"]])
async def test_a_server_that_names_none_of_ours_is_not_tried_again(data: Any) -> None:
    """Its own words are the reason."""
    with pytest.raises(UnsupportedVersion):
        await Client(refusing(data)).connect()


async def test_a_server_in_memory_that_fails_is_not_started_again() -> None:
    """The cause is raised, once, as it is."""
    tries: list[int] = []

    class Broken:
        async def serve(self, _channel: Any) -> None:
            tries.append(1)
            raise OSError("no database")

    with pytest.raises(OSError, match="no database"):
        await Client(Broken()).connect()
    assert tries == [1]
