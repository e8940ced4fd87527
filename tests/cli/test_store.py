from __future__ import annotations

import asyncio
import os
import stat
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from sqlalchemy.exc import DBAPIError

from antiphon.cli.output.formats import Failed
from antiphon.cli.store import StoreOptions, open_chosen_store
from antiphon.errors import ConfigError
from antiphon.host.store.base import Change
from antiphon.host.store.chain import Record
from antiphon.sql.database_store import StoreStalled
from tests.cli.program import environment


async def test_the_usual_store_is_in_the_state_folder(cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """For this user only."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with open_chosen_store(StoreOptions()) as store:
        assert await store.reviews() == []
    file = tmp_path / "antiphon" / "host.db"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


async def test_the_configured_store_is_opened(cli, tmp_path: Path):
    """Unless another one is named."""
    file, other = tmp_path / "own.toml", tmp_path / "other.db"
    file.write_text('[defaults]\nstore = "mine.db"\n', encoding="utf-8")
    async with open_chosen_store(StoreOptions(config=file)) as store:
        await store.reviews()
    assert (tmp_path / "mine.db").exists()
    async with open_chosen_store(StoreOptions(store=f"sqlite:///{other}", config=file), make=True) as store:
        await store.reviews()
    assert other.exists()


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("none.db", "no such store"),
        ("sqlite:///none.db", "no such store"),
        ("memory", "its own process"),
        ("mysql://x/y", "not mysql"),
    ],
)
async def test_what_cannot_be_opened_is_a_mistake(place: str, message: str, cli):
    """The message says why."""
    with pytest.raises(ConfigError, match=message):
        async with open_chosen_store(StoreOptions(store=place)):
            pass


async def test_a_password_is_not_repeated():
    """Whoever reads the message may be somebody else."""
    with pytest.raises(Failed, match="cannot be read") as failed:
        async with open_chosen_store(StoreOptions(store="postgresql://ada:geheim@127.0.0.1:1/x")):
            raise DBAPIError("SELECT", None, Exception("no"))
    assert "geheim" not in str(failed.value)


async def test_a_store_that_breaks_is_a_failure(tmp_path: Path):
    """In one line, without the statement."""
    (tmp_path / "x.db").write_bytes(b"no database" * 100)
    with pytest.raises(Failed, match=r"x\.db: cannot be read: file is not a database$"):
        async with open_chosen_store(StoreOptions(store=str(tmp_path / "x.db"))) as store:
            await store.reviews()


async def test_a_store_that_does_not_answer_is_a_failure(tmp_path: Path):
    """It is named, with how long it was waited for."""
    with pytest.raises(Failed, match=r"x\.db: the store did not answer within 6 s$"):
        async with open_chosen_store(StoreOptions(store=str(tmp_path / "x.db")), make=True):
            raise StoreStalled("the store did not answer within 6 s")


def test_a_server_that_cannot_be_reached_is_named(cli):
    """Without its password, and with why."""
    done = cli("audit", "--store", "postgresql://me:hunter22@127.0.0.1:1/x")
    assert done.code == 1
    assert "postgresql://me:***@127.0.0.1:1/x: cannot be reached: " in done.err
    assert "hunter22" not in done.err


PROGRAM = """
import contextlib, io, os, sys
from antiphon.cli.main import main

def run(store):
    return [main([*command.split(","), "--store", store]) for command in sys.argv[3:]]

with contextlib.redirect_stdout(io.StringIO()):
    # Everything is imported now: whoever is not root may not be able to read the interpreter's own files.
    run(sys.argv[1])
if os.geteuid() == 0:
    os.setuid(65534)
print(run(sys.argv[2]))
"""


def read(command: list[str], folder: str) -> subprocess.CompletedProcess[str]:
    """Run commands in a folder."""
    return subprocess.run(
        command, capture_output=True, check=False, text=True, timeout=60, cwd=folder, env=environment()
    )


async def test_what_only_reads_needs_no_store_that_can_be_written():
    """A copy on a disc that is mounted for reading is listed, checked and summed up."""
    with TemporaryDirectory() as folder:
        places = [Path(folder, name) for name in ("own", "read-only")]
        for place in places:
            async with open_chosen_store(StoreOptions(store=str(place / "host.db")), make=True) as store:
                record = Record(at=1.0, ask="1", identity="command:x", method="tools/call", step="received")
                await store.commit(Change(records=(record,)))
        for path in (places[1] / "host.db", places[1], Path(folder)):
            path.chmod({".db": 0o400}.get(path.suffix, 0o500))
            if os.geteuid() == 0:
                os.chown(path, 65534, 65534)
        stores = [str(place / "host.db") for place in places]
        commands = ["review,list", "audit,list", "audit,verify", "audit,export", "audit,spend"]
        command = [sys.executable, "-c", PROGRAM, *stores, *commands]
        done = await asyncio.to_thread(read, command, folder)
        for path in (Path(folder), places[1]):
            path.chmod(0o700)
        assert done.stdout.splitlines()[-1] == "[0, 0, 0, 0, 0]", done.stderr
        assert "command:x" in done.stdout
