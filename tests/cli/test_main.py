from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from typing import IO, Any

import pytest

from antiphon import __version__
from antiphon.cli.main import main
from antiphon.cli.root import COMMANDS
from tests.cli.conftest import Cli
from tests.cli.program import SHOP, at_terminal, ended, environment, in_process


def test_the_version_loads_nothing_heavy():
    """It is asked for by scripts."""
    program = "import sys; from antiphon.cli.main import main; main(['--version']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    version, _, loaded = done.stdout.partition("\n")
    assert version == f"antiphon {__version__}"
    assert set(loaded.split()) & {"click", "rich", "msgspec", "asyncio"} == set()


def _run(*words: str, **streams: IO[str] | int) -> tuple[int, str, str]:
    """Run the program with output that is buffered, as it is for users."""
    buffered = {name: text for name, text in environment().items() if name != "PYTHONUNBUFFERED"}
    given: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **streams}
    done = subprocess.run([sys.executable, "-m", "antiphon", *words], env=buffered, text=True, check=False, **given)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize(
    "words", [("--version",), ("-V", "--json"), ("--help",), ("models",), ("models", "--json"), ("doctor",)]
)
def test_a_disk_that_is_full_is_told_in_a_line(words: tuple[str, ...]):
    """Whatever is printed: Python's own message at its end was a traceback, and its exit code 120."""
    with pathlib.Path("/dev/full").open("w", encoding="utf-8") as full:
        code, _, said = _run(*words, stdout=full)
    assert (code, said) == (1, "antiphon: standard output: No space left on device\n")


def test_an_error_that_cannot_be_written_keeps_its_exit_code():
    """A script still learns that the usage was wrong."""
    with pathlib.Path("/dev/full").open("w", encoding="utf-8") as full:
        code, *_ = _run("models", "explain", stderr=full)
    assert code == 2


@pytest.mark.parametrize(
    "words",
    [("--version",), ("models",), ("read", SHOP, "shop://logo"), ("check", "--yes", "--revision=2025-11-25", SHOP)],
)
def test_a_reader_that_has_gone_is_no_failure(words: tuple[str, ...]):
    """An exit code of 1 says of a check that the server breaks a rule."""
    reader, writer = os.pipe()
    os.close(reader)
    code, _, said = _run(*words, stdout=writer)
    os.close(writer)
    assert (code, said) == (0, "")


def test_the_version_is_known_to_the_command_tree_as_well(cli: Cli):
    """Beside other options."""
    done = cli("--version", "tools")
    assert (done.code, done.out) == (0, f"antiphon {__version__}\n")


@pytest.mark.parametrize("words", [("--version", "--json"), ("--json", "-V")])
def test_the_version_is_told_to_programs(words: tuple[str, ...], cli: Cli):
    """With all that decides how this installation behaves."""
    [told] = cli(*words).objects
    assert told["antiphon"] == __version__
    assert set(told) == {"antiphon", "python", "platform", "extras", "revisions"}
    assert {"host", "auth"} <= set(told["extras"])
    assert told["revisions"][-1] == "2026-07-28"


def test_json_alone_is_for_a_command(cli: Cli):
    """It is refused before the command's name."""
    done = cli("--json", "tools")
    assert done.code == 2
    assert "No such option" in done.err


def test_the_help_lists_every_command(cli: Cli):
    """In one screen."""
    done = cli("--help")
    assert done.code == 0
    assert all(f"\n  {name} " in done.out for name in COMMANDS)
    assert "..." not in done.out.partition("Commands:")[2]


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(name: str, cli: Cli):
    """With its options."""
    done = cli(name, "--help")
    assert done.code == 0
    assert f"antiphon {name}" in done.out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nonsense"], "No such command 'nonsense'"),
        (["tools"], "Missing argument 'TARGET'"),
        (["tools", "x", "--nonsense"], "No such option"),
        (["tools", "x", "--timeout", "soon"], "'soon' is not a valid float"),
        (["demo", "--products", "0"], "0 is not in the range"),
        (["audit", "show", "99999999999999999999"], "is not in the range"),
        (["review", "list", "--limit", "99999999999999999999"], "is not in the range"),
        (["review", "approve", "a", "--scope", "always", "--uses", "99999999999999999999"], "is not in the range"),
    ],
)
def test_wrong_usage_is_2(arguments: list[str], message: str, cli: Cli):
    """And says what is wrong."""
    done = cli(*arguments)
    assert done.code == 2
    assert message in done.err


def test_a_mistake_of_ours_is_no_traceback(cli: Cli, monkeypatch: pytest.MonkeyPatch):
    """Unless it was asked for."""
    monkeypatch.setattr("antiphon.cli.open_client.resolve_target", lambda *_: 1 / 0)
    done = cli("tools", "x")
    assert done.code == 1
    assert done.err == "antiphon: unexpected ZeroDivisionError: division by zero (ANTIPHON_DEBUG=1 shows where)\n"
    monkeypatch.setenv("ANTIPHON_DEBUG", "1")
    with pytest.raises(ZeroDivisionError):
        main(["tools", "x"])


def test_ctrl_c_ends_quietly_and_takes_the_server_along(tmp_path):
    """130, no message, no process left behind."""
    started = tmp_path / "started"
    child = at_terminal("call", SHOP, "linger", f"started={started}", "--messages")
    child.expect("→ tools/call")
    while not (started.exists() and started.read_text(encoding="ascii")):
        child.expect([r".", r"\Z"])
    child.sendintr()
    assert ended(child) == 130
    assert "Traceback" not in (child.before or "")
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text(encoding="ascii")), 0)


def test_it_is_a_module_too():
    """``python -m antiphon`` is the same command."""
    done = in_process("--version")
    assert (done.code, done.out) == (0, f"antiphon {__version__}\n")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_no_failure(closed: str):
    """A supervisor may start programs without them; what is opened later must not get their numbers."""
    line = f'exec "$0" -m antiphon tools "$1" {closed}'
    done = subprocess.run(["/bin/sh", "-c", line, sys.executable, SHOP], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert bool(done.stdout) == (">&-" not in closed.replace("2>&-", ""))
