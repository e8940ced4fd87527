"""A program that hides a process: ``hiding.py NOTE [WORDS]``. Its number is in the file NOTE before WORDS are printed.

What it hides is out of its session, its group and its environment, and has no parent. The program itself reads its
input to the end, and then ends with the code 7. It imports nothing of ours: it runs as ``python -IS``.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path


def hide(note: Path) -> None:
    """Leave a process behind, and return once it has noted its number."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            os.closerange(0, 3)
            os.execve(sys.executable, [sys.executable, "-IS", __file__, str(note), "--hidden"], {})
        os._exit(0)
    while not (note.exists() and note.stat().st_size):
        time.sleep(0.01)


if __name__ == "__main__":
    path, words = Path(sys.argv[1]), sys.argv[2:]
    if words == ["--hidden"]:
        path.write_text(f"{os.getpid()}\n", encoding="ascii")
        time.sleep(600)
    else:
        hide(path)
        if words:
            print(*words, flush=True)
        sys.stdin.read()
        raise SystemExit(7)
