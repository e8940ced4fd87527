"""What servers offered, on disk: for one owner and by principal, bounded, dropped when anything is wrong with it."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

from antiphon import Server
from antiphon.gateway import kept_lists
from antiphon.gateway.kept_lists import KeptLists, KeptOffer
from antiphon.gateway.offer import Offer
from antiphon.types import Tool

OFFER = Offer(tools=(Tool(name="x", input_schema={"type": "object"}),), completes=True, instructions="Ask.")


def place(folder: Path, seen_by: bytes = b"", **entry: object) -> KeptOffer:
    """Return where the offer of a server is kept."""
    kept = KeptLists(folder / "lists").of({"command": "server", **entry}, seen_by)
    assert kept is not None
    return kept


def test_an_offer_comes_back_as_it_was(tmp_path: Path):
    """In a file that nobody else reads."""
    place(tmp_path).save(OFFER)
    assert place(tmp_path).load() == OFFER
    assert place(tmp_path).path.stat().st_mode & 0o777 == 0o600
    assert place(tmp_path).path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize(
    "other",
    [(b"bob", {}), (b"", {"args": ["x"]}), (b"", {"env": {"TOKEN": "other"}}), (b"", {"cwd": "/"})],
    ids=["principal", "arguments", "environment", "folder"],
)
def test_nobody_else_gets_it(tmp_path: Path, other: tuple[bytes, dict[str, object]]):
    """Another principal, or a server that is started in another way."""
    place(tmp_path).save(OFFER)
    seen_by, entry = other
    assert place(tmp_path, seen_by, **entry).load() is None


@pytest.mark.parametrize("wrong", ["cut", "form", "old", "future", "open", "large", "link"])
def test_what_is_wrong_is_dropped(
    tmp_path: Path, wrong: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
):
    """With a line in the log, and once."""
    kept = place(tmp_path)
    kept.save(OFFER)
    data = kept.path.read_bytes()
    if wrong == "cut":
        kept.path.write_bytes(data[:-9])
    elif wrong == "form":
        kept.path.write_bytes(data.replace(b'"form":1', b'"form":2'))
    elif wrong == "old":
        monkeypatch.setattr(kept_lists, "KEPT_FOR", -1.0)
    elif wrong == "future":
        monkeypatch.setattr("time.time", lambda: 0.0)
    elif wrong == "open":
        kept.path.chmod(0o644)
    elif wrong == "large":
        monkeypatch.setattr(kept_lists, "MAX_BYTES", 10)
    else:
        kept.path.rename(tmp_path / "elsewhere")
        kept.path.symlink_to(tmp_path / "elsewhere")
    with caplog.at_level(logging.WARNING):
        assert kept.load() is None
        assert kept.load() is None
    assert len(caplog.records) == 1
    assert "are not used" in caplog.text
    assert not os.path.lexists(kept.path)


def test_the_folder_does_not_grow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The oldest go, by number and by bytes; what is too large by itself is not kept at all."""
    monkeypatch.setattr(kept_lists, "MAX_FILES", 3)
    places = [place(tmp_path, args=[str(number)]) for number in range(5)]
    for number, kept in enumerate(places):
        kept.save(OFFER)
        os.utime(kept.path, (number, number))
    assert [kept.load() is not None for kept in places] == [False, False, True, True, True]
    monkeypatch.setattr(kept_lists, "MAX_TOTAL", 10)
    places[0].save(OFFER)
    assert list(places[0].path.parent.iterdir()) == []
    monkeypatch.setattr(kept_lists, "MAX_BYTES", 10)
    places[0].save(OFFER)
    assert list(places[0].path.parent.iterdir()) == []


def test_a_folder_that_cannot_be_written_costs_a_line_in_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """And no list."""
    (tmp_path / "lists").write_text("a file")
    place(tmp_path).save(OFFER)
    assert "are not kept" in caplog.text


def test_a_server_in_this_process_needs_no_file(tmp_path: Path):
    """Nor does what is no target at all."""
    assert KeptLists(tmp_path).of(Server("one"), b"") is None
    assert KeptLists(tmp_path).of([], b"") is None
