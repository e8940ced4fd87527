"""The store is lost around the click of a person: what is said is true, and it goes on once the store is back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from antiphon.host import open_store
from tests.web.pages import Desk, desk

TOLD = "The store does not respond at the moment."


async def click(page: Desk, path: str, form: dict[str, str], *, script: bool = True) -> tuple[int, str]:
    """Send a form as the page does; what it names was read while the store was there."""
    headers = {"X-CSRF-Token": page.csrf, "Origin": page.running.origin}
    sent = await page.client.post(path, data=form, headers=headers | ({"Accept": "application/json"} if script else {}))
    return sent.status_code, sent.json()["problem"] if script else sent.text


@pytest.mark.parametrize("action", ["approve", "deny"])
async def test_a_click_that_could_not_be_stored_is_said_to_be_unsure(
    action: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """Another process holds the file; the question waits on, with its form, and the same click counts afterwards."""
    monkeypatch.setattr("antiphon.sql.runner._BUSY", 0.1)
    async with desk(store=open_store(tmp_path / "host.db")) as page:
        question, task = await page.asked()
        form = page.about(question)
        with closing(sqlite3.connect(tmp_path / "host.db", isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            status, told = await click(page, f"/review/{question.id}/{action}", form)
            page_of_old, text = await click(page, f"/review/{question.id}/{action}", form, script=False)
        assert (status, told.startswith(TOLD), page_of_old, TOLD in text) == (503, True, 503, True)
        assert "Not done" not in text
        assert [each.id for each in await page.queue.pending()] == [question.id]
        assert not task.done()
        assert (await page.post(f"/review/{question.id}/{action}", form)).status_code == 200


async def test_a_decision_counts_though_the_store_was_lost_before_the_person_was_told(tmp_path: Path):
    """Nobody says that it failed: the list has it once the store is back, where it can be taken back as well."""
    path, kept = tmp_path / "host.db", tmp_path / "kept.db"
    async with desk(store=open_store(path), undo=30) as page:
        question, task = await page.asked()
        form = page.about(question)

        def lose(_: str | None) -> None:
            if not path.exists():
                return
            with closing(sqlite3.connect(path)) as read:
                # A notice of the question itself may come late.
                [[decided]] = read.execute("SELECT count(*) FROM reviews WHERE decision IS NOT NULL")
            if decided:
                path.rename(kept)

        with page.running.page.site.store.news.listening(on_change=lose):
            status, told = await click(page, f"/review/{question.id}/approve", form)
        assert (status, told.startswith(TOLD)) == (503, True)
        assert (await page.get("/")).status_code == 503
        kept.rename(path)
        found = await page.queue.get(question.id)
        assert (found.state, task.done()) == ("held", False)
        assert "Take back" in (await page.get(f"/review/{question.id}")).text
        undone = await page.post("/undo", {"of": f"{question.id} {found.decided}"})
        assert (undone.status_code, (await page.queue.get(question.id)).state) == (200, "pending")
