from __future__ import annotations

import json
import os
import shlex
import sys
from pathlib import Path

import pytest

from antiphon.cli.config_files import names_of, origin_at, resolve_target
from antiphon.errors import ConfigError
from antiphon.host.config import Config
from antiphon.host.config.settings import ServerEntry
from antiphon.host.config.toml_files import Trust
from antiphon.host.store.store_location import config_folder
from antiphon.identity import identity_of as found_at
from tests.cli.program import SHOP


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with two programs, one with a space in its name, and a configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop.py").touch()
    (tmp_path / "my shop.py").touch()
    servers = {
        "shop": {"command": "serve-shop", "args": ["-v"], "env": {"A": "1"}},
        "far": {"url": "https://x.y", "headers": {"A": "b"}},
        "no": {},
    }
    file = tmp_path / ".mcp.json"
    file.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    Trust().add(file, file.read_bytes())
    return tmp_path


def test_an_address_stays_one(folder: Path):
    """The client says what it can reach."""
    assert resolve_target("https://x.y/mcp") == "https://x.y/mcp"


def test_a_python_file_is_run_by_this_python(folder: Path):
    """With its arguments, and whatever its name."""
    assert resolve_target("shop.py") == [sys.executable, str(Path("shop.py").absolute())]
    assert resolve_target("my shop.py") == [sys.executable, str(Path("my shop.py").absolute())]
    assert resolve_target("shop.py --db x") == [sys.executable, str(Path("shop.py").absolute()), "--db", "x"]


def test_a_server_in_a_file_is_served(folder: Path):
    """FILE:NAME needs no call of run() in the file."""
    named = f"{Path('shop.py').absolute()}:first"
    assert resolve_target("shop.py:first") == [sys.executable, "-P", "-m", "antiphon", "serve", named]


def test_several_words_are_a_command_line(folder: Path):
    """Taken apart as a shell does."""
    assert resolve_target('npx -y "a b"') == ["npx", "-y", "a b"]


def test_one_word_is_a_configured_server_or_a_program(folder: Path):
    """The configuration comes first."""
    assert resolve_target("shop") == {"command": "serve-shop", "args": ["-v"], "env": {"A": "1"}, "cwd": None}
    assert resolve_target("far") == {"url": "https://x.y", "headers": {"A": "b"}}
    assert resolve_target(shlex.quote(sys.executable)) == [sys.executable]


@pytest.mark.parametrize(
    ("target", "message"),
    [
        ("nope", "'nope' is no program, no .py file, and no server named in "),
        ("ftp://a/b", "an address begins with http, https, ws or wss"),
        ("nope.py", "no such file: nope.py"),
        ("", "the target is empty"),
        ('npx "a', "cannot read the command line"),
        ("no", 'needs "command" or "url"'),
    ],
)
def test_what_means_nothing_is_refused(folder: Path, target: str, message: str):
    """The message says what was tried."""
    with pytest.raises(ConfigError, match=message):
        resolve_target(target)


@pytest.mark.parametrize(("typed", "meant"), [("hats", "hats.py"), ("hats:server", "hats.py:server")])
def test_a_file_without_its_ending_is_recognised(folder: Path, typed: str, meant: str):
    """As other tools name a module."""
    Path("hats.py").write_text("", encoding="utf-8")
    with pytest.raises(ConfigError, match=f"did you mean '{meant}'"):
        resolve_target(typed)


@pytest.mark.parametrize(
    "name", ["My Server", "it's", 'a "b', "a/b", "\u65e5\u672c \u8a9e", "shop.py", "npx -y thing", " "]
)
def test_the_whole_text_is_looked_up_first(folder: Path, name: str):
    """A name may have spaces, quotes or slashes, whatever else the text could be."""
    file = folder / "servers.json"
    file.write_text(json.dumps({"mcpServers": {name: {"command": "serve-shop"}}}), encoding="utf-8")
    found = resolve_target(name, file)
    assert isinstance(found, dict)
    assert found["command"] == "serve-shop"


@pytest.mark.parametrize("config", [None, "servers.json"])
@pytest.mark.parametrize(("typed", "meant"), [("shpo", "shop"), ("my fils", "my files"), ("my_files", "my files")])
def test_a_misspelt_server_is_recognised(folder: Path, config: str | None, typed: str, meant: str):
    """In the usual files and in one that was named; without a similar name, all are listed."""
    servers = {"mcpServers": {"shop": {"command": "true"}, "my files": {"url": "https://files.example.com/mcp"}}}
    place = folder / config if config else config_folder(os.environ) / "servers.json"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_text(json.dumps(servers))
    file = None if config is None else place
    with pytest.raises(ConfigError, match=rf"{typed}.*did you mean '{meant}'\?"):
        resolve_target(typed, file)
    with pytest.raises(ConfigError, match="there are: shop, my files"):
        resolve_target("zzzzz", file)


def test_a_command_line_needs_no_readable_configuration(folder: Path):
    """Only a name that stands in a file is taken from it."""
    (folder / ".mcp.json").write_text("{", encoding="utf-8")
    assert resolve_target("npx -y thing") == ["npx", "-y", "thing"]
    assert resolve_target("npx -y thing", folder / "missing.json") == ["npx", "-y", "thing"]


def test_a_server_is_known_as_a_call_would_know_it():
    """By its command line, its address, or its file."""
    assert origin_at("python shop.py --fast").identity == found_at(["python", "shop.py", "--fast"])
    assert origin_at("https://Example.com:443/mcp#x").identity == found_at("https://example.com/mcp")
    assert origin_at(SHOP).identity == found_at([sys.executable, SHOP])


def test_a_named_server_is_looked_up(folder: Path):
    """In the file of its project."""
    assert origin_at("far").identity == found_at("https://x.y")


def test_an_identity_stays():
    """Whole, or as far as it was typed."""
    assert origin_at("command:12ab").identity == "command:12ab"


def test_configured_servers_have_names():
    """Those whose target is known; an identity alone is no name."""
    entries = (ServerEntry(target=("python", "my shop.py")), ServerEntry(identity="url:1"))
    assert names_of(Config(servers=entries)) == {found_at(["python", "my shop.py"]): "python 'my shop.py'"}
