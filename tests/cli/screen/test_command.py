"""``antiphon review screen``: where it cannot be shown, and what it is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from antiphon.cli.failures import Failed
from antiphon.cli.screen import command
from antiphon.cli.screen.command import check_installed, check_terminal
from antiphon.errors import ConfigError
from tests.cli.conftest import Cli
from tests.cli.program import at_terminal, ended, in_process


def test_into_a_pipe_it_says_what_to_do():
    """The exit code is that of wrong usage."""
    done = in_process("review", "screen")
    assert (done.code, done.out) == (2, "")
    assert done.err == (
        "antiphon: the screen needs a terminal to be shown on; antiphon review list writes into a pipe\n"
    )


def test_a_terminal_without_a_cursor_is_none(monkeypatch):
    """Such as that of an editor."""
    for stream in (sys.stdin, sys.stdout, sys.stderr):
        monkeypatch.setattr(stream, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    check_terminal()
    monkeypatch.setenv("TERM", "dumb")
    with pytest.raises(ConfigError, match="'dumb' cannot show the screen"):
        check_terminal()


def test_what_is_missing_is_named_with_its_remedy(monkeypatch):
    """In one line."""
    check_installed()
    monkeypatch.setattr(command, "find_spec", lambda name: None if name == "textual" else name)
    with pytest.raises(Failed, match=r"the screen needs textual: pip install 'antiphon\[host\]'"):
        check_installed()


def test_a_store_that_cannot_be_is_said_before_anything_is_drawn():
    """As every command says it."""
    child = at_terminal("review", "screen", "--store", "memory")
    child.expect_exact("a store in memory is seen by its own process only")
    assert "\x1b[?1049h" not in child.before
    assert ended(child) == 2


def test_textual_is_imported_only_where_it_is_shown():
    """Other commands stay fast."""
    program = (
        "import sys, antiphon.cli.commands.review.command; print('textual' in sys.modules, 'starlette' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_help_names_the_options(cli: Cli):
    """And how to go on."""
    done = cli("review", "screen", "--help")
    assert done.code == 0
    assert "--language" in done.out
    assert "--no-bell" in done.out
