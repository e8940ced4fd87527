"""Which files a person has allowed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from antiphon.errors import ConfigError
from antiphon.host.config.toml_files import Trust


@pytest.fixture
def trust(tmp_path: Path) -> Trust:
    """Nothing is trusted yet."""
    return Trust({"XDG_STATE_HOME": str(tmp_path / "state")})


def test_a_file_is_trusted_as_it_was(trust: Trust, tmp_path: Path):
    """Not with other bytes in it, and not its copy elsewhere; the latest is what holds."""
    trust.add(tmp_path / "a", b"1")
    assert trust.covers(tmp_path / "a", b"1")
    assert not trust.covers(tmp_path / "a", b"2")
    assert not trust.covers(tmp_path / "b", b"1")
    trust.add(tmp_path / "a", b"2")
    assert not trust.covers(tmp_path / "a", b"1")
    assert [one.path for one in trust.all()] == [str(tmp_path / "a")]


def test_a_link_is_the_file_it_names(trust: Trust, tmp_path: Path):
    """One that comes to point elsewhere is not trusted."""
    (tmp_path / "link").symlink_to(tmp_path / "a")
    trust.add(tmp_path / "link", b"1")
    assert trust.covers(tmp_path / "a", b"1")


def test_trust_is_taken_back(trust: Trust, tmp_path: Path):
    """Once; then there is nothing to take back."""
    trust.add(tmp_path / "a", b"1")
    assert trust.revoke(tmp_path / "a")
    assert not trust.revoke(tmp_path / "a")
    assert not trust.covers(tmp_path / "a", b"1")


def test_the_record_is_the_users_alone(trust: Trust, tmp_path: Path):
    """Nobody else may read it, and where others may write it says nothing."""
    trust.add(tmp_path / "a", b"1")
    assert trust.place.stat().st_mode & 0o777 == 0o600
    assert trust.place.parent.stat().st_mode & 0o777 == 0o700
    trust.place.chmod(0o622)
    with pytest.raises(ConfigError, match="others may write it"):
        trust.covers(tmp_path / "a", b"1")


def test_a_record_that_cannot_be_read_or_written_is_named(trust: Trust, tmp_path: Path):
    """With the remedy."""
    trust.place.parent.mkdir(parents=True)
    trust.place.write_text("{", encoding="utf-8")
    trust.place.chmod(0o600)
    with pytest.raises(ConfigError, match=r"trusted\.json: .*remove it, and trust again"):
        trust.all()
    (tmp_path / "file").touch()
    with pytest.raises(ConfigError, match="Not a directory"):
        Trust({"XDG_STATE_HOME": str(tmp_path / "file")}).add(tmp_path / "a", b"1")


def test_a_full_disk_leaves_the_record_as_it_was(trust: Trust, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """Nothing is lost, and nothing is left beside it."""
    trust.add(tmp_path / "a", b"1")

    def full(_handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ConfigError, match="No space left"):
        trust.add(tmp_path / "b", b"2")
    assert trust.covers(tmp_path / "a", b"1")
    assert list(trust.place.parent.iterdir()) == [trust.place]
