"""Lines from a terminal, without blocking."""

from __future__ import annotations

import asyncio
import contextlib
import shlex
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

from antiphon.host.review.review import NoReviewer
from antiphon.host.terminal.tty import EndOfInput, Tty
from tests.host.terminal.screenful import screenful


async def test_lines_come_one_by_one():
    """However many were typed at once."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        person.type("first\nsecöńd\n")
        assert [await terminal.read_line(), await terminal.read_line()] == ["first", "secöńd"]


async def test_the_loop_goes_on_while_nobody_types():
    """Reading waits; it does not block, and a cancelled read loses nothing."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        reading = asyncio.create_task(terminal.read_line())
        await asyncio.sleep(0)
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        person.type("later\n")
        assert await terminal.read_line() == "later"


async def test_ctrl_d_ends_the_input_and_only_that_once():
    """On an empty line it is an end; behind text it only sends the text."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        person.type("\x04")
        with pytest.raises(EndOfInput):
            await terminal.read_line()
        person.type("partly\x04 whole\n")
        assert await terminal.read_line() == "partly whole"


async def test_what_was_typed_before_can_be_forgotten():
    """Lines that were read already, and lines still in the terminal."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        person.type("one\ntwo\n")
        assert await terminal.read_line() == "one"
        person.type("three\n")
        await person.expect("three")
        terminal.discard_typed()
        person.type("four\n")
        assert await terminal.read_line() == "four"


async def test_a_line_the_terminal_may_have_cut_is_known():
    """Terminals cut lines of more than 4095 bytes without a word."""
    with screenful(echo=False) as person, contextlib.closing(Tty(person.path)) as terminal:
        person.type("short\n")
        await terminal.read_line()
        assert not terminal.line_was_cut
        person.type("x" * 4200 + "\n")
        assert len(await terminal.read_line()) == 4095
        assert terminal.line_was_cut


async def test_a_slow_terminal_slows_only_the_writer():
    """Much text waits for the reader; the loop goes on meanwhile."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        writing = asyncio.create_task(terminal.write("x" * 300_000 + "END"))
        await asyncio.sleep(0)
        assert not writing.done()
        await person.expect("END")
        await writing


async def test_a_terminal_that_cannot_be_opened_reaches_nobody(tmp_path: Path):
    """The pipeline is told, not the server."""
    with pytest.raises(NoReviewer, match="cannot be opened"):
        Tty(str(tmp_path / "none"))


async def test_the_width_is_known_even_where_it_is_not():
    """A pseudo-terminal of no stated size counts as 80 columns."""
    with screenful() as person, contextlib.closing(Tty(person.path)) as terminal:
        assert terminal.columns == 80


async def test_closing_twice_is_closing():
    """And a last word to a closed terminal is lost quietly."""
    with screenful() as person:
        terminal = Tty(person.path)
        terminal.close()
        terminal.close()
        terminal.write_now("too late")
        with contextlib.closing(Tty(person.path)) as another:
            await another.write("in time")
            assert "too late" not in await person.expect("in time")


FIND = "import os; from antiphon.host.terminal.tty import find_terminal; print('FOUND', find_terminal())"


def at_a_terminal(command: str) -> str:
    """Run a shell command at a terminal of its own and return what it found."""
    child = pexpect.spawn("/bin/sh", ["-c", f"{command}; :"], encoding="utf-8", timeout=60)
    child.expect(r"FOUND ([^\r\n]*)\r")
    found = child.match[1]
    child.close(force=True)
    return found


def test_a_terminal_is_found_behind_the_standard_streams():
    """Or, where those lead elsewhere, as the controlling one."""
    program = shlex.join([sys.executable, "-c", FIND])
    assert at_a_terminal(program).startswith("/dev/")
    assert at_a_terminal(f"echo | {program} 2>&1 | cat") == "/dev/tty"


def test_a_program_in_the_background_has_no_terminal():
    """Reading there would stop it."""
    program = shlex.join([sys.executable, "-c", FIND.replace("import os;", "import os; os.setpgid(0, 0);")])
    assert at_a_terminal(program) == "None"


def test_a_program_without_a_terminal_finds_none():
    """A service, a test machine, a pipe."""
    done = subprocess.run(
        [sys.executable, "-c", FIND],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        start_new_session=True,
        check=True,
    )
    assert done.stdout == "FOUND None\n"
