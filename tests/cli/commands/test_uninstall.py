"""``antiphon uninstall``; most of it is told in ``test_install``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli


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
