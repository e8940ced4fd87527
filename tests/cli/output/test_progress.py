from __future__ import annotations

import asyncio
import io

import pytest

from antiphon.cli.output import progress as telling
from antiphon.cli.output.progress import Teller


class Terminal(io.StringIO):
    """A stream that takes itself for a terminal."""

    def isatty(self) -> bool:
        return True


def test_what_is_said_is_inert():
    """It may quote a server."""
    stream = io.StringIO()
    Teller(stream).say("a\x1b[31m")
    assert stream.getvalue() == "a⟦U+001B⟧[31m\n"


def test_nothing_is_said_while_a_person_is_asked():
    """It follows afterwards, in order."""
    stream = io.StringIO()
    teller = Teller(stream)
    with teller.held():
        with teller.held():
            teller.say("one")
        teller.say("two")
        assert stream.getvalue() == ""
    assert stream.getvalue() == "one\ntwo\n"


def test_a_flood_meanwhile_is_cut(monkeypatch: pytest.MonkeyPatch):
    """What was dropped is counted."""
    monkeypatch.setattr(telling, "_MOST_HELD", 1)
    stream = io.StringIO()
    teller = Teller(stream)
    with teller.held():
        for word in ("one", "two", "three"):
            teller.say(word)
    assert stream.getvalue() == "one\n(2 more lines were dropped)\n"


def test_styles_are_for_terminals_that_want_them(monkeypatch: pytest.MonkeyPatch):
    """NO_COLOR is respected, a pipe has none."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    coloured, plain, piped = Terminal(), Terminal(), io.StringIO()
    Teller(coloured).say("hello [b]", "red")
    Teller(piped).say("hello [b]", "red")
    monkeypatch.setenv("NO_COLOR", "1")
    Teller(plain).say("hello [b]", "red")
    assert coloured.getvalue() == "\x1b[31mhello [b]\x1b[0m\n"
    assert plain.getvalue() == piped.getvalue() == "hello [b]\n"


def test_a_bar_shows_progress_on_a_terminal():
    """And is taken away before the next line; its text is inert."""
    stream = Terminal()
    teller = Teller(stream)
    teller.progress(1, 3, "half\x1b]0;way")
    assert "half⟦U+001B⟧]0;way" in stream.getvalue()
    assert "1/3" in stream.getvalue()
    teller.say("line")
    assert stream.getvalue().endswith("line\n")


def test_a_pipe_has_no_bar():
    """Nor has a terminal at which a person is asked."""
    piped, terminal = io.StringIO(), Terminal()
    Teller(piped).progress(1, 3, "x")
    asking = Teller(terminal)
    with asking.held():
        asking.progress(1, 3, "x")
    assert piped.getvalue() == terminal.getvalue() == ""


def test_a_number_that_no_fraction_can_hold_is_shown_as_a_large_one():
    """JSON has whole numbers of any length."""
    stream = Terminal()
    Teller(stream).progress(-(10**400), 10**400)
    assert "0/1e+99" in stream.getvalue()


async def test_a_call_that_takes_its_time_says_how_long(monkeypatch: pytest.MonkeyPatch):
    """Every second, on a terminal, beside what the server says of it; it is taken away in the end."""
    monkeypatch.setattr(telling, "_TICK", 0.001)
    stream, told = Terminal(), asyncio.Event()
    teller = Teller(stream)
    async with teller.waiting("describe\x1b"):
        monkeypatch.setattr(stream, "flush", told.set)
        await told.wait()
        assert "0 s" in stream.getvalue()
        assert "describe⟦U+001B⟧" in stream.getvalue()
        teller.progress(1, 4, "half")
        assert "1/4" in stream.getvalue()
    ended = stream.getvalue()
    teller.say("line")
    assert stream.getvalue() == f"{ended}line\n"


async def test_a_pipe_is_not_told_how_long():
    """Nor a terminal at which a person is asked."""
    piped, terminal = io.StringIO(), Terminal()
    asking = Teller(terminal)
    with asking.held():
        async with Teller(piped).waiting("x"), asking.waiting("x"):
            asking._draw()
    assert piped.getvalue() == terminal.getvalue() == ""
