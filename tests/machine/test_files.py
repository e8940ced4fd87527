"""Files that are replaced as a whole, whatever happens meanwhile."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from antiphon.machine.files import replace_file, replaced_file


def mode(path: Path) -> int:
    """Return the rights of a file."""
    return stat.S_IMODE(path.stat().st_mode)


def test_until_the_end_the_old_file_is_there(tmp_path: Path):
    """With its content; nobody but its owner may read what is written meanwhile."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    with replaced_file(path, mode=0o644) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
        (part,) = set(tmp_path.iterdir()) - {path}
        assert mode(part) == 0o600
    assert (path.read_bytes(), mode(path)) == (b"new", 0o644)
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_is_its_owner_s_alone(tmp_path: Path):
    """One that others could read before, too."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    path.chmod(0o666)
    replace_file(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)


@pytest.mark.parametrize("step", ["fsync", "chmod", "replace"])
def test_where_a_step_fails_nothing_has_changed(step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The old file stays as it was, and nothing is left beside it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")

    def full(*_given: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os if step == "fsync" else Path, step, full)
    with pytest.raises(OSError, match="No space"):
        replace_file(path, b"new", mode=0o640)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_not_written_to_its_end_is_not_there(tmp_path: Path):
    """Whatever ends it: here, somebody at the keyboard."""

    def write() -> None:
        with replaced_file(tmp_path / "file") as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("durable", [True, False])
def test_the_disk_has_it_before_the_old_file_goes(durable: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Unless it can be had again, where waiting for the disk is not worth it."""
    path = tmp_path / "file"
    path.write_bytes(b"old")
    seen: list[tuple[int, bytes]] = []

    def sync(handle: int) -> None:
        seen.append((os.fstat(handle).st_size, path.read_bytes()))

    monkeypatch.setattr(os, "fsync", sync)
    replace_file(path, b"new!", durable=durable)
    assert seen == ([(4, b"old")] if durable else [])
    assert path.read_bytes() == b"new!"


def test_a_link_is_replaced_and_not_followed(tmp_path: Path):
    """What it names stays as it is, so that nobody makes us write somewhere else."""
    (tmp_path / "other").write_bytes(b"theirs")
    (tmp_path / "file").symlink_to("other")
    replace_file(tmp_path / "file", b"ours")
    assert (tmp_path / "other").read_bytes() == b"theirs"
    assert not (tmp_path / "file").is_symlink()
