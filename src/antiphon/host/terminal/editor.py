"""Running the person's editor on a text, in the foreground of a terminal.

Owns the temporary file (0600, in a folder of its own, deleted afterwards) and the child process.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from collections.abc import Generator
from pathlib import Path

__all__ = ["edit", "find_editor"]

_FALLBACKS = ("nano", "vi")


def find_editor() -> str | None:
    """Return the command of the person's editor: ``$VISUAL``, ``$EDITOR``, or one that is installed."""
    chosen = os.environ.get("VISUAL") or os.environ.get("EDITOR")
    return chosen or next((name for name in _FALLBACKS if shutil.which(name)), None)


async def edit(text: str, editor: str, terminal: str | None) -> str:
    """Let the person edit a text, and return it.

    ``terminal``: its path; ``None`` for an editor that needs none, such as a script, on our own standard streams.
    Cancelling ends the editor and restores the terminal.

    Raises:
        ValueError: the editor cannot be started, failed, or left no text; the message says so.
    """
    with _text_file(text) as path, _terminal(terminal) as fd:
        try:
            command = [*shlex.split(editor), str(path)]
            process = await asyncio.create_subprocess_exec(*command, stdin=fd, stdout=fd, stderr=fd)
        except (OSError, ValueError) as error:
            raise ValueError(f"the editor cannot be started: {error}") from None
        try:
            code = await process.wait()
        except asyncio.CancelledError:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
            raise
        if code != 0:
            raise ValueError(f"the editor ended with exit code {code}")
        return _read(path)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"what the editor left cannot be read: {error}") from None


@contextlib.contextmanager
def _text_file(text: str) -> Generator[Path, None, None]:
    with tempfile.TemporaryDirectory(prefix="antiphon-") as folder:
        path = Path(folder) / "request.toml"
        path.touch(mode=0o600)
        path.write_text(text, encoding="utf-8")
        yield path


@contextlib.contextmanager
def _terminal(path: str | None) -> Generator[int | None, None, None]:
    """Open the terminal for a child, and restore its modes afterwards."""
    if path is None or path == "CON":
        yield None
        return
    import termios

    fd = os.open(path, os.O_RDWR | os.O_NOCTTY)
    try:
        modes = termios.tcgetattr(fd)
        try:
            yield fd
        finally:
            termios.tcsetattr(fd, termios.TCSADRAIN, modes)
    finally:
        os.close(fd)
