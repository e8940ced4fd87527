"""The command line as the tests run it: in this process, in one of its own, or at a pseudo-terminal."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pexpect

from antiphon.host.models.selection import USUAL

ROOT = Path(__file__).parent.parent.parent
SERVERS = Path(__file__).parent / "servers"
SHOP = str(SERVERS / "shop.py")
COMMAND = [sys.executable, "-m", "antiphon"]


OWN = {
    *("NO_COLOR", "FORCE_COLOR", "ANTIPHON_DEBUG"),
    *(name for usual in USUAL.values() for name in (*usual.keys, usual.base_url, usual.chosen)),
}
"""Variables of the developer that would change what a command does."""


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    err: str

    @property
    def objects(self) -> list[dict[str, Any]]:
        """What was printed as lines of JSON."""
        return [json.loads(line) for line in self.out.splitlines()]


def environment(**more: str) -> dict[str, str]:
    """Return an environment for a command: nothing of the developer's terminal, configuration or keys."""
    kept = {key: value for key, value in os.environ.items() if key not in OWN}
    return {**kept, "TERM": "xterm", "COLUMNS": "100", "XDG_CONFIG_HOME": os.devnull, **more}


def in_process(*arguments: str, cwd: Path | None = None, env: Mapping[str, str] | None = None, stdin: str = "") -> Done:
    """Run a command in a process of its own, without a terminal."""
    done = subprocess.run(
        [*COMMAND, *arguments],
        cwd=cwd or ROOT,
        env=environment(**(env or {})),
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        start_new_session=True,  # no controlling terminal, wherever the tests are started from
    )
    return Done(done.returncode, done.stdout, done.stderr)


def at_terminal(*arguments: str, **env: str) -> pexpect.spawn[str]:
    """Start a command at a pseudo-terminal."""
    return pexpect.spawn(
        COMMAND[0],
        [*COMMAND[1:], *arguments],
        cwd=str(ROOT),
        env=environment(**env),
        encoding="utf-8",
        timeout=60,
        dimensions=(40, 100),
    )


def ended(child: pexpect.spawn[str]) -> int | None:
    """Wait for a command at a terminal and return its exit code."""
    child.expect(pexpect.EOF)
    child.close()
    return child.exitstatus
