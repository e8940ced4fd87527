"""``antiphon install`` and ``uninstall``: as a person uses them, from nothing to a server behind the gateway."""

from __future__ import annotations

import asyncio
import io
import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import httpx
import pytest

from antiphon import Client, PeerError
from antiphon.cli.commands.install import find_installation
from antiphon.cli.config_files import entries_of, find_entry
from antiphon.errors import ConfigError
from antiphon.gateway.hosts.installation import KNOWN
from antiphon.machine.public_names import describe_install
from tests.cli.conftest import Cli
from tests.cli.program import SHOP, environment
from tests.support.network import until
from tests.web.pages import visitor


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a host with one server, in a home of the test's."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    path = tmp_path / ".cursor" / "mcp.json"
    path.parent.mkdir()
    entry = {"command": sys.executable, "args": [SHOP], "env": {"API_KEY": "sk-proj-abcdefghijklmnopqrstuvwx"}}
    path.write_text(json.dumps({"mcpServers": {"shop": entry}}, indent=2))
    return path


async def test_from_a_hosts_file_to_its_servers_behind_the_gateway(file: Path, cli: Cli, tmp_path: Path):
    """What the host would start from then on serves the tools of its server."""
    done = cli("install", "cursor")
    assert done.code == 0
    assert "Served by the gateway: shop." in done.out
    assert "antiphon uninstall cursor undoes it" in done.out
    entry = entries(file)["antiphon"]
    words = [sys.executable, "-m", "antiphon", *entry["args"], "--yes", "--provider", "echo"]
    env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"), XDG_STATE_HOME=str(tmp_path / "state"))
    async with Client({"command": words[0], "args": words[1:], "env": env}) as client:
        assert all([tool.name.startswith("shop__") async for tool in client.tools()])
    assert "as it was before" in cli("uninstall", "cursor").out
    assert list(entries(file)) == ["shop"]


def entries(file: Path) -> dict[str, Any]:
    """Return the servers of a file."""
    return json.loads(file.read_text())["mcpServers"]


def test_a_dry_run_changes_nothing_and_shows_no_secret(file: Path, cli: Cli):
    """The difference, as one knows it from other tools."""
    before = file.read_bytes()
    done = cli("install", "cursor", "--dry-run")
    assert done.code == 0
    assert '+    "antiphon": {' in done.out
    assert "sk-proj" not in done.out
    assert file.read_bytes() == before
    assert "has not been installed" in cli("uninstall", "cursor").err


def test_a_host_whose_only_entry_is_mistyped_is_told_so(file: Path, cli: Cli):
    """It has a server, in the eyes of the person who wrote the entry; the error names what is wrong with it."""
    file.write_text(json.dumps({"mcpServers": {"mine": {"comand": "mine"}}}))
    done = cli("install", "cursor")
    assert done.code == 2
    assert "\n  mine: its member 'comand' is not known; did you mean \"command\"?" in done.err


def test_a_host_without_servers_gets_none_that_would_not_start(file: Path, cli: Cli, tmp_path: Path):
    """It is told where to add one; the user's own servers are served where there are some."""
    file.write_text("{}")
    done = cli("install", "cursor")
    assert (done.code, file.read_text()) == (2, "{}")
    assert "Cursor has no servers that the gateway could serve: add one to it first" in done.err
    own = tmp_path / "config" / "antiphon" / "servers.json"
    own.parent.mkdir(parents=True)
    own.write_text(json.dumps({"mcpServers": {"mine": {"command": "mine"}}}))
    assert cli("install", "cursor").code == 0
    assert entries(file)["antiphon"]["args"] == ["gateway"]


def test_a_host_keeps_its_servers_where_the_page_lacks_its_packages(
    file: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch
):
    """The gateway would end at once, and the host have no tools; the remedy is named."""
    monkeypatch.setitem(sys.modules, "antiphon.web.page_server", None)
    before = file.read_bytes()
    done = cli("install", "cursor")
    assert (done.code, file.read_bytes()) == (2, before)
    assert "the review page needs more packages" in done.err
    assert describe_install("host") in done.err


async def test_from_nothing_to_a_request_on_the_page(file: Path, cli: Cli, tmp_path: Path):
    """As a new user would: install, have the host call a tool that samples, and decide on the page that opens."""
    opened = tmp_path / "opened"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\ncp "${{1#file://}}" {opened}.new && mv {opened}.new {opened}\n')
    browser.chmod(0o700)
    assert cli("install", "cursor").code == 0
    entry = entries(file)["antiphon"]
    words = [sys.executable, "-m", "antiphon", *entry["args"], "--provider", "echo"]
    env = environment(XDG_STATE_HOME=str(tmp_path / "state"), BROWSER=f"{browser} %s")
    # As its host starts it, which neither samples nor shows anything.
    async with Client({"command": words[0], "args": words[1:], "env": env}, revision="2025-11-25") as host:
        call = asyncio.create_task(host.call_tool("shop__describe", {"product": "tea"}))
        await until(opened.exists)
        address = re.search(r"http://[^\s\"'<>]+", opened.read_text())
        assert address
        async with visitor(follow_redirects=True) as person:
            await person.get(address[0])
            origin = address[0].partition("/open")[0]
            may = await question(person, origin, seen=set())
            assert "describe" in (await person.get(f"{origin}/review/{may}")).text
            await approved(cli, may)
            asked = await question(person, origin, seen={may})
            assert "Describe tea" in (await person.get(f"{origin}/review/{asked}")).text
            await approved(cli, asked)
        assert "Describe tea" in (await call).text


async def approved(cli: Cli, id: str) -> None:
    """Approve what is shown."""
    shown = await asyncio.to_thread(cli, "review", "show", id)
    seen = re.search(rf"{id}:\w+", shown.out)
    assert seen
    assert (await asyncio.to_thread(cli, "review", "approve", seen[0])).code == 0


async def question(person: httpx.AsyncClient, origin: str, seen: set[str]) -> str:
    """Wait until the page shows a question that was not there before, and return its id."""
    async with asyncio.timeout(60):
        while True:
            page = (await person.get(f"{origin}/")).text
            new = [one for one in re.findall(r'href="/review/(\w+)"', page) if one not in seen]
            if new:
                return new[0]
            await asyncio.sleep(0.05)


def test_another_file(file: Path, cli: Cli, tmp_path: Path):
    """For a host whose settings are elsewhere."""
    other = tmp_path / "other.json"
    other.write_text("{}")
    assert cli("install", "cursor", "--file", str(other), "--keep").code == 0
    assert list(entries(other)) == ["project"]
    assert list(entries(file)) == ["shop"]


def test_the_files_of_projects_are_installations_of_their_own(file: Path, cli: Cli, tmp_path: Path):
    """Beside that of the user: each has its own servers, and is undone by itself."""
    before = {}
    for project in ("one", "two"):
        path = tmp_path / project / ".cursor" / "mcp.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps({"mcpServers": {project: {"command": project}}}))
        before[path] = path.read_bytes()
        done = cli("install", "cursor", "--file", str(path), "--trust")
        assert list(entries(path)) == ["project"]
        assert f"antiphon uninstall cursor --file {path} undoes it" in done.out
        assert f"Served by the gateway: {project}." in done.out
    assert cli("install", "cursor").code == 0
    for path, content in before.items():
        assert "as it was before" in cli("uninstall", "cursor", "--file", str(path)).out
        assert path.read_bytes() == content
    assert "antiphon" in entries(file)
    assert cli("uninstall", "cursor").code == 0


PROJECT = {
    "evil": {"command": "python", "args": ["evil.py"], "env": {"K": "${SECRET_KEY}", "L": "0123456789abcdef"}},
    "web": {"url": "https://x.example/${SECRET_KEY}", "headers": {"A": "Bearer ${NOT_SET}"}},
}


@pytest.fixture
def project(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Have a project's file, which came from a stranger, and a secret that it wants."""
    monkeypatch.setenv("SECRET_KEY", "wJalrXUtnFEMIK7MDENG")
    path = tmp_path / "cloned" / ".mcp.json"
    path.parent.mkdir()
    path.write_text(json.dumps({"mcpServers": PROJECT}))
    return path


def test_a_strangers_entries_are_shown_and_do_not_move_unasked(project: Path, cli: Cli, tmp_path: Path):
    """Where nobody can be asked, the refusal names the remedy; nothing has changed."""
    before = project.read_bytes()
    done = cli("install", "claude-code", "--file", str(project))
    assert done.code == 2
    for text in (
        "evil: starts python",
        "K=${SECRET_KEY}, L=01…, 16 characters",
        "from your environment: SECRET_KEY (wJ…, 20 characters)",
        "web: connects to https://x.example/${SECRET_KEY}",
        "headers A: Bearer ${NOT_SET}",
        "NOT_SET (not set)",
        "or install with --trust",
    ):
        assert text in done.err
    assert "wJal" not in done.err and "0123456789" not in done.err
    assert project.read_bytes() == before
    assert not (tmp_path / "config").exists()
    assert "evil: starts python" in cli("install", "claude-code", "--file", str(project), "--dry-run").out


@pytest.mark.parametrize("line", ["y\n", "n\n"])
def test_a_person_at_a_terminal_is_asked(project: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, line: str):
    """What was trusted as it is moves without a question."""
    monkeypatch.setattr("sys.stdin", io.StringIO(line))
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    done = cli("install", "claude-code", "--file", str(project))
    assert "evil: starts python" in done.err
    assert (done.code, "project" in entries(project)) == ((0, True) if line == "y\n" else (1, False))


def test_moved_entries_keep_the_trust_of_their_source(project: Path, cli: Cli, tmp_path: Path):
    """Their variables are filled in while the file is trusted as it was, whatever it says now."""
    assert cli("install", "claude-code", "--file", str(project), "--trust").code == 0
    (moved,) = (tmp_path / "config" / "antiphon" / "hosts").iterdir()
    assert entries_of(moved, is_named=True)["evil"].entry.env["K"] == "wJalrXUtnFEMIK7MDENG"
    assert not entries_of(moved, is_named=True)["evil"].may_inherit_env
    cli("trust", "add", str(project))
    assert entries_of(moved, is_named=True)["evil"].entry.command == "python"
    cli("trust", "revoke", str(project))
    assert "which is not trusted any more" in str(entries_of(moved, is_named=True)["evil"].entry.fault)
    with pytest.raises(ConfigError, match="which is not trusted any more"):
        find_entry("evil", moved)
    cli("trust", "add", str(moved))
    assert entries_of(moved, is_named=True)["evil"].entry.command == "python"
    assert cli("uninstall", "claude-code", "--file", str(project)).code == 0
    assert list(entries(project)) == list(PROJECT)


def test_what_a_person_still_has_to_do_is_said(file: Path, cli: Cli):
    """A variable that is not set, a login of the host, a member that is not taken over, an entry that stays."""
    (file.parent.parent / ".gemini").mkdir()
    settings = file.parent.parent / ".gemini" / "settings.json"
    shop = {"command": "shop", "trust": True, "env": {"KEY": "${NOT_SET}"}}
    servers = {"shop": shop, "far": {"httpUrl": "https://x.example"}, "odd": {"command": "x", "surprise": 1}}
    settings.write_text(json.dumps({"mcpServers": servers}))
    done = cli("install", "gemini")
    assert "Cannot start: shop: the environment has no variable NOT_SET." in done.out
    assert "If Gemini CLI had signed in to far, sign in again: antiphon login far --config " in done.out
    assert "Not taken over: trust of shop (the gateway asks by its own rules)." in done.out
    assert "Left as it is: odd (its member 'surprise' is not known; known: " in done.out


def test_codex_passes_on_what_the_gateway_needs(file: Path, cli: Cli, tmp_path: Path):
    """The desktop, the keys that antiphon.toml names, and what the moved entries want."""
    own = tmp_path / "config" / "antiphon" / "antiphon.toml"
    own.parent.mkdir(parents=True)
    own.write_text('[models.m]\nprovider = "openai"\nmodel = "m"\nkey = "KEY_OF_M"\n')
    config = tmp_path / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text('[mcp_servers.a]\nurl = "https://x.example"\nbearer_token_env_var = "TOKEN_OF_A"\n')
    assert cli("install", "codex").code == 0
    named = tomllib.loads(config.read_text())["mcp_servers"]["antiphon"]["env_vars"]
    wanted = {"DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"}
    assert {*wanted, "KEY_OF_M", "TOKEN_OF_A"} <= set(named)


@pytest.mark.parametrize("moved", [True, False])
async def test_a_tool_that_the_host_had_forbidden_cannot_be_called(file: Path, cli: Cli, tmp_path: Path, moved: bool):
    """Whether the entry has moved, or the gateway reads the host's own file."""
    config = tmp_path / ".codex" / "config.toml"
    config.parent.mkdir()
    entry = f"command = {json.dumps(sys.executable)}\nargs = [{json.dumps(SHOP)}]"
    off = f"[mcp_servers.off]\n{entry}\nenabled = false\n"
    config.write_text(f'[mcp_servers.shop]\n{entry}\ndisabled_tools = ["describe"]\n{off}')
    own = tmp_path / "config" / "antiphon" / "antiphon.toml"
    own.parent.mkdir(parents=True)
    own.write_text("[gateway]\nlist_timeout = 60\n")
    args = ["gateway", "--config", str(config)]
    if moved:
        cli("install", "codex")
        args = tomllib.loads(config.read_text())["mcp_servers"]["antiphon"]["args"]
    words = ["-m", "antiphon", *args, "--yes", "--provider", "echo"]
    env = environment(XDG_CONFIG_HOME=str(tmp_path / "config"), XDG_STATE_HOME=str(tmp_path / "state"))
    async with Client({"command": sys.executable, "args": words, "env": env}) as client:
        names = [tool.name async for tool in client.tools()]
        assert "shop__price" in names
        assert "shop__describe" not in names
        assert not any(name.startswith("off__") for name in names)
        with pytest.raises(PeerError):
            await client.call_tool("shop__describe", {"product": "tea"})


def test_without_a_host_those_of_this_machine_are_listed(file: Path, cli: Cli):
    """With the file of each, and whether the gateway is installed there."""
    (file.parent.parent / ".codex").mkdir()
    cli("install", "cursor")
    listed = {row["host"]: row for row in cli("install", "--json").objects}
    assert {name: row["installed"] for name, row in listed.items()} == {"cursor": True, "codex": False}
    assert listed["cursor"]["file"] == str(file)
    assert "cursor\tCursor\t" in cli("install").out


def test_a_host_that_is_not_known_is_named_with_those_that_are(cli: Cli):
    """All of them."""
    done = cli("install", "emacs")
    assert done.code == 2
    assert all(name in done.err for name in KNOWN)


def test_a_misspelt_host_is_recognised():
    """As a server is."""
    with pytest.raises(ConfigError, match=r"^'claud-code' is not a known host; did you mean 'claude-code'\?$"):
        find_installation("claud-code", None)


def test_what_was_changed_since_is_said(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nobody is told that a file is what it was when it is not."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / "mcp.json"
    file.write_text('{"mcpServers": {"shop": {"command": "shop"}}}')
    cli("install", "cursor", "--file", str(file), "--trust")
    now = json.loads(file.read_text())
    file.write_text(json.dumps({**now, "theme": "dark"}))
    done = cli("uninstall", "cursor", "--file", str(file))
    assert done.code == 0
    assert "changed since: our entry taken out, all else left" in done.out
    assert "The host's own again: shop." in done.out
    assert json.loads(file.read_text()) == {"mcpServers": {"shop": {"command": "shop"}}, "theme": "dark"}


def test_what_was_changed_in_the_list_of_servers_is_kept(cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A person may have added a server there, or a variable; the host's own file is the same again."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    file = tmp_path / ".cursor" / "mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"shop": {"command": "shop"}}}')
    before = file.read_bytes()
    cli("install", "cursor")
    served = tmp_path / "config" / "antiphon" / "hosts" / "cursor.json"
    served.write_text('{"mcpServers": {"shop": {"command": "better"}, "mine": {"command": "mine"}}}')
    changed = served.read_bytes()
    assert "Served by the gateway: shop, mine." in cli("install", "cursor").out
    assert json.loads(served.read_bytes()) == json.loads(changed)
    done = cli("uninstall", "cursor")
    assert "is kept in " in done.out
    assert file.read_bytes() == before
    (kept,) = served.parent.iterdir()
    assert str(kept) in done.out
    assert json.loads(kept.read_bytes()) == json.loads(changed)
