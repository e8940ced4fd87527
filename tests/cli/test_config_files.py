from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.config_files import config_paths, find_entry, read_config
from antiphon.errors import ConfigError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder without configuration, and a home without any."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(path: Path, servers: object) -> Path:
    """Write a configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def test_a_project_cannot_take_a_name_that_is_the_users(folder: Path):
    """It may come from a stranger; a name of its own is found."""
    write(folder / "home" / "antiphon" / "servers.json", {"a": {"command": "user"}})
    write(folder / ".mcp.json", {"a": {"command": "project"}, "b": {"command": "b"}})
    first, second = find_entry("a", None), find_entry("b", None)
    assert first is not None
    assert first.entry.command == "user"
    assert second is not None
    assert second.path == config_paths()[1]
    assert find_entry("c", None) is None


def test_members_of_other_hosts_are_ignored(folder: Path):
    """What they write is read as it is."""
    path = write(folder / "f.json", {"a": {"command": "x", "args": ["1"], "type": "stdio", "disabled": True}})
    assert read_config(path)["a"].args == ["1"]


def test_variables_are_filled_in(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """With their default where they are not set."""
    monkeypatch.setenv("DB", "/data")
    write(folder / ".mcp.json", {"a": {"command": "x", "args": ["${DB}/f", "${NOPE:-none}"], "env": {"K": "${DB}"}}})
    found = find_entry("a", None)
    assert found is not None
    assert found.entry.args == ["/data/f", "none"]
    assert found.entry.env == {"K": "/data"}


def test_a_variable_that_is_not_set_is_named(folder: Path):
    """With the place that wants it."""
    write(folder / ".mcp.json", {"a": {"command": "${NOPE}"}})
    with pytest.raises(ConfigError, match=r"\.mcp\.json: mcpServers\.a: the environment has no variable NOPE"):
        find_entry("a", None)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "f.json: Input data was truncated"),
        ("{}", "f.json: Object missing required field `mcpServers`"),
        (
            '{"mcpServers": {"a": {"args": "x"}}}',
            r"f.json: Expected `array`, got `str` - at `\$.mcpServers\[...\].args`",
        ),
    ],
)
def test_a_file_that_cannot_be_read_is_named(folder: Path, text: str, message: str):
    """With the member that is wrong."""
    (folder / "f.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=message):
        read_config(folder / "f.json")


def test_a_missing_file_or_name_is_named(folder: Path):
    """If it was asked for."""
    with pytest.raises(ConfigError, match=r"no\.json: No such file"):
        find_entry("a", folder / "no.json")
    path = write(folder / "f.json", {"b": {}, "c": {}})
    with pytest.raises(ConfigError, match="there is no server 'a' in it; there are: b, c"):
        find_entry("a", path)


def test_a_huge_file_is_not_read(folder: Path):
    """It is no configuration."""
    (folder / "f.json").write_text(" " * (1024 * 1024 + 1), encoding="utf-8")
    with pytest.raises(ConfigError, match="larger than"):
        read_config(folder / "f.json")
