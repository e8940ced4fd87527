"""Configuration files that change while a program runs: taken up, or left as they were, and always said."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from antiphon.cli.watched_servers import WatchedServers
from antiphon.errors import ConfigError
from antiphon.host.config.trust import Trust


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
