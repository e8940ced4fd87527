"""Runs commands in this process: fast, and what they leave open is noticed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from antiphon.cli.main import main
from tests.cli.program import SHOP, Done
from tests.cli.servers.shop import server

Cli = Callable[..., Done]


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run a command, in an empty folder and without configuration or terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.delenv("ANTIPHON_DEBUG", raising=False)
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: None)
    monkeypatch.chdir(tmp_path)

    return runner(capsys)


@pytest.fixture
def shop(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command as ``cli`` does, but reach the server ``SHOP`` in this process, which is faster."""
    monkeypatch.setattr("antiphon.cli.opening.resolve_target", lambda text, config: server if text == SHOP else text)
    return cli


def runner(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Make the function that runs a command."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run
