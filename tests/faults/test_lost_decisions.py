"""The store is lost between a decision and what it was about: it is carried out with its record, or said not to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from antiphon.errors import InternalError
from antiphon.host import Audit, Host, Queue, Scripted, open_store
from antiphon.host.store.ask_rows import Sought
from antiphon.host.store.base import ReviewRow
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import approve, origin, request
from tests.host.review.test_queue import first

Ask = Callable[[Host], Awaitable[object]]
ASKS: dict[str, Ask] = {
    "sampling": lambda host: host(request(), origin()),
    "form": lambda host: host.elicit(ElicitRequestParams.form("Sure?", {}), origin()),
    "tool": lambda host: host.confirm(CallToolRequestParams.of("order", {"sku": "P-1"}), origin()),
}


class Losing(Queue):
    """A queue of a process whose store is lost as soon as it has read a decision."""

    path: Path

    async def _decided(self, row: ReviewRow, leaves_at: float | None = None) -> ReviewRow:
        decided = await super()._decided(row, leaves_at)
        self.path.rename(self.path.with_name("lost.db"))
        return decided


@pytest.mark.parametrize("kind", ASKS)
async def test_what_was_decided_before_the_store_was_lost_does_not_happen_and_says_so(kind: str, tmp_path: Path):
    """Nothing is sent, the server is refused, and once the store is back it says that, and who had decided what."""
    path = tmp_path / "host.db"
    store, person = open_store(path), open_store(path)
    provider, queue = Scripted(["ok"]), Losing(store)
    queue.path = path
    host = Host(provider, reviewer=queue, store=store)
    asking = asyncio.ensure_future(ASKS[kind](host))
    [question] = await first(Queue(person))
    decision = ElicitResult(action="accept", content={}) if kind == "form" else approve(question.item)
    await Queue(person).decide(question.id, decision, hash=question.hash, by="ada")
    with pytest.raises(InternalError):
        await asking
    path.with_name("lost.db").rename(path)
    await store.recover()
    assert provider.requests == []
    row = await store.review(question.id)
    assert row is not None
    assert (row.state, row.outcome) == (
        ("withdrawn", None) if kind == "form" else ("done", '{"became":"failed","why":"error"}')
    )
    await store.gather()
    [shown] = (await store.asks(Sought())).rows
    assert (shown.ending, shown.by) == ("failed", "" if kind == "form" else "ada")
    steps = [entry.record.step async for entry in host.audit.entries()]
    assert steps == ["received", "policy", *(["review"] if kind != "form" else []), "failed"]
    assert (await Audit(store).verify()).whole
    await store.aclose()
    await person.aclose()


@pytest.mark.parametrize("kind", ASKS)
async def test_a_withdrawal_after_the_store_was_lost_is_stored_later(kind: str, tmp_path: Path):
    """The server gives up while the store is away; afterwards nobody is shown a question that nobody waits for."""
    path, lost = tmp_path / "host.db", tmp_path / "lost.db"
    store = open_store(path)
    queue = Queue(store)
    host = Host(Scripted([]), reviewer=queue, store=store)
    asking = asyncio.ensure_future(ASKS[kind](host))
    await first(queue)
    path.rename(lost)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    lost.rename(path)
    while await queue.pending():
        await store.recover()
    steps = [entry.record.step async for entry in host.audit.entries()]
    assert steps == ["received", "policy", "withdrawn"]
    await store.aclose()
