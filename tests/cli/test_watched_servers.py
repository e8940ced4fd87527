"""Configuration files that change while a program runs: taken up, or left as they were, and always said."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.config_files import WatchedServers, WatchedSettings
from antiphon.cli.output.formats import Failed
from antiphon.client.connection.targets import Command, locate_target
from antiphon.errors import ConfigError
from antiphon.host.config.settings import GatewaySettings, Profile
from antiphon.host.config.toml_files import Trust, load_config


def write(path: Path, *names: str) -> Path:
    """Write a configuration with these servers, as an editor does."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    part.write_text(json.dumps({"mcpServers": {name: {"command": name} for name in names}}))
    return part.replace(path)


async def after(watched: WatchedServers, caplog: pytest.LogCaptureFixture, *, says: str) -> Mapping[str, Any]:
    """Let it look until it says something; return the servers then."""

    async def watch() -> None:
        async for _ in watched.changes(0.001):
            pass

    watching = asyncio.create_task(watch())
    try:
        async with asyncio.timeout(30):
            while says not in caplog.text:
                await asyncio.sleep(0)
                assert not watching.done()
            await asyncio.sleep(0)
    finally:
        watching.cancel()
        await asyncio.wait([watching])
    caplog.clear()
    return watched.targets


async def test_servers_come_and_go_with_the_file(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """A file that is broken, or not there for a moment, changes nothing."""
    file = write(tmp_path / "mcp.json", "one", "two")
    watched = WatchedServers([file], [])
    assert list(watched.targets) == ["one", "two"]
    write(file, "two", "three")
    assert list(await after(watched, caplog, says="have changed: two, three")) == ["two", "three"]
    file.write_text("{")
    assert list(await after(watched, caplog, says="stay as they were")) == ["two", "three"]
    file.unlink()
    assert list(await after(watched, caplog, says="stay as they were")) == ["two", "three"]
    write(file, "three")
    assert list(await after(watched, caplog, says="have changed: three")) == ["three"]


async def test_a_projects_file_that_was_changed_is_not_trusted_any_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """Whatever it says now; its servers come back when a person has allowed it as it is."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    write(tmp_path / "home" / "antiphon" / "servers.json", "mine")
    project = write(Path(".mcp.json"), "theirs")
    Trust().add(project, project.read_bytes())
    watched = WatchedServers([], [])
    assert list(watched.targets) == ["mine", "theirs"]
    write(project, "theirs", "more")
    assert list(await after(watched, caplog, says="have changed: mine")) == ["mine"]
    project.write_text("{")
    assert list(await after(watched, caplog, says="its servers are stopped")) == ["mine"]
    write(project, "theirs")
    Trust().add(project, project.read_bytes())
    assert list(await after(watched, caplog, says="have changed: mine, theirs")) == ["mine", "theirs"]


def test_what_is_missing_at_the_start_is_named(tmp_path: Path):
    """As a mistake of whoever started it."""
    file = write(tmp_path / "mcp.json", "one")
    with pytest.raises(ConfigError, match="there is no server 'two' in"):
        WatchedServers([file], ["two"])
    with pytest.raises(ConfigError, match="there are no servers in"):
        WatchedServers([write(file)], [])
    assert list(WatchedServers([write(file, "one", "two")], ["two"]).targets) == ["two"]


def test_an_entry_that_cannot_be_used_costs_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Its target names the variable, the member or the address that is wrong."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "antiphon" / "servers.json"
    file.parent.mkdir()
    entries = {
        "one": {"command": "one"},
        "unset": {"command": "x", "env": {"K": "${NOPE}"}},
        "malformed": {"command": "x", "args": 5},
        "empty": {},
        "address": {"url": "http://x:port/"},
    }
    file.write_text(json.dumps({"mcpServers": entries}))
    targets = WatchedServers([], []).targets
    assert list(targets) == list(entries)
    assert locate_target(targets["one"]) == Command(argv=["one"], env={}, cwd=None)
    for name, reason in {
        "unset": "unset: the environment has no variable NOPE",
        "malformed": "malformed: Expected `array | null`, got `int`",
        "empty": 'empty: needs "command" or "url"',
        "address": "cannot read the URL 'http://x:port/'",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(reason)):
            locate_target(targets[name])


def test_a_file_that_is_not_trusted_costs_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    """Nor does one that cannot be read; both are named. If nothing else has servers, that is an error."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.chdir(tmp_path)
    write(Path(".mcp.json"), "theirs")
    with pytest.raises(Failed, match="is not trusted"):
        WatchedServers([], [])
    own = write(tmp_path / "home" / "antiphon" / "servers.json", "mine")
    assert list(WatchedServers([], []).targets) == ["mine"]
    assert ".mcp.json: is not trusted" in caplog.text
    caplog.clear()
    own.write_text("{")
    Trust().add(Path(".mcp.json"), Path(".mcp.json").read_bytes())
    assert list(WatchedServers([], []).targets) == ["theirs"]
    assert "servers.json, line 1" in caplog.text


def configured(file: Path, text: str) -> None:
    """Write our own configuration, as an editor does."""
    part = file.with_suffix(".part")
    part.write_text(text)
    part.replace(file)


def looks(settings: WatchedSettings) -> bool:
    """Let it look twice, since only what stays counts."""
    return settings.look() or settings.look()


def test_names_filters_and_the_profile_are_taken_up(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """What a gateway was started with is not, and that is said."""
    file, taken = tmp_path / "antiphon.toml", []
    configured(file, '[gateway.profiles.work]\nonly = ["one"]\n')
    settings = WatchedSettings([file], lambda: load_config({}, file=file), "work", lambda *said: taken.append(said))
    assert not looks(settings)
    configured(file, '[gateway]\ntools = ["!rm"]\n[gateway.profiles.work]\nonly = ["one", "two"]\n')
    assert looks(settings)
    assert [(wanted.tools, profile.only) for wanted, profile in taken] == [(("!rm",), ("one", "two"))]
    assert settings.chosen == ("one", "two")
    assert "the new names, filters and profile are in force" in caplog.text
    assert "started again" not in caplog.text
    configured(file, "[defaults]\nreview_timeout = 5\n" + file.read_text())
    assert not looks(settings)
    assert len(taken) == 1
    assert "[auth], search and all else" in caplog.text


@pytest.mark.parametrize("text", ["[gateway", "[gateway.profiles.home]", '[gateway]\ntools = ["wrong["]'])
def test_a_configuration_with_a_mistake_changes_nothing(text: str, tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """It is said, and what is right later is taken up."""
    file, taken = tmp_path / "antiphon.toml", []

    def take_up(wanted: GatewaySettings, profile: Profile) -> None:
        if "wrong[" in (wanted.tools or ()):
            raise ConfigError("a glob is wrong")
        taken.append(profile)

    configured(file, '[gateway.profiles.work]\nonly = ["one"]\n')
    settings = WatchedSettings([file], lambda: load_config({}, file=file), "work", take_up)
    configured(file, text)
    assert not looks(settings)
    assert "everything stays as it was" in caplog.text
    assert settings.chosen == ("one",)
    configured(file, '[gateway.profiles.work]\nonly = ["two"]\n')
    assert looks(settings)
    assert [profile.only for profile in taken] == [("two",)]


async def test_a_profile_may_choose_other_servers(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Among those of the files, as they are now."""
    file, ours = write(tmp_path / "mcp.json", "one", "two"), tmp_path / "antiphon.toml"
    configured(ours, '[gateway.profiles.work]\nonly = ["one"]\n')
    watched = WatchedServers([file], [], ["one"])
    watched.settings = WatchedSettings([ours], lambda: load_config({}, file=ours), "work", lambda *_: None)
    configured(ours, '[gateway.profiles.work]\nonly = ["two"]\n')
    assert list(await after(watched, caplog, says="servers have changed: two")) == ["two"]


async def test_tools_that_an_entry_denies_are_denied_as_soon_as_it_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
):
    """Before the changed servers are served; nothing else of the settings changes."""
    file, ours = tmp_path / "mcp.json", tmp_path / "antiphon.toml"
    configured(file, json.dumps({"mcpServers": {"one": {"command": "one", "excludeTools": ["rm"]}}}))
    configured(ours, "")
    watched = WatchedServers([file], [])
    assert watched.tools == {"one": ("!rm",)}
    taken = []
    watched.settings = WatchedSettings(
        [ours], lambda: load_config({}, file=ours), None, lambda *_: taken.append(dict(watched.tools))
    )
    changed = {"one": {"command": "one", "excludeTools": ["rm", "mv"]}, "two": {"command": "two"}}
    configured(file, json.dumps({"mcpServers": changed}))
    await after(watched, caplog, says="servers have changed: one, two")
    assert taken == [{"one": ("!rm", "!mv")}]
