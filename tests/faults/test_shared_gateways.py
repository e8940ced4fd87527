"""Three gateways with one database, two people at their pages: one queue, one set of budgets, grants and blocks."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from secrets import token_hex

import asyncpg
import pytest

from antiphon.host import Audit
from antiphon.host.store.base import Store
from antiphon.web.site import ARMING
from tests.support.gateways import PATIENCE, Person, gateways
from tests.support.postgres import Postgres, own_postgres

pytestmark = [pytest.mark.postgres, pytest.mark.timeout(300)]

DAY = 500_000_000
"""Nano-dollars: the worst case of four asks fits, and not that of five."""


@pytest.fixture(scope="module")
def postgres() -> Iterator[Postgres]:
    """Start a server for these tests."""
    with own_postgres() as server:
        yield server


@pytest.fixture
async def place(postgres: Postgres) -> str:
    """Make a database for one test; return its address."""
    name = f"gateways_{token_hex(4)}"
    connection = await asyncpg.connect(postgres.address)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return f"{postgres.address.rpartition('/')[0]}/{name}"


async def whole(store: Store) -> bool:
    """Tell whether the chain of all records is unbroken."""
    return (await Audit(store).verify()).whole


async def first_come(people: list[Person], id: str) -> str:
    """Let both answer at once; return the answer that counts. The other is told who was faster."""
    forms = [await person.form(id, "answer") for person in people]
    await asyncio.sleep(ARMING + 0.1)
    answers = [{**form, "text": f"answer {at}"} for at, form in enumerate(forms)]
    sent = await asyncio.gather(
        *(person.sends(id, "answer", form) for person, form in zip(people, answers, strict=True))
    )
    assert sorted(each.status_code for each in sent) == [200, 409], [each.text for each in sent]
    [late] = [each for each in sent if each.status_code == 409]
    assert late.json()["problem"]
    return f"answer {[each.status_code for each in sent].index(200)}"


async def test_what_waits_at_one_is_decided_at_another_once(place: str) -> None:
    """Both people see it, both decide it at once, one counts; it goes on where it was asked, and off both pages."""
    async with gateways(place) as several:
        asked_at = several.running[0]
        people = await several.people()
        for product in ("hat", "cap", "scarf"):
            calling = asyncio.create_task(asked_at.call(product))
            ids = [await person.sees(f" {product}") for person in people]
            assert len(set(ids)) == 1
            counts = await first_come(people, ids[0])
            assert counts in await calling
            for person in people:
                await person.misses(ids[0])
        store = several.store()
        assert await whole(store)
        decided = [entry.record for entry in await store.entries() if entry.record.step == "review"]
        assert [record.outcome for record in decided] == ["deny", "deny", "answer", "answer", "answer"]


async def test_a_grant_and_the_budget_of_the_day_count_at_all_of_them(place: str) -> None:
    """Given at one, used at all; spent at all at the same time, and no more than there is."""
    async with gateways(place, settings="[defaults.budget]\nday = 0.5\n") as several:
        person = await several.person(several.running[1])
        calling = asyncio.create_task(several.running[0].call("hat"))
        bounds = {"scope": "always", "uses": "1000", "dollars": "100"}
        given = await person.decides(await person.sees(" hat"), "approve", **bounds)
        assert given.status_code == 200, given.text
        assert "hat" in await calling
        said = await asyncio.gather(*(each.call(f"item {at}") for at in range(8) for each in several.running))
        answered = [text for text in said if "refused" not in text]
        assert 1 <= len(answered) < len(said)
        assert person.rows == {}
        store = several.store()
        days = await store.balances("day:")
        assert days
        assert all(day.spent.money <= DAY and day.held.money == 0 for day in days)
        assert await whole(store)


async def test_a_server_blocked_at_one_is_blocked_at_all(place: str) -> None:
    """What waits from it anywhere is withdrawn and refused, and so is what it asks later."""
    async with gateways(place) as several:
        people = await several.people()
        calling = [asyncio.create_task(each.call(f"at {at}")) for at, each in enumerate(several.running)]
        ids = [await people[0].sees(f" at {at}") for at in range(3)]
        assert (await people[0].decides(ids[0], "deny", reach="server")).status_code == 200
        for said in await asyncio.gather(*calling):
            assert "refused" in said, said
        for id in ids:
            await people[1].misses(id)
        for said in await asyncio.gather(*(each.call("later") for each in several.running)):
            assert "refused" in said, said
        assert await whole(several.store())


async def test_what_a_killed_gateway_has_asked_says_that_nobody_waits(place: str) -> None:
    """The row says so on the page of another, a decision is kept for when it asks again, and all others go on."""
    async with gateways(place) as several:
        people = await several.people()
        calling = asyncio.create_task(several.running[0].call("hat"))
        id = await people[0].sees(" hat")
        assert "nobody waits" not in people[0].rows[id]
        several.running[0].kill()
        assert await people[0].sees("nobody waits") == id
        await asyncio.wait([calling])
        still = asyncio.create_task(several.running[1].call("cap"))
        answered = await people[1].decides(await people[1].sees(" cap"), "answer", text="It fits.")
        assert answered.status_code == 200, answered.text
        assert "It fits." in await still
        assert await whole(several.store())


async def test_the_database_may_restart_meanwhile(postgres: Postgres, place: str) -> None:
    """What waited still waits, the pages come back by themselves, and what is decided then arrives."""
    async with gateways(place) as several:
        people = await several.people()
        calling = asyncio.create_task(several.running[0].call("hat"))
        id = await people[0].sees(" hat")
        answered = asyncio.create_task(several.running[1].call("cap"))
        assert (await people[0].decides(await people[0].sees(" cap"), "answer", text="Kept.")).status_code == 200
        assert "Kept." in await answered
        postgres.stop()
        postgres.start()
        async with asyncio.timeout(PATIENCE):
            while (decided := await people[0].decides(id, "answer", text="It fits.")).status_code >= 500:
                pass
        assert decided.status_code == 200, decided.text
        assert "It fits." in await calling
        await people[1].misses(id)
        again = asyncio.create_task(several.running[2].call("scarf"))
        scarf = await people[0].sees(" scarf")
        assert (await people[0].decides(scarf, "deny")).status_code == 200
        await asyncio.wait([again])
        assert await whole(several.store())
