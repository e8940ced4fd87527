"""Runs commands in this process: fast, and what they leave open is noticed."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from antiphon.cli.main import main
from antiphon.host.store import open_store
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record
from tests.cli.program import OWN, SHOP, Done
from tests.cli.servers.shop import server
from tests.cli.waiting import Waiting, waiting

Cli = Callable[..., Done]


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave nothing of the developer's own keys and configuration."""
    monkeypatch.setenv("XDG_CONFIG_HOME", os.devnull)
    for name in OWN:
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def cli(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Cli:
    """Run a command, in an empty folder and without configuration or terminal."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setattr("antiphon.host.terminal.reviewer.find_terminal", lambda: None)
    monkeypatch.chdir(tmp_path)

    return runner(capsys)


@pytest.fixture
def shop(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Run a command as ``cli`` does, but reach the server ``SHOP`` in this process, which is faster."""
    monkeypatch.setattr(
        "antiphon.cli.open_client.resolve_target", lambda text, config: server if text == SHOP else text
    )
    return cli


@pytest.fixture
async def desk(cli: Cli, tmp_path: Path) -> AsyncIterator[Waiting]:
    """Have a host whose questions wait in a store, and commands that find it."""
    async with waiting(tmp_path / "host.db", cli) as opened:
        yield opened


def runner(capsys: pytest.CaptureFixture[str]) -> Cli:
    """Make the function that runs a command."""

    def run(*arguments: str) -> Done:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Done(code, printed.out, printed.err)

    return run


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncIterator[Callable[..., object]]:
    """Keep records in a store."""
    store = open_store(tmp_path / "host.db")

    async def keep(*records: Record) -> None:
        await store.commit(Change(records=records))

    yield keep
    await store.aclose()


@pytest.fixture
def audit(cli: Cli, tmp_path: Path) -> Callable[..., Done]:
    """Run a command on that store, in a thread: it has a loop of its own."""

    def run(*words: str) -> Done:
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(cli, "audit", *words, "--store", str(tmp_path / "host.db")).result()

    return run
