"""A command that is started apart: its home, its network, and what is said of them."""

from __future__ import annotations

import sys
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
