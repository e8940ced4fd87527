"""Targets: what they mean, and how they are reached."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.channel import Channel
from antiphon.client.connection.targets import (
    Address,
    Command,
    describe_location,
    locate_target,
    open_channel,
    speaks_oldest,
)
from antiphon.errors import ConfigError, ConnectionClosed, MethodNotFound, PeerError
from antiphon.identity import launch_of
from antiphon.server.serving.network import server_app
from tests.support.asgi import running


@pytest.mark.parametrize(
    ("target", "argv"),
    [
        ("npx -y server --flag 'a b'", ["npx", "-y", "server", "--flag", "a b"]),
        (["python", "x.py"], ["python", "x.py"]),
        ([Path("/bin/python"), Path("x.py"), "-v"], ["/bin/python", "x.py", "-v"]),
        ({"command": "node", "args": ["s.js"]}, ["node", "s.js"]),
        (Path(__file__), [sys.executable, __file__]),
        (__file__, [sys.executable, __file__]),
    ],
)
def test_commands_in_every_spelling(target: Any, argv: list[str]) -> None:
    """Text, list, configuration entry, path."""
    where = locate_target(target)
    assert isinstance(where, Command)
    assert list(where.argv) == argv


def test_an_entry_brings_its_environment() -> None:
    """As other hosts write it."""
    where = locate_target({"command": "s", "env": {"KEY": "v"}, "cwd": "/"})
    assert isinstance(where, Command)
    assert (where.env, where.cwd) == ({"KEY": "v"}, "/")


@pytest.mark.parametrize(
    "target",
    [
        "https://example.com/mcp",
        "HTTPS://example.com/mcp",
        " https://example.com/mcp\n",
        {"url": " https://example.com/mcp "},
        {"url": "https://example.com/mcp"},
        {"url": "Https://example.com/mcp"},
        {"url": "https://example.com/mcp", "headers": {"Authorization": "Bearer x"}},
    ],
)
def test_an_address_in_every_spelling(target: Any) -> None:
    """A URL as text, or as a configuration entry with headers."""
    where = locate_target(target)
    assert isinstance(where, Address)
    assert where.url == "https://example.com/mcp"
    assert where.headers in (None, {"Authorization": "Bearer x"})


def test_what_is_for_an_address_is_refused_elsewhere() -> None:
    """A header for a command line would be lost without a word."""
    with pytest.raises(ConfigError, match="for a URL"):
        Client(["server"], headers={"X": "y"})


def test_a_server_object_is_reached_in_memory() -> None:
    """It is its own target."""
    server = Server("s")
    assert locate_target(server) is server


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("", "empty"),
        (Server, "give a Server"),
        ([], "empty"),
        ("unbalanced 'quote", "cannot read the command line"),
        (Path("nowhere.py"), "no such file"),
        ({"args": ["x"]}, "command"),
        ({"command": 5}, "command"),
        (42, "cannot connect to 42"),
        (b"server", "cannot connect to b'server'"),
        (["server", 5], "cannot connect to"),
        ({"url": "shop.example/mcp"}, "has to begin with one of http, https, ws, wss, and name a host"),
        ({"url": "ftp://shop.example"}, "has to begin with one of http"),
        ({"url": "https:///mcp"}, "and name a host"),
    ],
)
def test_what_is_no_target_says_what_one_is(target: Any, why: str) -> None:
    """Before anything is started."""
    with pytest.raises(ConfigError, match=why):
        locate_target(target)


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


@pytest.mark.parametrize(("scheme", "known"), [("http", "Http"), ("ws", "WS"), ("wss", "wSS")])
def test_the_scheme_of_an_address_may_be_in_capitals(scheme: str, known: str) -> None:
    """It is no command for that; what follows it keeps its case, and what has another scheme is none of ours."""
    where = locate_target(f"{known}://a.example/Mcp?Q=1")
    assert isinstance(where, Address)
    assert where.url == f"{scheme}://a.example/Mcp?Q=1"
    assert isinstance(locate_target(f"{known}x://a.example"), Command)


@pytest.mark.parametrize("url", ["http://a.example/mcp", "https://a.example", "ws://a.example/ws", "wss://a.example"])
def test_every_scheme_of_an_address_is_known(url: str) -> None:
    """Plain and over TLS, HTTP and WebSocket."""
    assert locate_target(url) == Address(url=url)


@pytest.mark.parametrize("option", [{"headers": {"X": "y"}}, {"ssl": False}, {"proxy": "http://proxy.example"}])
def test_no_option_of_an_address_is_taken_elsewhere(option: dict[str, Any]) -> None:
    """Not for a server in memory either."""
    with pytest.raises(ConfigError, match="for a URL"):
        Client(Server("s"), **option)


@pytest.mark.parametrize("url", ["http://127.0.0.1:1/mcp", "ws://127.0.0.1:1/ws"])
async def test_an_address_where_nobody_listens_is_named(url: str) -> None:
    """At once, not when the deadline passes."""
    with pytest.raises((ConnectionClosed, PeerError), match=r"127\.0\.0\.1:1"):
        await Client(url).connect()


async def test_a_server_over_websocket_is_reached_by_its_url() -> None:
    """The scheme says which transport."""
    async with running(server_app(Server("s")._service, "websocket", {})) as place:
        opened = await open_channel(locate_target(f"ws://{place}/ws"))
        assert type(opened.channel).__name__ == "WebSocketClientChannel"
        await opened.channel.close()


def test_only_what_is_reached_over_http_can_be_too_old() -> None:
    """A command line or a WebSocket has no older transport to fall back to."""
    refusal = MethodNotFound("what?")
    assert not speaks_oldest(locate_target(["server"]))(refusal)
    assert not speaks_oldest(locate_target("ws://a.example"))(refusal)
    assert speaks_oldest(locate_target("http://a.example"))(refusal)


def test_a_file_in_another_folder_is_another_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """By its whole name: what a host allows one of them holds for that one."""
    found = []
    for folder in (tmp_path / "mine", tmp_path / "theirs"):
        folder.mkdir()
        (folder / "shop.py").touch()
        monkeypatch.chdir(folder)
        found.append(locate_target("shop.py"))
    assert found == [Command(argv=[sys.executable, str(tmp_path / name / "shop.py")]) for name in ("mine", "theirs")]


def test_a_host_knows_a_server_by_what_the_user_configured() -> None:
    """A URL, a command line, or the name of a server in memory."""
    assert describe_location(locate_target("https://example.com/mcp")) == "https://example.com/mcp"
    assert describe_location(locate_target(["uvx", "shop"])) == launch_of(["uvx", "shop"])
    assert describe_location(locate_target(Server("shop"))) == ["memory:", "shop"]


def test_a_server_without_a_name_is_known_by_its_class() -> None:
    """Two such objects of different classes are two servers."""
    assert describe_location(_Serving()) == ["memory:", f"{__name__}._Serving"]


class _Serving:
    async def serve(self, channel: Channel) -> None:
        """Serve nobody."""


@pytest.mark.parametrize("target", ["http://[::1/mcp", "http://x:70000/", {"url": "https://x:y/mcp"}])
def test_a_url_that_cannot_be_read_is_refused(target: object) -> None:
    """Before anybody tries to reach it."""
    with pytest.raises(ConfigError, match="cannot read the URL"):
        locate_target(target)  # pyright: ignore[reportArgumentType]


def test_a_whole_configuration_is_told_to_be_one_entry() -> None:
    """Clients of others take all servers of a file."""
    with pytest.raises(ConfigError, match="this is no entry of mcpServers, of which Gateway takes several"):
        locate_target({"mcpServers": {"shop": {"command": "shop"}}})


@pytest.mark.parametrize("proxy", ["proxy:3128", "socks5://me:secret@proxy:1080", "http://me:secret@[", "http://"])
def test_a_proxy_that_cannot_be_used_is_refused_at_once(proxy: str) -> None:
    """It failed at each connection, in words about the server; what it is may hold a password."""
    with pytest.raises(ConfigError, match="not the address of a proxy: it has to begin with http or https") as caught:
        Client("https://server.example/mcp", proxy=proxy)
    assert "secret" not in str(caught.value)
