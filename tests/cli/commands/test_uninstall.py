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
    cli("install", "cursor", "--file", str(file))
    now = json.loads(file.read_text())
    file.write_text(json.dumps({**now, "theme": "dark"}))
    done = cli("uninstall", "cursor", "--file", str(file))
    assert done.code == 0
    assert "changed since: our entry taken out, all else left" in done.out
    assert "The host's own again: shop." in done.out
    assert json.loads(file.read_text()) == {"mcpServers": {"shop": {"command": "shop"}}, "theme": "dark"}
