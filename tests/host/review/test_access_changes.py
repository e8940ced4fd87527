"""What a person changes without being asked is in the audit: who revoked, blocked, unblocked, or switched a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from antiphon.host import Audit, Grants, Person, Queue
from antiphon.host.review.given_grants import Grant
from antiphon.host.store import MemoryStore, open_store
from antiphon.host.store.ask_rows import Sought
from tests.host.asks import origin, request
from tests.web.pages import desk

ANN = Person(issuer="https://id.example.org", subject="ann", name="Ann", role="admin")


async def changes(audit: Audit) -> list[tuple[str | None, str, str | None]]:
    """Return what was recorded of changes: who, what, and the server."""
    found = [entry.record async for entry in audit.entries()]
    return [(each.by, each.outcome, each.server) for each in found if each.step == "changed"]


async def test_a_block_and_its_end_name_who_did_it(tmp_path: Path):
    """With the person as proven, the server without its secrets; the chain and the history hold them."""
    store = open_store(tmp_path / "host.db")
    queue, audit = Queue(store), Audit(store)
    await queue.block("command:1", "python shop.py --token=sk-ant-api03-abcdefghijklmnopqrstuv", by=ANN)
    assert await queue.unblock("command:1", by="bob")
    assert not await queue.unblock("command:1", by="bob")
    (_, what, server), (by, ended, _) = await changes(audit)
    assert (what, by, ended) == ("blocked", "bob", "unblocked")
    assert server is not None
    assert "abcdefghijklmnopqrstuv" not in server
    (entry, _) = [each async for each in audit.entries()]
    assert entry.record.people == ("https://id.example.org sub:ann",)
    while await store.gather(100):
        pass
    rows = (await store.asks(Sought(ending="changed"))).rows
    assert [(row.decision, row.identity) for row in rows] == [("unblocked", "command:1"), ("blocked", "command:1")]
    assert (await audit.verify()).whole
    await store.aclose()


async def test_a_grant_that_is_revoked_is_recorded_once():
    """With its id; one that is gone leaves no record."""
    store = MemoryStore()
    grants = Grants(store)
    given = await grants.add(Grant.give(request(), origin(), "always"))
    assert await grants.revoke(given.id, by=ANN)
    assert not await grants.revoke(given.id, by=ANN)
    (record,) = [entry.record async for entry in Audit(store).entries()]
    assert (record.outcome, record.grant, record.by) == ("revoked", given.id, str(ANN))


@pytest.mark.parametrize("language", ["en", "zh"])
async def test_the_history_of_the_page_has_them_in_words(language: str):
    """As a kind of its own, which can be looked for."""
    async with desk() as page:
        question, task = await page.asked()
        assert (await page.post("/settings", {"language": language, "theme": "auto", "name": "Ada"})).status_code == 200
        await page.post(f"/review/{question.id}/approve", page.about(question, scope="session", uses="3"))
        await task
        (given,) = await page.host.grants.all()
        assert (await page.post(f"/grants/{given.id}/revoke", {})).status_code == 200
        found = (await page.get("/history?kind=access/change")).text
        words = ("grant revoked", "by Ada", "in force") if language == "en" else ("撤销了授权", "Ada", "已生效")
        assert [each for each in words if each not in found] == []
        assert found.count("grant revoked" if language == "en" else "撤销了授权") == 1
        (row,) = (await page.store.asks(Sought(ending="changed"))).rows
        record = (await page.get(f"/history/{row.seq}")).text
        assert [each for each in (words[0], given.id) if each not in record] == []
