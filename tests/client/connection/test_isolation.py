"""A command that is started apart: its home, its network, and what is said of them."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from antiphon.check.checkup import check_server
from antiphon.client.connection import isolation
from antiphon.client.connection.isolation import ALONE, NetworkNamespace, describe_network, isolate_command
from antiphon.client.connection.targets import Command
from tests.check.fault_search import start_faulty


def test_a_library_of_the_command_is_not_loaded_before_it_is_alone(alone: NetworkNamespace):
    """A variable such as LD_PRELOAD would act on the program that closes the network, so it is renamed until then."""
    moved = alone.move_command(Command(argv=[sys.executable], env={"LD_PRELOAD": "/x.so", "PYTHONHOME": "/x"}))
    assert moved.env is not None
    assert {"ANTIPHON_SET_LD_PRELOAD", "ANTIPHON_SET_PYTHONHOME"} <= moved.env.keys()
    assert [name for name in moved.env if not name.startswith("ANTIPHON_SET_")] == []


@pytest.mark.parametrize("folder", ["plain", "a:b"])
def test_a_program_is_found_as_without_isolation_and_never_started_outside(folder: str, tmp_path: Path):
    """Also in a folder of the path that is relative to a folder whose name separates paths elsewhere."""
    place = tmp_path / folder
    (place / "bin").mkdir(parents=True)
    shown = "import os; print(os.readlink('/proc/self/ns/net'))"
    (place / "bin" / "here").write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{shown}"\n')
    (place / "bin" / "here").chmod(0o755)
    with isolate_command(Command(argv=["here"], env={"PATH": "bin"}, cwd=str(place)), NetworkNamespace()) as housed:
        done = subprocess.run(housed.argv, env=housed.env, cwd=place, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("net:")
    assert done.stdout.strip() != str(Path("/proc/self/ns/net").readlink())


@pytest.mark.parametrize(
    ("beginning", "why"), [(None, "No such file"), ("", "Exec format error"), ("#!/nowhere/x", "No such file")]
)
async def test_a_program_that_cannot_run_is_no_server_that_is_silent(beginning: str | None, why: str, tmp_path: Path):
    """It could not be checked; nothing is said of a server."""
    program = tmp_path / "server"
    if beginning is not None:
        program.write_text(f"{beginning}\ntrue\n")
        program.chmod(0o755)
    report = await check_server([str(program)], timeout=30.0)
    assert why in report.problem
    assert report.findings == []


def test_a_program_can_be_isolated_beside_many_open_files():
    """A descriptor with a high number is as good as any other."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)
    with Path(os.devnull).open() as file, ExitStack() as stack:
        stack.callback(resource.setrlimit, resource.RLIMIT_NOFILE, allowed)
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed[1], allowed[1]))
        for _ in range(1_100):
            stack.callback(os.close, os.dup(file.fileno()))
        command = Command(argv=["readlink", "/proc/self/ns/net"], env=dict(os.environ))
        housed = stack.enter_context(isolate_command(command, NetworkNamespace()))
        done = subprocess.run(housed.argv, env=housed.env, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("net:")
    assert done.stdout.strip() != str(Path("/proc/self/ns/net").readlink())


async def test_where_no_program_can_join_a_network_a_server_has_that_of_the_machine(monkeypatch: pytest.MonkeyPatch):
    """That one can be made says nothing about whether it can be entered."""
    unable = Path(isolation.__file__).with_name("network_holder.py").read_text().replace('"setns"', '"unshare"')
    refusing = [sys.executable, "-ISc", unable.replace("os.open(", "(-1, ")]
    monkeypatch.setattr(isolation, "_PROGRAM", refusing)
    isolation.find_obstacle.cache_clear()
    assert describe_network(["server"], is_allowed=False).startswith("that of this machine, since")
    isolation.find_obstacle.cache_clear()


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
    assert report.network == "none but its own loopback, in which it looked for something in vain"
    report = await check_server(start_faulty("needs a network"), timeout=30.0, network=True)
    assert (report.network, [one.rule.id for one in report.errors]) == ("that of this machine", ["handshake.none"])


def test_a_home_is_deleted_with_all_that_is_in_it():
    """What a program has written there does not stay."""
    with isolate_command(Command(argv=["x"], env={"A": "b"})) as housed:
        home = Path(housed.env["HOME"])
        (home / "file").write_text("x")
        assert housed.env["A"] == "b"
        assert housed.env["TMPDIR"] == str(home)
    assert not home.exists()


async def test_a_server_that_answers_though_it_misses_the_network_is_checked_as_any_other():
    """That it looked for something is said beside; it is no reason that it could not be checked."""
    code = """
import contextlib, socket
from tests.check.faults import main
with contextlib.suppress(OSError):
    socket.create_connection(("192.0.2.1", 443), timeout=1.0)
main("no fault")
"""
    command = {"command": sys.executable, "args": ["-c", code], "cwd": str(Path(__file__).parents[3])}
    report = await check_server(command, timeout=30.0, revision="2025-11-25")
    assert (report.findings, report.problem) == ([], "")
    assert report.network.endswith("in which it looked for something in vain")
