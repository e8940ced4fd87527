"""The gateway in the place of a host's servers, and the host's own file again."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon.client.connection.server_files import read_servers
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.installation import KNOWN, Installation, place_of

SERVERS = {
    "files": {"command": "npx", "args": ["files"], "env": {"KEY": "secret"}},
    "web": {"url": "https://x.example"},
}


def place(tmp_path: Path, name: str = "cursor", file: str = "mcp.json") -> Installation:
    """Make the installation of a host whose file is in a folder of the test's."""
    return Installation(name, KNOWN[name], tmp_path / file, home=tmp_path / "config", state=tmp_path / "state")


def written(tmp_path: Path, value: Any = SERVERS, file: str = "mcp.json") -> Path:
    """Write a host's file."""
    path = tmp_path / file
    path.write_text(json.dumps({"mcpServers": value, "other": 1}, indent=4))
    return path


def test_the_servers_are_moved_and_given_back(tmp_path: Path):
    """One entry in their place; the gateway reads the others as they were; then the file is the same, to the byte."""
    path = written(tmp_path)
    path.chmod(0o640)
    before = path.read_bytes()
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    now = json.loads(path.read_text())
    assert now["other"] == 1
    assert now["mcpServers"] == {
        "antiphon": {"command": "/bin/antiphon", "args": ["gateway", "--config", str(made.servers)]}
    }
    read = read_servers(made.servers.read_bytes(), made.servers)
    assert (read["files"].command, read["files"].env, read["web"].url) == (
        "npx",
        {"KEY": "secret"},
        "https://x.example",
    )
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    for private in (made.servers, made.backup):
        assert stat.S_IMODE(private.stat().st_mode) == 0o600
    done = place(tmp_path).uninstall()
    assert (done.exactly, done.restored) == (True, ["files", "web"])
    assert path.read_bytes() == before
    assert not made.servers.exists()


def test_what_was_changed_since_stays(tmp_path: Path):
    """Our entry goes, the moved ones come back, and what the person did meanwhile is theirs."""
    path = written(tmp_path)
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    now = json.loads(path.read_text())
    now["mcpServers"]["new"] = {"command": "new"}
    now["other"] = 2
    path.write_text(json.dumps(now))
    done = made.uninstall()
    assert not done.exactly
    assert json.loads(path.read_text()) == {"mcpServers": {"new": {"command": "new"}, **SERVERS}, "other": 2}


def test_entries_come_back_though_the_host_s_file_was_deleted(tmp_path: Path):
    """Uninstalling writes them into a new file, since it deletes all other copies of them."""
    path = written(tmp_path)
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    path.unlink()
    done = made.uninstall()
    assert (done.exactly, done.restored) == (False, ["files", "web"])
    assert json.loads(path.read_text()) == {"mcpServers": SERVERS}


def test_installed_twice_it_takes_what_was_added(tmp_path: Path):
    """The backup stays the first one, so that all comes back."""
    path = written(tmp_path)
    before = path.read_bytes()
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    made.install(made.plan("/bin/antiphon", keep=False))
    assert set(read_servers(made.servers.read_bytes(), made.servers)) == {"files", "web"}
    assert made.uninstall().exactly
    assert path.read_bytes() == before


def test_what_came_between_two_installations_comes_back_too(tmp_path: Path):
    """It is in no backup: the file is put together again instead."""
    path = written(tmp_path)
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    now = json.loads(path.read_text())
    now["mcpServers"]["new"] = {"command": "new"}
    path.write_text(json.dumps(now))
    made.install(made.plan("/bin/antiphon", keep=False))
    assert set(json.loads(path.read_text())["mcpServers"]) == {"antiphon"}
    assert not made.uninstall().exactly
    assert json.loads(path.read_text())["mcpServers"] == {**SERVERS, "new": {"command": "new"}}


def test_beside_the_servers(tmp_path: Path):
    """``--keep``: nothing is moved."""
    path = written(tmp_path)
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=True))
    now = json.loads(path.read_text())["mcpServers"]
    assert now == {**SERVERS, "antiphon": {"command": "/bin/antiphon", "args": ["gateway"]}}
    assert not made.servers.exists()


def test_a_file_that_was_not_there_goes_again(tmp_path: Path):
    """A host that has no servers yet."""
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    assert json.loads(made.path.read_text())["mcpServers"]["antiphon"]["args"][0] == "gateway"
    assert made.uninstall().exactly
    assert not made.path.exists()


def test_what_cannot_be_served_stays_where_it_is(tmp_path: Path):
    """With the reason: switched off, asked for by the host, built in, of a form nobody knows."""
    odd: dict[str, Any] = {
        "off": {"command": "x", "disabled": True},
        "asks": {"command": "x", "env": {"KEY": "${input:key}"}},
        "built-in": {"type": "builtin"},
        "odd": {"command": 7},
    }
    written(tmp_path, {**SERVERS, **odd})
    change = place(tmp_path).plan("/bin/antiphon", keep=False)
    assert set(change.moved) == set(SERVERS)
    assert set(change.left) == set(odd)
    assert set(json.loads(change.after)["mcpServers"]) == {*odd, "antiphon"}


def test_a_file_that_changed_meanwhile_is_not_overwritten(tmp_path: Path):
    """Some hosts write theirs every few seconds."""
    path = written(tmp_path)
    made = place(tmp_path)
    change = made.plan("/bin/antiphon", keep=False)
    path.write_text("{}")
    with pytest.raises(ConfigError, match="has changed meanwhile"):
        made.install(change)
    assert path.read_text() == "{}"
    assert not made.servers.exists()


def test_a_link_stays_a_link(tmp_path: Path):
    """Dotfiles are often kept elsewhere."""
    real = written(tmp_path, file="real.json")
    (tmp_path / "mcp.json").symlink_to(real)
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    assert (tmp_path / "mcp.json").is_symlink()
    assert "antiphon" in real.read_text()


def test_what_is_not_there_is_said(tmp_path: Path):
    """No host, nothing installed, another file."""
    nowhere = Installation("cursor", KNOWN["cursor"], tmp_path / "no" / "mcp.json", home=tmp_path, state=tmp_path)
    with pytest.raises(ConfigError, match="is Cursor installed"):
        nowhere.plan("/bin/antiphon", keep=False)
    with pytest.raises(ConfigError, match="has not been installed"):
        place(tmp_path).uninstall()
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    with pytest.raises(ConfigError, match=r"uninstall that first, with --file .*mcp\.json"):
        place(tmp_path, file="other.json").plan("/bin/antiphon", keep=False)


@pytest.mark.parametrize("name", KNOWN)
def test_every_host_reads_its_entry(name: str, tmp_path: Path):
    """The entry is found again in the host's own form, and means the same program."""
    known = KNOWN[name]
    file = place_of(known, {"HOME": str(tmp_path), "APPDATA": str(tmp_path)})
    assert str(file).startswith(str(tmp_path) + os.sep)
    file.parent.mkdir(parents=True, exist_ok=True)
    made = Installation(name, known, file, home=tmp_path / "config", state=tmp_path / "state")
    made.install(made.plan("/bin/antiphon", keep=False))
    assert "antiphon" in file.read_text()
    if name != "goose":
        entry = read_servers(file.read_bytes(), file)["antiphon"]
        assert [entry.command, *entry.args][:2] == ["/bin/antiphon", "gateway"]
    assert made.uninstall().exactly
    assert not file.exists()


def test_goose_has_words_of_its_own(tmp_path: Path):
    """Its commands are moved in the form that the gateway reads, and come back in its own."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "extensions:\n  dev:\n    type: builtin\n"
        "  files:\n    cmd: npx\n    args: [x]\n    envs: {A: b}\n    enabled: true\n"
    )
    made = place(tmp_path, "goose", "config.yaml")
    made.install(made.plan("/bin/antiphon", keep=False))
    read = read_servers(made.servers.read_bytes(), made.servers)["files"]
    assert (read.command, read.args, read.env) == ("npx", ["x"], {"A": "b"})
    path.write_text(path.read_text() + "more: 1\n")
    assert not made.uninstall().exactly
    assert "cmd: npx" in path.read_text()
    assert "more: 1" in path.read_text()


def test_servers_of_single_projects_are_named(tmp_path: Path):
    """``claude mcp add`` writes there, unless it is told otherwise."""
    path = tmp_path / ".claude.json"
    path.write_text(json.dumps({"projects": {"/srv/shop": {"mcpServers": {"shop": {"command": "shop"}}}, "/x": {}}}))
    change = place(tmp_path, "claude-code", ".claude.json").plan("/bin/antiphon", keep=False)
    assert list(change.left) == ["shop in /srv/shop"]
    assert "--scope user" in change.left["shop in /srv/shop"]


def test_a_server_that_only_has_our_name_is_moved_like_the_others(tmp_path: Path):
    """What is ours starts the gateway."""
    path = written(tmp_path, {"antiphon": {"command": "somebody-elses"}})
    made = place(tmp_path)
    made.install(made.plan("/bin/antiphon", keep=False))
    path.write_text(path.read_text() + "\n")
    made.uninstall()
    assert json.loads(path.read_text())["mcpServers"] == {"antiphon": {"command": "somebody-elses"}}


def test_an_installation_that_the_host_would_not_start_is_told(tmp_path: Path):
    """Its entry is gone, or the program."""
    path = written(tmp_path)
    made = place(tmp_path)
    program = tmp_path / "antiphon"
    program.touch()
    made.install(made.plan(str(program), keep=False))
    assert made.check() is None
    program.unlink()
    assert "which is not there" in str(made.check())
    path.write_text("{}")
    assert "has no entry of the gateway any more" in str(made.check())


@pytest.mark.parametrize(
    ("host", "file", "rules", "rule"),
    [
        (
            "claude-code",
            ".claude/settings.json",
            {"permissions": {"deny": ["Bash", "mcp__files__rm"]}},
            "mcp__files__rm",
        ),
        ("claude-code", ".claude/settings.json", {"permissions": {"deny": ["mcp__files"]}}, "mcp__files"),
        ("gemini", None, {"mcp": {"excluded": ["files"]}}, "mcp.excluded"),
        ("qwen", None, {"mcp": {"allowed": ["web"]}}, "mcp.allowed"),
        ("opencode", None, {"tools": {"files_*": False}}, "files_*"),
        ("opencode", None, {"tools": {"files_rm": False, "web_*": True}}, "files_rm"),
    ],
)
def test_a_server_that_the_host_has_a_rule_about_stays(
    tmp_path: Path, host: str, file: str | None, rules: dict[str, Any], rule: str
):
    """The rule names it as the host does, and would not hold behind the gateway."""
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({KNOWN[host].section: SERVERS, **({} if file else rules)}))
    if file is not None:
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(json.dumps(rules))
    change = place(tmp_path, host, "settings.json").plan("/bin/antiphon", keep=False)
    assert f"its host has a rule about it, {rule}:" in change.left["files"]
    assert "files" not in change.moved
    assert "web" in change.moved


@pytest.mark.parametrize("platform", ["linux", "darwin", "win32"])
@pytest.mark.parametrize("name", KNOWN)
def test_a_place_is_filled_in(name: str, platform: str, monkeypatch: pytest.MonkeyPatch):
    """No variable is left in it."""
    monkeypatch.setattr(sys, "platform", platform)
    place = place_of(KNOWN[name], {"HOME": "/people/me", "APPDATA": "/people/me/AppData"})
    assert place.is_relative_to(Path("/people/me"))
    assert not {"$", "~", "*"} & set(str(place))


@pytest.mark.parametrize("name", KNOWN)
def test_an_entry_names_the_program(name: str):
    """In the words of the host."""
    words = str(KNOWN[name].entry("/bin/antiphon", ["gateway"]))
    assert "/bin/antiphon" in words
    assert "gateway" in words
