"""A command that is started apart reaches nothing but itself, and is otherwise started as any other."""

from __future__ import annotations

import errno
import json
import os
import socket
import subprocess
import sys
from collections.abc import Generator
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.check.checkup import check_server
from antiphon.client.connection import isolation
from antiphon.client.connection.isolation import ALONE, NetworkNamespace, describe_network, isolate_command
from antiphon.client.connection.targets import Command
from antiphon.transports.stdio.client import child_environment
from tests.check.fault_search import start_faulty

TELL = (
    "import json, os, signal, sys\nprint(json.dumps([os.getuid(), os.getgid(), sys.argv, {**os.environ}, os.getcwd()]))"
)
LOOPBACK = """
import socket
with socket.create_server(("127.0.0.1", 0)) as server, socket.create_connection(server.getsockname()) as client:
    print(server.accept()[1] == client.getsockname())
"""
LEAVE = """
import ctypes, os, sys
tries = []
for pid in (sys.argv[1], "1"):
    for name in ("user", "net", "mnt"):
        try:
            tries.append(ctypes.CDLL(None).setns(os.open(f"/proc/{pid}/ns/{name}", os.O_RDONLY), 0))
        except OSError:
            tries.append(-1)
print(set(tries))
"""


@pytest.fixture
def alone() -> Generator[NetworkNamespace]:
    """A network without a way out."""
    with closing(NetworkNamespace()) as made:
        yield made


def run_alone(alone: NetworkNamespace, code: str, *words: str, **env: str) -> str:
    """Run Python code in the network as a command of a server would be; return what it has printed."""
    command = alone.move_command(Command(argv=[sys.executable, "-c", code, *words], env=env))
    done = subprocess.run(command.argv, env=command.env, capture_output=True, text=True, timeout=60, check=False)
    return done.stdout.strip() or done.stderr


def test_nothing_of_this_machine_or_the_network_is_reached(alone: NetworkNamespace):
    """A port that is open here is closed there, an address cannot be routed, and both are counted."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = server.getsockname()
        reach = f"import socket; socket.create_connection({place!r}, 5)"
        assert alone.count_attempts() == 0
        assert "refused" in run_alone(alone, reach)
    assert alone.count_attempts() == 1
    assert "unreachable" in run_alone(alone, "import socket; socket.create_connection(('192.0.2.1', 443), 5)")
    assert alone.count_attempts() == 2


def test_its_own_loopback_works(alone: NetworkNamespace):
    """Servers that speak to a process of their own over it go on working."""
    assert run_alone(alone, LOOPBACK) == "True"


def test_a_program_cannot_go_back_to_the_network_of_this_machine(alone: NetworkNamespace):
    """No namespace of ours can be entered, also by the superuser."""
    assert run_alone(alone, LEAVE, str(os.getpid())) == "{-1}"


def test_a_program_is_started_as_it_would_be_without_isolation(alone: NetworkNamespace):
    """User, group, words, folder and all variables are the same."""
    env = {"NAME": "a=b\n", "LC_ALL": "C.UTF-8", "PYTHONPATH": "nowhere"}
    user, group, words, variables, folder = json.loads(run_alone(alone, TELL, "--x", "", **env))
    assert (user, group, words, folder) == (os.getuid(), os.getgid(), ["-c", "--x", ""], str(Path.cwd()))
    assert variables == child_environment(env)


def test_a_library_of_the_command_is_not_loaded_before_it_is_alone(alone: NetworkNamespace):
    """A variable such as LD_PRELOAD would act on the program that closes the network, so it is renamed until then."""
    moved = alone.move_command(Command(argv=[sys.executable], env={"LD_PRELOAD": "/x.so", "PYTHONHOME": "/x"}))
    assert {name for name in moved.env or {} if not name.startswith("ANTIPHON_SET_")} == set()


def test_a_program_that_is_not_there_is_left_to_whoever_starts_it(alone: NetworkNamespace, tmp_path: Path):
    """The error names it then; one that is found through a relative path is found as ever."""
    missing = Command(argv=["antiphon-no-such-program"])
    assert alone.move_command(missing) is missing
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "here").write_text("#!/bin/sh\n")
    (tmp_path / "bin" / "here").chmod(0o755)
    for argv, env in ((["bin/here"], {}), (["here"], {"PATH": "bin"})):
        found = Command(argv=argv, env=env, cwd=str(tmp_path))
        assert list(alone.move_command(found).argv[-1:]) == argv


def test_a_program_that_ends_the_holder_gains_nothing(alone: NetworkNamespace):
    """Whatever is started then does not start at all, and nothing is raised."""
    assert run_alone(alone, f"import os; os.kill({alone._holder.pid}, 9)") == ""
    assert "cannot be started without a network" in run_alone(alone, LOOPBACK)
    assert alone.count_attempts() == 0


def test_a_system_that_forbids_it_says_so_and_nothing_is_left():
    """Where no further namespace may be made, the program ends with all that could hold its output open."""
    script = 'echo 0 > /proc/sys/user/max_user_namespaces; exec "$@"'
    words = ["unshare", "--user", "--map-root-user", "sh", "-c", script, "sh", *isolation._PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout.strip() == os.strerror(errno.ENOSPC)


@pytest.mark.parametrize("argv", [["npx", "-y", "x@1.0.0"], ["uvx", "x"], ["pipx", "run", "x"], ["docker", "run", "x"]])
def test_what_downloads_itself_has_the_network(argv: list[str]):
    """It could not start without; that is said."""
    assert "may download" in describe_network(argv, is_allowed=False)
    assert describe_network(argv, is_allowed=True) == "that of this machine"


def test_any_other_program_has_none():
    """Nobody has to ask for that."""
    assert describe_network([sys.executable, "server.py"], is_allowed=False) == ALONE


async def test_where_the_system_forbids_it_a_server_has_the_network(monkeypatch: pytest.MonkeyPatch):
    """The report says why, and the server is checked all the same."""
    refusing = [sys.executable, "-c", "print('Operation not permitted')"]
    monkeypatch.setattr(isolation, "_PROGRAM", refusing)
    isolation.find_obstacle.cache_clear()
    report = await check_server(start_faulty("no fault"), timeout=30.0, revision="2025-11-25")
    isolation.find_obstacle.cache_clear()
    assert report.network.startswith("that of this machine, since")
    assert report.network.endswith("Operation not permitted")
    assert (report.findings, report.problem) == ([], "")


async def test_a_server_without_a_network_is_told_from_one_that_is_broken():
    """What is wrong is not known then; the option that would show it is named."""
    report = await check_server(start_faulty("needs a network"), timeout=30.0)
    assert "--network" in report.problem
    assert report.network == "none but its own loopback, and it looked for another one"
    report = await check_server(start_faulty("needs a network"), timeout=30.0, network=True)
    assert (report.network, [one.rule.id for one in report.errors]) == ("that of this machine", ["handshake.none"])


def test_a_home_is_deleted_with_all_that_is_in_it():
    """What a program has written there does not stay."""
    with isolate_command(Command(argv=["x"], env={"A": "b"})) as (housed, _):
        home = Path(housed.env["HOME"])
        (home / "file").write_text("x")
        assert housed.env["A"] == "b"
        assert housed.env["TMPDIR"] == str(home)
    assert not home.exists()
