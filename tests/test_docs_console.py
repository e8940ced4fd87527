"""What pages show of the command line is what it prints, also where a person types at a terminal.

A ``console`` block holds one command of ``antiphon`` or ``python`` after ``$`` and all that it prints; the files of the
page are there. What is typed stands behind a prompt, and ``…`` for anything that differs or does not matter.
"""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import NamedTuple

import pexpect
import pytest

from antiphon.host.terminal.console import PROMPT
from tests.cli.program import environment
from tests.test_docs import PAGES, blocks, title

TYPED = re.compile(rf"^(?P<prompt>{re.escape(PROMPT.strip())}|[^\n│]*\)>) (?P<keys>.*)$", re.MULTILINE)
CLOCK = re.compile(r"(?<=▪)\d+:\d\d(?=·)")
"""The time left of a review, at the head of it: what it shows depends on how soon the command is scheduled."""


class Session(NamedTuple):
    """A command on a page, with what is to be printed and typed."""

    page: Path
    line: int
    command: str
    text: str

    @property
    def pattern(self) -> str:
        """Return a regular expression for all words the command prints; a clock that runs down shows any time."""
        words = ".*?".join(re.escape(_words(part)) for part in self.text.split("…"))
        return CLOCK.sub(lambda _: r"\d+:\d\d", words)


def _words(text: str) -> str:
    """Leave out how words are laid out: lines break elsewhere where a path is longer."""
    return "".join(text.replace("┊", " ").split())


def sessions() -> list[Session]:
    """List the commands of all pages."""
    found: list[Session] = []
    for page in PAGES:
        for block in blocks(page):
            if block.language == "console":
                command, _, text = block.text.partition("\n")
                found.append(Session(page, block.line, command.removeprefix("$ "), text))
    return found


def played(session: Session, folder: Path) -> str:
    """Run a command in a folder, at a terminal, type what the page types, and return what was shown."""
    words = shlex.split(session.command)
    assert words[0] in {"antiphon", "python"}
    child = pexpect.spawn(
        str(Path(sys.executable).parent / words[0]),
        words[1:],
        cwd=str(folder),
        env=environment(NO_COLOR="1", TERM="dumb"),
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 100),
    )
    shown = ""
    try:
        for match in TYPED.finditer(session.text):
            child.expect_exact(match["prompt"])
            shown += child.before + child.after
            child.sendline(match["keys"])
        child.expect(pexpect.EOF)
    finally:
        child.close(force=True)
    return shown + child.before


@pytest.mark.parametrize("session", sessions(), ids=lambda one: f"{title(one.page)}:{one.line}")
def test_a_command_prints_what_the_page_shows(session: Session, tmp_path: Path):
    """What a reader types gives what the page says."""
    for block in blocks(session.page):
        if block.file and block.line < session.line:
            (tmp_path / block.file).write_text(block.text, encoding="utf-8")
    shown = played(session, tmp_path)
    assert re.fullmatch(session.pattern, _words(shown)), shown
