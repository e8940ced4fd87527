"""The record of tasks that were started: private, bounded, and never in the way."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from antiphon.cli.started_tasks import MAX_STARTED, StartedTask, find, forget, note, read_all
from antiphon.errors import ConfigError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Keep the record in a folder of the test's own."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "antiphon" / "tasks"


def started(number: int) -> StartedTask:
    """Make an entry."""
    return StartedTask(id=f"{number:04}-id", target="server.py", tool="work", started=float(number))


def test_a_task_is_found_by_the_beginning_of_its_id(folder: Path):
    """As long as that is the beginning of one only; its file is nobody else's business."""
    note(started(1))
    note(started(12))
    assert find("0001") == started(1)
    assert [task.id for task in read_all()] == ["0012-id", "0001-id"]
    for wrong in ("00", "0013", ""):
        with pytest.raises(ConfigError, match="antiphon tasks list"):
            find(wrong)
    assert {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()} == {0o600}
    forget("0001-id")
    forget("0001-id")
    assert len(read_all()) == 1


def test_the_oldest_is_forgotten_and_what_is_broken_is_passed_over(folder: Path):
    """However many are started, and whatever lies in the folder; a server's id is no name of a file."""
    for number in range(MAX_STARTED + 2):
        note(started(number))
    assert len(read_all()) == MAX_STARTED
    assert read_all()[-1] == started(2)
    (folder / "broken.json").write_text("{", encoding="utf-8")
    note(StartedTask(id="../../evil", target="t", tool="w", started=1e9))
    assert read_all()[0].id == "../../evil"
    assert {path.parent for path in folder.rglob("*")} == {folder}


def test_one_that_cannot_be_noted_again_is_still_known(folder: Path, monkeypatch: pytest.MonkeyPatch):
    """A full disk costs no task that was noted before."""
    note(started(1))

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        note(started(1))
    assert read_all() == [started(1)]
    assert len(list(folder.iterdir())) == 1
