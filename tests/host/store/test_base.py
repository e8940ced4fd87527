"""The promises of a store, kept by every kind of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from antiphon.host.audit import Audit
from antiphon.host.budget import Amount, Cap, task_account
from antiphon.host.store.base import (
    Balance,
    BlockRow,
    Change,
    Decided,
    DefinitionRow,
    GrantRow,
    PendingCallRow,
    Settlement,
    Standing,
    Store,
    Supposed,
    TaskSoFar,
)
from antiphon.host.store.chain import Head
from tests.host.store.stores import KINDS, Place, hold, record, review, ticket


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """Give each test a place of its own, of each kind."""
    async with Place(request.param, tmp_path) as place:
        yield place


@pytest.fixture
async def store(place: Place) -> AsyncIterator[Store]:
    """Open a store there."""
    async with place.open() as store:
        yield store


def grant(id: str = "g", **more) -> GrantRow:
    """Make a grant."""
    return GrantRow(id=id, identity="command:x", body="{}", given=more.pop("given", 1.0), **more)


async def test_a_reservation_is_settled_with_what_was_used(store: Store):
    """Held first, spent then; nothing is left of the hold."""
    assert await store.commit(Change(hold=hold())) is None
    assert await store.balances() == [Balance(key="total", held=Amount(money=10, tokens=5), cap=Cap(money=100))]
    assert [row.id for row in await store.holds()] == ["h"]
    await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=3, tokens=2))))
    assert await store.balances() == [Balance(key="total", spent=Amount(money=3, tokens=2), cap=Cap(money=100))]
    assert await store.holds() == []


async def test_a_reservation_is_settled_once(store: Store):
    """A second settlement finds nothing, and changes nothing."""
    await store.commit(Change(hold=hold()))
    for _ in range(2):
        await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=3, tokens=2))))
    assert await store.balances() == [Balance(key="total", spent=Amount(money=3, tokens=2), cap=Cap(money=100))]


@pytest.mark.parametrize(
    ("cap", "allowed"), [(Cap(money=20), 2), (Cap(money=29), 2), (Cap(tokens=5), 1), (Cap(money=9), 0), (Cap(), 4)]
)
async def test_no_more_is_reserved_than_the_cap(store: Store, cap: Cap, allowed: int):
    """In money or in tokens; also for an account that is new."""
    refused = [await store.commit(Change(hold=hold(str(n), caps={"day:x": cap}))) for n in range(4)]
    assert refused == [None] * allowed + ["day:x"] * (4 - allowed)


async def test_a_refused_reservation_leaves_nothing(store: Store):
    """Neither in the accounts that had enough, nor a record, nor a use of a grant."""
    await store.add_grant(grant(max_uses=1))
    caps = {"day:x": Cap(), "total": Cap(money=1)}
    change = Change(hold=hold(caps=caps), use="g", records=(record(),))
    assert await store.commit(change) == "total"
    assert [balance for balance in await store.balances() if balance.held != Amount()] == []
    assert (await store.holds(), await store.head()) == ([], Head())
    assert [row.used for row in await store.grants()] == [0]


async def test_fifty_at_once_spend_what_fits(place: Place):
    """Two processes on one store, fifty requests, a budget for ten."""
    if place.kind == "memory":
        one = two = place.make()
    else:
        one, two = place.make(), place.make()
    caps = {"total": Cap(money=100)}
    asked = [(one, two)[n % 2].commit(Change(hold=hold(str(n), caps=caps), records=(record(),))) for n in range(50)]
    refused = await asyncio.gather(*asked)
    assert (refused.count(None), refused.count("total")) == (10, 40)
    assert [balance.held.money for balance in await two.balances()] == [100]
    assert (await one.head()).seq == 10
    assert (await Audit(two).verify()).whole
    await one.aclose()
    await two.aclose()


async def test_a_file_whose_closing_is_cancelled_is_closed_all_the_same(tmp_path: Path):
    """So that a program that hurries leaves no thread and no connection behind."""
    async with Place("sqlite", tmp_path) as place:
        store = place.make()
        await store.commit(Change(records=(record(),)))
        closing = asyncio.create_task(store.aclose())
        await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait([closing])
        assert closing.cancelled()
        with pytest.raises(RuntimeError, match="after shutdown"):
            await store.head()


async def test_accounts_are_found_by_what_their_key_begins_with(store: Store):
    """And what looks like a pattern is none."""
    await store.commit(Change(hold=hold(caps={"day:1": Cap(), "day_2": Cap(), "total": Cap()})))
    assert [balance.key for balance in await store.balances("day:")] == ["day:1"]
    assert [balance.key for balance in await store.balances("day_")] == ["day_2"]
    assert await store.balances("%") == []
    assert [balance.key for balance in await store.balances_of(["total", "day:1", "new"])] in (
        ["total", "day:1"],
        ["day:1", "total"],
    )


async def test_an_account_has_its_latest_cap_however_it_is_read(store: Store):
    """The review page finds the tightest budget by keys, and the budgets of servers by a prefix."""
    await store.commit(Change(hold=hold(caps={"total": Cap(money=500, tokens=90)})))
    [by_prefix], [by_key] = await store.balances("total"), await store.balances_of(["total"])
    assert by_prefix.cap == Cap(money=500, tokens=90)
    assert by_key == by_prefix


async def test_records_are_linked_in_order(store: Store):
    """Numbered from one, each with the hash of the one before."""
    await store.commit(Change(records=(record("received"), record("policy"))))
    await store.commit(Change(records=(record("answered"),)))
    assert [(entry.seq, entry.record.step) for entry in await store.entries()] == [
        (1, "received"),
        (2, "policy"),
        (3, "answered"),
    ]
    assert [entry.seq for entry in await store.entries(after=1, limit=1)] == [2]
    assert await store.head() == Head(seq=3, hash=(await store.entries())[-1].hash)


async def test_what_a_task_has_asked_and_cost_is_known_to_whoever_follows_it(place: Place, store: Store):
    """Each ask is counted once, however often it is put; another task has nothing to do with it."""
    assert await store.task_so_far("t", "a") == TaskSoFar(first=place.clock())
    began = place.clock()
    place.clock.now += 60.0
    await store.commit(Change(hold=hold(caps={task_account("t"): Cap()})))
    await store.commit(Change(settle=Settlement(id="h", amount=Amount(money=3, tokens=2))))
    spent = Amount(money=3, tokens=2)
    assert await store.task_so_far("t", "b") == TaskSoFar(first=began, asks=1, spent=spent)
    assert await store.task_so_far("t", "a") == TaskSoFar(first=began, asks=0, spent=spent)
    assert await store.task_so_far("t", "c") == TaskSoFar(first=began, asks=2, spent=spent)
    assert await store.task_so_far("u", "a") == TaskSoFar(first=place.clock())


async def test_a_grant_is_counted_no_further_than_it_reaches(store: Store):
    """By many at once."""
    await store.add_grant(grant(max_uses=3))
    used = await asyncio.gather(*(store.commit(Change(use="g")) for _ in range(8)))
    assert (used.count(None), used.count("grant")) == (3, 5)
    assert await store.grants() == []


async def test_a_grant_ends_when_it_is_revoked_or_late(place: Place, store: Store):
    """It is not listed then, and cannot be used."""
    await store.add_grant(grant("a", given=1.0))
    await store.add_grant(grant("b", given=2.0, until=place.clock.now + 60))
    assert [row.id for row in await store.grants("command:x")] == ["a", "b"]
    assert await store.grants("command:y") == []
    place.clock.now += 60
    assert await store.commit(Change(use="b")) == "grant"
    assert await store.revoke("a")
    assert not await store.revoke("a")
    assert await store.commit(Change(use="a")) == "grant"
    assert await store.grants() == []


async def test_the_first_decision_wins(store: Store):
    """The second is told what came before it."""
    await store.put_review(review(host=store.host))
    assert await store.decide([Decided(id="r", decision='"first"', by="ada")]) is None
    late = await store.decide([Decided(id="r", decision='"second"')])
    assert late is not None
    assert (late.state, late.decision, late.by) == ("decided", '"first"', "ada")


async def test_a_question_that_does_not_exist_is_not_decided(store: Store):
    """Nobody is told that it was; of several, the first that cannot be decided counts."""
    with pytest.raises(LookupError):
        await store.decide([Decided(id="r", decision="1")])
    await store.put_review(review(host=store.host))
    with pytest.raises(LookupError):
        await store.decide([Decided(id="r", decision="1"), Decided(id="other", decision="1")])
    await store.close_review("r", "withdrawn", keep_item=False)
    late = await store.decide([Decided(id="r", decision="1"), Decided(id="other", decision="1")])
    assert late is not None
    assert late.state == "withdrawn"


async def test_a_block_that_is_taken_back_is_lifted_with_it(place: Place, store: Store):
    """Unless another decision that can still be undone blocks the server, too."""
    denial = '{"type":"deny","reason":null,"reach":"server"}'
    block = BlockRow(identity="command:x", target="x", since=1.0)
    for id in ("a", "b"):
        await store.put_review(review(id, host=store.host, fingerprint=id))
        await store.decide([Decided(id=id, decision=denial, release=place.clock.now + 5, block=block)])
    assert await store.undo("a", place.clock.now)
    assert [row.identity for row in await store.blocks()] == ["command:x"]
    assert await store.undo("b", place.clock.now)
    assert await store.blocks() == []


async def test_what_blocks_nothing_lifts_no_block_when_it_is_taken_back(place: Place, store: Store):
    """Also if its reason quotes a decision that does."""
    denial = msgspec.json.encode({"type": "deny", "reason": '"reach":"server"', "reach": "call"}).decode()
    await store.block(BlockRow(identity="command:x", target="x", since=1.0))
    await store.put_review(review(host=store.host))
    await store.decide([Decided(id="r", decision=denial, release=place.clock.now + 5)])
    assert await store.undo("r", place.clock.now)
    assert [row.identity for row in await store.blocks()] == ["command:x"]


def left(store: Store, id: str, until: float) -> PendingCallRow:
    """Make a call whose caller was told to ask again."""
    return PendingCallRow(id=id, fingerprint=id, owner="ann", until=until)


async def test_calls_that_were_decided_about_leave_room_for_others(place: Place, store: Store):
    """A person who denies quickly is not told that too many wait."""
    for id in ("a", "b", "c"):
        await store.put_review(review(id, host=store.host, fingerprint=id, shared=True))
        assert await store.leave_review(left(store, id, place.clock.now + 60), most=1)
        await store.decide([Decided(id=id, decision="1")])
        await store.commit(Change(finish=await ticket(store, id)))
    for id, has_room in (("d", True), ("e", False)):
        await store.put_review(review(id, host=store.host, fingerprint=id, shared=True))
        assert await store.leave_review(left(store, id, place.clock.now + 60), most=1) is has_room


async def test_a_call_that_is_not_made_again_expires(place: Place, store: Store):
    """Its question waits no longer, whoever looks, and its content is gone."""
    await store.put_review(review(host=store.host, shared=True))
    await store.leave_review(left(store, "r", place.clock.now + 60), most=1)
    assert await store.undecided() == set()
    place.clock.now += 61
    await store.recover()
    row = await store.review("r")
    assert row is not None
    assert (row.state, row.item, await store.reviews()) == ("expired", None, [])


async def test_questions_are_in_the_order_of_their_times(store: Store):
    """A clock that was set back does not make the later one the older one."""
    for id, created in (("a", 2.0), ("b", 1.0)):
        await store.put_review(msgspec.structs.replace(review(id, fingerprint=id), created=created))
    assert [row.id for row in await store.reviews()] == ["b", "a"]
    assert [row.id for row in await store.reviews(latest=True)] == ["a", "b"]


async def test_decisions_for_a_round_are_kept_all_or_none(store: Store):
    """One that is late undoes the others."""
    for id in ("a", "b"):
        await store.put_review(review(id, host=store.host, fingerprint=id))
    await store.decide([Decided(id="b", decision="1")])
    late = await store.decide([Decided(id="a", decision="2"), Decided(id="b", decision="2")])
    assert late is not None
    assert late.id == "b"
    assert [row.id for row in await store.reviews()] == ["a"]


async def test_a_decision_is_carried_out_once(store: Store):
    """And its content is gone after it."""
    await store.put_review(review(host=store.host))
    assert await store.commit(Change(finish=await ticket(store))) == "review"
    await store.decide([Decided(id="r", decision="1")])
    assert await store.commit(Change(finish=await ticket(store), records=(record(),))) is None
    assert await store.commit(Change(finish=await ticket(store), records=(record(),))) == "review"
    row = await store.review("r")
    assert row is not None
    assert (row.state, row.item, row.decision, (await store.head()).seq) == ("done", None, None, 1)


@pytest.mark.parametrize("state", ["expired", "withdrawn"])
async def test_a_question_that_is_closed_cannot_be_decided(store: Store, state: str):
    """It says how it ended."""
    await store.put_review(review(host=store.host))
    await store.close_review("r", state, keep_item=False)
    late = await store.decide([Decided(id="r", decision="1")])
    assert late is not None
    assert (late.state, late.item) == (state, None)


async def test_a_decision_is_not_carried_out_in_place_of_a_later_one(place: Place, store: Store):
    """A process that was suspended may remember one that was withdrawn while another process took it for dead."""
    await store.put_review(review(host=store.host))
    await store.decide([Decided(id="r", decision="1", release=place.clock.now + 5)])
    remembered = await ticket(store)
    await store.undo("r", remembered.decided)
    place.clock.now += 1
    await store.decide([Decided(id="r", decision="2")])
    assert await store.commit(Change(finish=remembered)) == "review"
    row = await store.review("r")
    assert row is not None
    assert (row.state, row.decision) == ("decided", "2")
    assert await store.commit(Change(finish=await ticket(store))) is None


async def test_a_question_that_is_late_cannot_be_decided(place: Place, store: Store):
    """Even before anybody has closed it."""
    await store.put_review(review(host=store.host))
    place.clock.now = 1_000_600.0
    assert await store.decide([Decided(id="r", decision="1")]) is not None


async def test_every_change_of_a_question_is_counted(store: Store):
    """Whoever waits sees that there is something new."""
    seen = [await store.reviews_version()]
    await store.put_review(review(host=store.host))
    seen.append(await store.reviews_version())
    await store.decide([Decided(id="r", decision="1")])
    seen.append(await store.reviews_version())
    await store.commit(Change(finish=await ticket(store)))
    seen.append(await store.reviews_version())
    assert seen == sorted(set(seen))


async def test_a_question_comes_back_as_it_was_put(store: Store):
    """All of it; one that was never put is not there."""
    row = review(host=store.host)
    assert await store.put_review(row) == row
    assert await store.review("r") == row
    assert await store.reviews(("pending",)) == [row]
    [short] = await store.reviews(("pending",), contents=False)
    assert msgspec.structs.replace(short, item=row.item) == row
    assert await store.review("other") is None
    assert msgspec.structs.asdict(row)["state"] == "pending"


async def test_a_block_of_one_server_becomes_one_of_those_alike(store: Store):
    """An earlier release wrote it without what they have in common; blocked once more, it has that."""
    await store.block(BlockRow(identity="command:x", target="x", since=1.0))
    assert await store.blocks("coarse:1") == []
    await store.block(BlockRow(identity="command:x", target="x", since=2.0, coarse="coarse:1"))
    [row] = await store.blocks("coarse:1")
    assert (row.since, row.coarse) == (1.0, "coarse:1")


async def test_what_a_call_depends_on_is_read_at_once(store: Store):
    """Any identity of the server may be blocked; the definition is that of its own."""
    names = ("command:x", "coarse:1", "former:1")
    assert await store.standing(names, "order") == Standing(blocked=False, definition=None)
    row = DefinitionRow(identity="command:x", tool="order", digest="d", body="{}", allowed=1.0, by="me")
    await store.commit(Change(define=row))
    await store.commit(Change(define=msgspec.structs.replace(row, identity="coarse:1")))
    await store.block(BlockRow(identity="command:y", target="y", since=1.0, coarse="former:1"))
    assert await store.standing(names, "order") == Standing(blocked=True, definition=row)
    assert await store.standing(names[:2], "other") == Standing(blocked=False, definition=None)


async def test_a_change_is_made_only_if_what_it_supposes_is_so(store: Store):
    """The definition is the one that was allowed, its tool is on, and no block covers the server."""
    names = ("command:x", "coarse:1")
    change = Change(supposed=Supposed(identities=names, tool="order", digest="d"), records=(record(),))
    assert await store.commit(change) == "standing"
    row = DefinitionRow(identity="command:x", tool="order", digest="d", body="{}", allowed=1.0)
    await store.commit(Change(define=row))
    assert await store.commit(change) is None
    await store.switch_tool("command:x", "order", off=1.0)
    assert await store.commit(change) == "standing"
    await store.switch_tool("command:x", "order", off=None)
    await store.block(BlockRow(identity="command:y", target="y", since=1.0, coarse="coarse:1"))
    assert await store.commit(change) == "standing"
    await store.unblock("command:y")
    await store.commit(Change(define=msgspec.structs.replace(row, digest="e")))
    assert await store.commit(change) == "standing"
    assert (await store.head()).seq == 1


async def test_a_change_may_suppose_only_that_nobody_forbids_it(store: Store):
    """Whatever the definition is, known or not."""
    change = Change(supposed=Supposed(identities=("command:x", "coarse:1"), tool="order"), records=(record(),))
    assert await store.commit(change) is None
    await store.commit(
        Change(define=DefinitionRow(identity="command:x", tool="order", digest="d", body="{}", allowed=1.0))
    )
    assert await store.commit(change) is None
    await store.switch_tool("command:x", "order", off=1.0)
    assert await store.commit(change) == "standing"
    await store.switch_tool("command:x", "order", off=None)
    await store.block(BlockRow(identity="coarse:1", target="x", since=1.0))
    assert await store.commit(change) == "standing"


async def test_a_definition_that_changes_amid_calls_at_once_refuses_those_after_it(store: Store):
    """Calls of one tool are made together, and each depends on the definition as it is in its turn."""
    row = DefinitionRow(identity="command:x", tool="order", digest="d", body="{}", allowed=1.0)
    await store.commit(Change(define=row))
    supposed = Supposed(identities=("command:x",), tool="order", digest="d")
    call, other = (
        Change(supposed=supposed, records=(record(),)),
        Change(define=msgspec.structs.replace(row, digest="e")),
    )
    changes = (Change(records=(record(),)), call, call, other, call)
    assert await asyncio.gather(*(store.commit(change) for change in changes)) == [None, None, None, None, "standing"]
    assert (await store.head()).seq == 3


async def test_a_blocked_server_reserves_nothing(store: Store):
    """Until it is unblocked; another one does."""
    row = BlockRow(identity="command:x", target="x", since=1.0, by="me")
    await store.block(row)
    await store.block(BlockRow(identity="command:x", target="other", since=2.0))
    await store.block(BlockRow(identity="command:y", target="y", since=3.0))
    assert await store.commit(Change(hold=hold())) == "block"
    assert (await store.holds(), await store.balances()) == ([], [])
    assert await store.blocks("command:x") == [row]
    assert [each.target for each in await store.blocks()] == ["x", "y"]
    assert await store.unblock("command:x")
    assert not await store.unblock("command:x")
    assert await store.commit(Change(hold=hold())) is None


async def test_a_block_of_any_identity_prevents_a_reservation(store: Store):
    """Before it is found out whether the money suffices; of several accounts, the first that does not is named."""
    caps = {"day:1": Cap(money=15), "total": Cap(money=5)}
    assert await store.commit(Change(hold=hold("a", caps={"day:1": Cap(money=15)}))) is None
    assert await store.commit(Change(hold=hold("b", caps=caps))) == "day:1"
    await store.block(BlockRow(identity="former:1", target="x", since=1.0))
    held = msgspec.structs.replace(hold("b", caps=caps), coarser=("coarse:1", "former:1"))
    assert await store.commit(Change(hold=held)) == "block"


async def test_of_changes_at_once_only_the_refused_are_not_made(store: Store):
    """Though they are made together: each for itself, in the order they came."""
    cap = {"total": Cap(money=25)}
    changes = [Change(hold=hold(str(number), caps=cap), records=(record(outcome=str(number)),)) for number in range(4)]
    refused = await asyncio.gather(*(store.commit(change) for change in changes))
    assert refused == [None, None, "total", "total"]
    assert [entry.record.outcome for entry in await store.entries()] == ["0", "1"]
    assert (await Audit(store).verify()).whole
    assert [each.held for each in await store.balances()] == [Amount(money=20, tokens=10)]


async def test_questions_have_pages(store: Store):
    """A page begins after the last question of the one before, in either order, though that is over by then."""
    for at, id in enumerate(("d", "a", "c", "b")):
        row = review(id, fingerprint=id)
        await store.put_review(msgspec.structs.replace(row, created=row.created + at // 2))
    in_order = [row.id for row in await store.reviews()]
    first = [row.id for row in await store.reviews(limit=2)]
    assert await store.waiting() == 4
    await store.close_review(first[-1], "withdrawn", keep_item=False)
    assert [row.id for row in await store.reviews(after=first[-1])] == in_order[2:]
    assert [row.id for row in await store.reviews(latest=True, after=in_order[2])] == in_order[:1]
    assert await store.waiting() == 3
    await store.decide([Decided(id=in_order[3], decision="{}", release=1_000_009.0)])
    assert await store.waiting() == 2
