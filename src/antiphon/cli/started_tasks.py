"""The tasks that this user has started from the command line: a file for each, so that they can be found again.

Whoever knows the id of a task, and may connect as the same user, can act on the task. So only this user can read the
files (mode 0600).
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path

import msgspec

from antiphon.errors import ConfigError
from antiphon.host.store.location import state_folder
from antiphon.machine.files import read_file, replace_file

__all__ = ["MAX_STARTED", "StartedTask", "find", "forget", "note", "read_all"]

MAX_STARTED = 200
"""Most tasks that are remembered; beyond that, the one started first is forgotten."""

_LARGEST = 64 * 1024
"""Most bytes of a file that are read."""

_SHORTEST = 4
"""Fewest characters that may stand for an id."""


class StartedTask(msgspec.Struct, frozen=True, kw_only=True):
    """One task."""

    id: str
    target: str
    """The server, as it was named."""
    tool: str
    started: float
    """Seconds since the epoch."""
    config: str | None = None
    """The configuration file in which the server was named."""


def note(task: StartedTask) -> None:
    """Remember a task."""
    path = _path(task.id)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    replace_file(path, msgspec.json.encode(task))
    for old in read_all()[MAX_STARTED:]:
        forget(old.id)


def read_all() -> list[StartedTask]:
    """Return all tasks, the one started last first. Files that cannot be read are left out."""
    found: list[StartedTask] = []
    for path in _folder().glob("*.json"):
        with suppress(OSError, msgspec.DecodeError, UnicodeDecodeError):
            found.append(msgspec.json.decode(read_file(path, _LARGEST), type=StartedTask))
    return sorted(found, key=lambda task: task.started, reverse=True)


def find(id: str) -> StartedTask:
    """Return a task by its id, or by the beginning of it.

    Raises:
        ConfigError: there is none, or there are several.
    """
    tasks = read_all()
    fitting = [task for task in tasks if task.id == id] or [task for task in tasks if task.id.startswith(id)]
    if len(fitting) == 1 and len(id) >= _SHORTEST:
        return fitting[0]
    problem = "no task was started with" if not fitting else "several tasks begin with"
    raise ConfigError(f"{problem} the id {id!r}: antiphon tasks list shows those that were started from here")


def forget(id: str) -> None:
    """Forget a task."""
    with suppress(FileNotFoundError):
        _path(id).unlink()


def _folder() -> Path:
    return state_folder(os.environ) / "tasks"


def _path(id: str) -> Path:
    # The server has chosen the id, so it must not become the name of a file.
    return _folder() / f"{hashlib.blake2b(id.encode(), digest_size=16).hexdigest()}.json"
