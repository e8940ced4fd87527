"""The terminal of a full-screen program is left alone: nothing is drawn on it, and no key is taken from it."""

from __future__ import annotations

import os
import sys
from importlib.util import find_spec
from pathlib import Path

import pexpect
import pytest

ROOT = Path(__file__).parents[3]


KINDS = ["curses", "initscr", "raw", *(["textual"] if find_spec("textual") else [])]


@pytest.mark.parametrize("kind", KINDS)
def test_a_full_screen_program_is_not_drawn_over(kind: str, tmp_path: Path):
    """The ask is refused with its remedy; as soon as the program has left the screen, the person is asked again."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]), "TERM": "xterm"}
    program = [str(Path(__file__).with_name("full_screen.py")), kind, str(tmp_path / "first")]
    child = pexpect.spawn(sys.executable, program, env=environment, encoding="utf-8", timeout=60, dimensions=(24, 100))
    child.delaybeforesend = None
    try:
        child.expect("decision> ")
        told = (tmp_path / "first").read_text()
        assert child.before.count("Describe a sweater") == 1
        child.sendline("a")
        child.expect(r"RESULT \[echo\] Describe a sweater")
    finally:
        child.close(force=True)
    assert told == (
        "nobody can be asked: a full-screen program uses this terminal; ask on a page (ask_on_page) or in a queue, "
        "or allow it by the policy"
    )
