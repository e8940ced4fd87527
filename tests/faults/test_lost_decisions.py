"""The store is lost between a decision and what it was about: it is carried out with its record, or said not to be."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import asyncpg
import pytest
from sqlalchemy.exc import SQLAlchemyError

from antiphon.errors import InternalError, Rejected
from antiphon.host import Audit, Deny, Host, Queue, Scripted, open_store
from antiphon.host.store.ask_rows import Sought
from antiphon.host.store.base import ReviewRow
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import approve, origin, request
from tests.host.review.test_queue import first
from tests.support.postgres import own_postgres

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


async def until_stored(change: Callable[[], Awaitable[object]], is_stored: Callable[[], Awaitable[bool]]) -> None:
    """Do what a person does who is told that the store does not respond: look, and try again if it was not stored."""
    while True:
        with suppress(OSError, SQLAlchemyError):
            if await is_stored():
                return
            await change()


@pytest.mark.postgres
@pytest.mark.timeout(120)
async def test_each_decision_counts_as_it_was_last_made_while_connections_are_killed():
    """Every third is approved, denied, or approved, taken back and denied; only the approved ones are ever sent."""
    with own_postgres() as server:
        store, person = open_store(server.address), open_store(server.address)
        await store.head()
        provider = Scripted(["ok"] * 30)
        host = Host(provider, reviewer=Queue(store), store=store)
        asking = [asyncio.ensure_future(host(request(f"{n}"), origin(f"{n}", call=f"{n}"))) for n in range(30)]
        decides = Queue(person, undo=0.5)
        questions = sorted(await first(decides, 30), key=lambda each: int(each.item.origin.id))
        killing = asyncio.create_task(kill_connections(server.address))

        async def state(id: str) -> str:
            return (await decides.get(id)).state

        async def decide(at: int) -> None:
            id, item, hash = questions[at].id, questions[at].item, questions[at].hash

            async def is_decided() -> bool:
                return await state(id) != "pending"

            async def is_open() -> bool:
                return await state(id) == "pending"

            if at % 3 != 1:
                await until_stored(lambda: decides.decide(id, approve(item), hash=hash, by="ada"), is_decided)
            if at % 3 == 2:
                await until_stored(lambda: decides.undo(id), is_open)
            if at % 3 != 0:
                await until_stored(lambda: decides.decide(id, Deny(), hash=hash, by="ada"), is_decided)

        await asyncio.gather(*map(decide, range(30)))
        ended = await asyncio.gather(*asking, return_exceptions=True)
        killing.cancel()
        await asyncio.wait([killing])
        await store.recover()
        answered = {at for at, one in enumerate(ended) if not isinstance(one, BaseException)}
        sent = {int(each.messages[0].blocks[0].text) for each in provider.requests}
        assert answered <= sent <= set(range(0, 30, 3))
        assert all(isinstance(ended[at], Rejected | InternalError) for at in range(30) if at % 3)
        assert await decides.open() == []
        records = [entry.record async for entry in host.audit.entries()]
        assert {int(each.ask) for each in records if each.step == "generate"} == sent
        assert {int(each.ask) for each in records if each.step in ("answered", "refused", "failed")} == set(range(30))
        assert (await Audit(store).verify()).whole
        await store.aclose()
        await person.aclose()


async def kill_connections(address: str) -> None:
    """End all other connections of a server, again and again."""
    connection = await asyncpg.connect(address)
    with suppress(asyncio.CancelledError):
        while True:
            await connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE pid <> pg_backend_pid() AND backend_type = 'client backend' AND random() < 0.3"
            )
            await asyncio.sleep(0.05)
    await connection.close()
