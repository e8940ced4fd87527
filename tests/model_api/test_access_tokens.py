"""Tokens: long, kept as digests only, and worth nothing once revoked."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from antiphon.host import Host
from antiphon.model_api import model_calls
from antiphon.model_api.model_calls import PeerProcess, Tokens, other_peers
from tests.model_api.served import door, who

HEAD = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
LINE = "   0: 0100007F:{theirs:04X} 0100007F:{ours:04X} 01 00000000:00000000 00:00000000 00000000 1000 0 {inode} 1"


async def test_token_is_found_until_it_is_revoked():
    """Each process has its own; the text is kept nowhere."""
    tokens = Tokens()
    text, token = tokens.issue(who)
    other, _ = tokens.issue(who)
    assert tokens.find(text.encode()) is token
    assert len(text.removeprefix("sk-antiphon-")) * 6 >= 256
    assert text not in repr(vars(tokens)) + repr(vars(token))
    tokens.revoke(token)
    tokens.revoke(token)
    assert tokens.find(text.encode()) is None
    assert tokens.find(other.encode()) is not None
    tokens.close()
    assert tokens.find(other.encode()) is None


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    """Make a machine: 10 started 11, 12 left to init but not its session, 20 is somebody else's."""
    (tmp_path / "net").mkdir()
    (tmp_path / "net" / "tcp").write_text("\n".join([HEAD, LINE.format(theirs=5000, ours=80, inode=777)]) + "\n")
    for pid, parent, session in ((10, 1, 10), (11, 10, 11), (12, 1, 10), (20, 1, 20)):
        (tmp_path / str(pid) / "fd").mkdir(parents=True)
        (tmp_path / str(pid) / "stat").write_text(f"{pid} (a name) with ) S {parent} {pid} {session} 0 -1")
    return tmp_path


@pytest.mark.parametrize(("holder", "is_other"), [(10, False), (11, False), (12, False), (20, True)])
def test_process_and_what_it_has_started_are_told_from_others(proc: Path, holder: int, *, is_other: bool):
    """A child, and one that was left behind in its session, belong to it; nobody else does."""
    (proc / str(holder) / "fd" / "7").symlink_to("socket:[777]")
    assert (other_peers([5000], 80, 10, proc=proc) == {5000}) is is_other


def test_what_is_not_known_is_not_held_against_anybody(proc: Path):
    """Without the tables, the token alone counts."""
    assert other_peers([5000], 80, 10, proc=proc / "none") == set()


def test_a_connection_whose_other_end_is_gone_is_refused(proc: Path, monkeypatch):
    """The process that sent the request may have been any; also where another one hides its files."""
    (proc / "10" / "fd" / "7").symlink_to("socket:[777]")
    assert other_peers([5000, 5001], 80, 10, proc=proc) == {5001}
    (proc / "10" / "fd").rename(proc / "10" / "hidden")
    listed = Path.iterdir

    def hide(path: Path):
        if path == proc / "10" / "fd":
            raise PermissionError
        return listed(path)

    monkeypatch.setattr(Path, "iterdir", hide)
    assert other_peers([5000, 5001], 80, 10, proc=proc) == {5001}


@pytest.mark.parametrize("folder", ["fd", "fd/7"])
def test_process_that_lets_nobody_look_counts_as_unknown(proc: Path, monkeypatch, folder: str):
    """As a host that a server runs: it protects its memory, so nobody sees whether the connection is its."""
    (proc / "11" / "fd" / "7").symlink_to("socket:[777]")
    closed, listed, read = proc / "11" / folder, Path.iterdir, Path.readlink

    def checked(path: Path) -> Path:
        if path == closed:
            raise PermissionError
        return path

    monkeypatch.setattr(Path, "iterdir", lambda path: listed(checked(path)))
    monkeypatch.setattr(Path, "readlink", lambda path: read(checked(path)))
    assert other_peers([5000], 80, 10, proc=proc) == set()


async def test_process_is_looked_for_once_in_a_connection(monkeypatch):
    """Reading the table of processes takes milliseconds: a connection belongs to the same process for its life."""
    looked: list[int] = []

    def other(ports, ours, pid):
        looked.append(pid)
        return set()

    monkeypatch.setattr(model_calls, "other_peers", other)
    async with door(Host("echo", review="never")) as here, here.plain() as client:
        here.equipment.started(10)
        for _ in range(3):
            assert (await client.get("/v1/models")).status_code == 200
    assert looked == [10]


async def test_connections_that_come_together_are_looked_for_together(monkeypatch):
    """A thousand of them cost no more than two."""
    looked: list[list[int]] = []

    def other(ports, ours, pid):
        looked.append(ports)
        return {3}

    monkeypatch.setattr(model_calls, "other_peers", other)
    peer = PeerProcess()
    found = await asyncio.gather(*(peer.is_other(port, 80, 10) for port in (1, 2, 3, 3)))
    assert (found, looked) == ([False, False, True, True], [[1, 2, 3]])
    assert await peer.is_other(4, 80, 10) is False


async def test_a_look_that_fails_is_told_and_the_next_one_is_made(monkeypatch):
    """Nobody waits for ever, and nobody is let in meanwhile."""

    def other(ports, ours, pid):
        raise RuntimeError("can't start new thread")

    peer = PeerProcess()
    monkeypatch.setattr(model_calls, "other_peers", other)
    async with asyncio.timeout(30):
        with pytest.raises(RuntimeError, match="new thread"):
            await peer.is_other(5000, 80, 10)
        monkeypatch.setattr(model_calls, "other_peers", lambda *_: set())
        assert not await peer.is_other(5000, 80, 10)


PROGRAM = """
import asyncio, ctypes, sys
from antiphon.host import Host
from antiphon.model_api import serve_model_api
from tests.host.asks import origin

def dumpable():
    return ctypes.CDLL(None).prctl(3, 0, 0, 0, 0) if sys.platform == "linux" else None

async def main():
    host = Host("echo", reviewer=None, model_api=serve_model_api)
    before = dumpable()
    equipment = await host.equip(origin)
    print(before, dumpable())
    equipment.ended()
    await host.aclose()

asyncio.run(main())
"""


def test_nobody_of_the_same_user_can_read_the_memory_of_a_host():
    """From the first server on that gets a token: Linux then gives its memory and environment to root alone."""
    root = Path(__file__).parents[2]
    line = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(line, capture_output=True, text=True, cwd=root, check=True, timeout=60)
    assert said.stdout.split() == (["1", "0"] if sys.platform == "linux" else ["None", "None"])
