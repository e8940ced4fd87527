"""Where servers are looked up by name, and that a project's file is trusted before anything of it is used."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from antiphon.cli.config_files import (
    FileWatch,
    config_paths,
    describe_servers,
    find_entries,
    find_entry,
    is_own,
    list_names,
    read_config,
)
from antiphon.cli.output.formats import Failed
from antiphon.errors import ConfigError
from antiphon.host.config.toml_files import Trust


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project folder without configuration, and a home without any; nobody is at a terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("sys.stdin", Typed("", is_terminal=False))
    monkeypatch.chdir(tmp_path)
    return tmp_path


class Typed:
    """A standard stream: what a person types, or a pipe."""

    def __init__(self, line: str, *, is_terminal: bool = True) -> None:
        self.line = line
        self.is_terminal = is_terminal

    def isatty(self) -> bool:
        """Whether it is a terminal."""
        return self.is_terminal

    def readline(self) -> str:
        """Read what was typed."""
        return self.line


def write(path: Path, servers: object) -> Path:
    """Write a configuration file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}), encoding="utf-8")
    return path


def trusted(path: Path, servers: object) -> Path:
    """Write a configuration file that a person has looked at."""
    write(path, servers)
    Trust().add(path, path.read_bytes())
    return path


def test_a_project_cannot_take_a_name_that_is_the_users(folder: Path):
    """It may come from a stranger; a name of its own is found."""
    write(folder / "home" / "antiphon" / "servers.json", {"a": {"command": "user"}})
    trusted(folder / ".mcp.json", {"a": {"command": "project"}, "b": {"command": "b"}})
    first, second = find_entry("a", None), find_entry("b", None)
    assert first is not None
    assert first.entry.command == "user"
    assert second is not None
    assert second.path == config_paths()[1]
    assert find_entry("c", None) is None


def test_a_usual_file_that_is_there_and_cannot_be_read_is_no_missing_one(folder: Path):
    """The name would otherwise be looked up in the project's."""
    trusted(folder / ".mcp.json", {"a": {"command": "project"}})
    (folder / "home" / "antiphon" / "servers.json").mkdir(parents=True)
    with pytest.raises(ConfigError, match=r"servers\.json"):
        find_entry("a", None)
    assert list_names(None) == ["a"]


def test_the_servers_of_a_host_behind_the_gateway_are_found_by_name(folder: Path):
    """The gateway tells people to type such a name; a project cannot take it either."""
    path = write(folder / "home" / "antiphon" / "hosts" / "cursor.json", {"a": {"command": "moved"}})
    trusted(folder / ".mcp.json", {"a": {"command": "project"}})
    found = find_entry("a", None)
    assert found is not None
    assert (found.entry.command, found.path) == ("moved", path)
    assert list_names(None) == ["a"]
    assert [each.path for each in find_entries([]).values()] == [Path(".mcp.json")]


@pytest.mark.parametrize("place", [".mcp.json", ".vscode/mcp.json", ".cursor/mcp.json"])
def test_nothing_of_a_projects_file_is_used_before_it_is_trusted(folder: Path, place: str):
    """Not even a variable is filled in; the message has the command, and what has changed is asked about again."""
    path = write(folder / place, {"a": {"command": "x", "env": {"K": "${NOPE}"}}})
    for _ in range(2):
        with pytest.raises(Failed, match=f"antiphon trust add {place}"):
            find_entry("a", None)
    trusted(path, {"a": {"command": "x"}})
    assert find_entry("a", None) is not None
    write(path, {"a": {"command": "y"}})
    with pytest.raises(Failed, match="has changed since"):
        find_entry("a", None)


def test_the_users_own_file_needs_no_trust(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """It came with no project, and may want variables."""
    monkeypatch.setenv("KEY", "secret")
    path = write(
        folder / "home" / "antiphon" / "servers.json", {"a": {"url": "https://x.y", "headers": {"A": "${KEY}"}}}
    )
    found = find_entry("a", None)
    assert found is not None
    assert found.entry.headers == {"A": "secret"}
    assert is_own(path)
    assert not is_own(folder / ".mcp.json")


@pytest.mark.parametrize("member", [{"url": "https://x.y/${KEY}"}, {"url": "https://x.y", "headers": {"A": "${KEY}"}}])
def test_a_variable_of_ours_goes_to_no_address_unasked(folder: Path, monkeypatch: pytest.MonkeyPatch, member: dict):
    """Also where the file is named; an entry that wants none is used as it is named."""
    monkeypatch.setenv("KEY", "secret")
    path = write(folder / "f.json", {"a": member, "b": {"url": "https://x.y"}})
    with pytest.raises(Failed, match=r"antiphon trust add .*f\.json"):
        find_entry("a", path)
    assert find_entry("b", path) is not None
    Trust().add(path, path.read_bytes())
    found = find_entry("a", path)
    assert found is not None
    assert "secret" in "".join(found.entry.texts)


@pytest.mark.parametrize(("line", "is_trusted"), [("y\n", True), ("n\n", False), ("\n", False), ("", False)])
def test_at_a_terminal_the_file_is_shown_and_asked_about(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], line: str, is_trusted: bool
):
    """Once, with what it starts and what it is given; nothing is chosen for the person."""
    monkeypatch.setenv("KEY", "secret")
    write(folder / ".mcp.json", {"a": {"command": "x", "env": {"K": "${KEY}"}}, "b": {"url": "https://x.y\x1b[2J"}})
    monkeypatch.setattr("sys.stdin", Typed(line))
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    if is_trusted:
        assert find_entry("a", None) is not None
    else:
        with pytest.raises(Failed, match="not trusted, nothing was started"):
            find_entry("a", None)
    said = capsys.readouterr().err
    for text in (
        "a: starts x",
        "with the variables K",
        "is given from your environment: KEY",
        "b: connects to https://x.y",
    ):
        assert text in said
    assert "secret" not in said and "\x1b" not in said
    assert Trust().covers(folder / ".mcp.json", (folder / ".mcp.json").read_bytes()) is is_trusted


def test_an_entry_that_reaches_nothing_is_shown_as_such(folder: Path):
    """Whoever trusts a file sees all that is in it."""
    assert list(describe_servers(read_config(write(folder / "f.json", {"a": {}})))) == [
        "  a: nothing that can be reached"
    ]


def test_variables_are_filled_in(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """With their default where they are not set."""
    monkeypatch.setenv("DB", "/data")
    trusted(folder / ".mcp.json", {"a": {"command": "x", "args": ["${DB}/f", "${NOPE:-none}"], "env": {"K": "${DB}"}}})
    found = find_entry("a", None)
    assert found is not None
    assert found.entry.args == ["/data/f", "none"]
    assert found.entry.env == {"K": "/data"}


def test_the_folder_of_a_project_is_not_that_of_the_editors_file(folder: Path):
    """``${workspaceFolder}`` is the project."""
    for place in (".vscode/mcp.json", ".mcp.json"):
        path = trusted(folder / place, {"a": {"command": "${workspaceFolder}/run"}})
        found = find_entry("a", None)
        assert found is not None
        assert found.entry.command == f"{folder}/run"
        path.unlink()


def test_a_variable_that_is_not_set_is_named(folder: Path):
    """With the place that wants it."""
    trusted(folder / ".mcp.json", {"a": {"command": "${NOPE}"}})
    with pytest.raises(ConfigError, match=r"\.mcp\.json: a: the environment has no variable NOPE"):
        find_entry("a", None)


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


def test_a_file_that_is_written_all_the_time_hides_no_change_of_another(tmp_path: Path):
    """Such as what a server itself writes beside its source; it counts once it stays as it is."""
    source, busy = tmp_path / "server.py", tmp_path / "state.toml"
    source.write_text("before")
    watch = FileWatch(lambda: (source, busy))
    source.write_text("afterwards")
    found: list[set[Path]] = []
    for text in (".", "..", "..."):
        busy.write_text(text)
        found.append(watch.find_changes(watch.look()))
    assert [*found, watch.find_changes(watch.look())] == [set(), {source}, set(), {busy}]


def test_a_file_that_has_just_been_written_is_told_of_after_another(tmp_path: Path):
    """Its last change was seen for the first time when the other one counted."""
    first, second = tmp_path / "first.json", tmp_path / "second.json"
    watch = FileWatch(lambda: (first, second))
    first.write_text("{}")
    assert watch.find_changes(watch.look()) == set()
    second.write_text("{}")
    assert [watch.find_changes(watch.look()) for _ in range(3)] == [{first}, {second}, set()]
