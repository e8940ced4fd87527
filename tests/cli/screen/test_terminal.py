"""The screen at a real pseudo-terminal, with a host in another process: what is shown, decided, edited, left behind."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pexpect
import pytest

from antiphon.errors import Rejected
from tests.cli.program import at_terminal, ended
from tests.cli.waiting import Waiting, editor
from tests.host.asks import request

HOSTILE = "\x1b]0;owned\x07\x1b]52;c;ZXZpbA==\x07\x1b[2Jred \u202eevil [bold]tag[/bold]"


async def test_a_person_edits_at_a_terminal(desk: Waiting, tmp_path: Path):
    """Shown inertly; edited in the person's own editor while the screen stands aside; left as it was found."""
    asked = await desk.ask(request(HOSTILE))
    program = editor(tmp_path, 'text = text.replace("red", "blue")')

    def review() -> tuple[str, int | None]:
        child = at_terminal("review", "screen", "--store", desk.place, "--language", "en", EDITOR=program, VISUAL="")
        child.expect_exact("[bold]tag[/bold]")
        output = child.before
        child.send("e")
        child.expect_exact("Approve the edited request")
        output += child.before
        _press(child, "a", "The edited request was approved.")
        child.send("q")
        code = ended(child)
        return output + child.before, code

    output, code = await asyncio.to_thread(review)
    assert code == 0
    assert (await asked).text == "one"
    assert "blue" in output
    for evil in ("\x1b]0;", "\x1b]52;", "\x1b[2Jred", "\u202e"):
        assert evil not in output
    assert output.count("\x1b[?1049h") == 2
    assert output.rindex("\x1b[?1049l") > output.rindex("\x1b[?1049h")
    assert "\x1b[?25h" in output


async def test_a_person_denies_at_a_terminal(desk: Waiting):
    """Rung for what arrives, in Chinese by the locale; Ctrl-C leaves."""
    child = await asyncio.to_thread(at_terminal, "review", "screen", "--store", desk.place, LC_ALL="zh_CN.UTF-8")
    await asyncio.to_thread(child.expect_exact, "没有等待的请求")
    asked = await desk.ask()

    def review() -> int | None:
        child.expect_exact("\x07")
        child.expect_exact("Describe a sweater")
        _press(child, "d", "已拒绝")
        child.send("\x03")
        return ended(child)

    assert await asyncio.to_thread(review) == 0
    with pytest.raises(Rejected):
        await asked


def _press(child: pexpect.spawn, key: str, until: str) -> None:
    """Press a key until it counts: nothing is decided before it has been seen."""
    for _ in range(120):
        child.send(key)
        if child.expect_exact([until, pexpect.TIMEOUT], timeout=0.25) == 0:
            return
    raise AssertionError(until)
