"""The person's editor, as a child in the foreground."""

from __future__ import annotations

import asyncio
import shlex
import sys
from pathlib import Path

import pytest

from antiphon.host.terminal.editor import edit, find_editor
from tests.host.terminal.screenful import screenful


def editor(tmp_path: Path, body: str) -> str:
    """Write an editor; in its body, ``path`` is the file and ``note`` a file of the test's."""
    program = tmp_path / "my editor.py"
    note = f"pathlib.Path({str(tmp_path / 'note')!r})"
    program.write_text(f"import pathlib, sys, time\npath, note = pathlib.Path(sys.argv[1]), {note}\n{body}")
    return shlex.join([sys.executable, str(program)])


def noted(tmp_path: Path) -> tuple[bool, list[str]]:
    """Return whether the file the editor got still exists, and the facts it noted about it."""
    path, *facts = (tmp_path / "note").read_text().split("|")
    return Path(path).exists(), facts


async def test_what_the_editor_leaves_is_returned(tmp_path: Path):
    """It sees the text in a private file, on the terminal."""
    facts = "f'{path}|{path.stat().st_mode & 0o777:o}|{path.parent.stat().st_mode & 0o777:o}|{sys.stdin.isatty()}'"
    command = editor(tmp_path, f"note.write_text({facts})\npath.write_text(path.read_text().upper())\n")
    with screenful() as person:
        assert await edit("héllo", command, person.path) == "HÉLLO"
    assert noted(tmp_path) == (False, ["600", "700", "True"])


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        ("sys.exit(3)", "exit code 3"),
        ("path.unlink()", "cannot be read"),
        ("path.write_bytes(b'\\xff')", "cannot be read"),
    ],
)
async def test_an_editor_that_fails_changes_nothing(tmp_path: Path, body: str, problem: str):
    """The message says what happened."""
    with screenful() as person, pytest.raises(ValueError, match=problem):
        await edit("text", editor(tmp_path, body), person.path)


@pytest.mark.parametrize("command", ["no-such-editor-anywhere", "unclosed 'quote"])
async def test_an_editor_that_is_none_is_named(command: str):
    """A misspelt $EDITOR is no crash."""
    with screenful() as person, pytest.raises(ValueError, match="cannot be started"):
        await edit("text", command, person.path)


async def test_cancelling_ends_the_editor(tmp_path: Path):
    """And leaves neither process nor file."""
    command = editor(tmp_path, "note.write_text(str(path))\nprint('READY', flush=True)\ntime.sleep(60)\n")
    with screenful() as person:
        task = asyncio.create_task(edit("text", command, person.path))
        await person.expect("READY")
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert noted(tmp_path) == (False, [])


def test_the_editor_is_the_persons_choice(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """$VISUAL, then $EDITOR, then one that is installed, else none."""
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("EDITOR", "ed")
    monkeypatch.setenv("VISUAL", "vim -n")
    assert find_editor() == "vim -n"
    monkeypatch.delenv("VISUAL")
    assert find_editor() == "ed"
    monkeypatch.delenv("EDITOR")
    assert find_editor() is None
    (tmp_path / "vi").touch(mode=0o755)
    assert find_editor() == "vi"
