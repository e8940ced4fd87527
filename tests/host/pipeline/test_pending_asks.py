"""What waits in one process ends with its call, or with its server."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import Rejected
from antiphon.host import Answer, Approve, Deny, Echo, Host, MemoryStore, Policy, Scripted, digest
from antiphon.host.pipeline.case import PendingAsks
from antiphon.host.review.review import Blocked
from antiphon.host.store.base import BlockRow
from tests.host.asks import Person, approve, origin, request


class Desk(Person):
    """A person who has several requests on the desk, and decides each when told."""

    def __init__(self) -> None:
        super().__init__()
        self.open: dict[str, asyncio.Future] = {}
        self.changed = asyncio.Event()

    async def review(self, item):
        self.open[item.origin.id] = asyncio.get_running_loop().create_future()
        self.changed.set()
        return await self.open[item.origin.id]

    async def has(self, count: int) -> None:
        """Wait until so many lie there."""
        while len(self.open) < count:
            self.changed.clear()
            await self.changed.wait()


async def outcome(asking: asyncio.Task) -> tuple[str, list[str]]:
    """Return why something was refused."""
    with pytest.raises(Rejected) as caught:
        await asking
    return caught.value.data["reason"], getattr(caught.value, "__notes__", [])


async def test_a_block_ends_what_waits_at_a_reviewer_of_ones_own():
    """Without any queue: the others of the server are refused as blocked, those of another wait on."""
    person = Desk()
    host = Host(Scripted([]), reviewer=person)
    first = asyncio.create_task(host(request(), origin("1", call="a")))
    second = asyncio.create_task(host(request(), origin("2", call="b")))
    other = asyncio.create_task(host(request(), origin("3", command=["other"])))
    await person.has(3)
    person.open["1"].set_result(Deny(reach="server"))
    assert (await outcome(first))[0] == "user"
    assert await outcome(second) == ("policy", ["policy: blocked"])
    person.open["3"].set_result(Answer(result="still here"))
    assert (await other).text == "still here"


async def test_a_block_ends_what_waits_of_servers_alike():
    """The same server, started in another folder, does not escape it."""
    person = Desk()
    host = Host(Scripted([]), reviewer=person)
    first = asyncio.create_task(host(request(), origin("1", call="a", coarser=("coarse:1",))))
    moved = asyncio.create_task(host(request(), origin("2", call="b", command=["moved"], coarser=("coarse:1",))))
    await person.has(2)
    person.open["1"].set_result(Deny(reach="server"))
    assert (await outcome(first))[0] == "user"
    assert await outcome(moved) == ("policy", ["policy: blocked"])


async def test_a_permission_given_after_a_block_elsewhere_releases_nothing():
    """Another process blocked the server while somebody read here, at a terminal that no store can end."""
    person, store = Desk(), MemoryStore()
    host = Host(Scripted(["ok"]), reviewer=person, store=store)
    asking = asyncio.create_task(host(request(), origin("1")))
    await person.has(1)
    await store.block(BlockRow(identity=origin().identity, target="elsewhere", since=1.0))
    person.open["1"].set_result(Approve(digest=digest(request())))
    assert await outcome(asking) == ("policy", ["policy: blocked"])


@pytest.mark.parametrize("effect", ["allow", "ask"])
async def test_an_answer_made_while_the_server_was_blocked_stays_here(effect: str):
    """What it took is charged; the server gets none of it, reviewed or not."""
    store = MemoryStore()

    class Slow(Echo):
        """Takes so long that somebody blocks the server meanwhile."""

        async def complete(self, params, *, model=None):
            await store.block(BlockRow(identity=origin().identity, target="elsewhere", since=1.0))
            return await super().complete(params)

    host = Host(Slow(), reviewer=Person(approve), policy=Policy(default=effect), store=store)
    assert await outcome(asyncio.ensure_future(host(request(), origin()))) == ("policy", ["policy: blocked"])


async def test_a_stopped_call_ends_what_waits_of_it():
    """And nothing of another call of the same server."""
    person = Desk()
    host = Host(Scripted([]), reviewer=person)
    asked = [
        asyncio.create_task(host(request(), origin(str(number), call=call)))
        for number, call in enumerate(("a", "a", "b"))
    ]
    await person.has(3)
    person.open["0"].set_result(Deny(reach="call"))
    assert [(await outcome(each))[0] for each in asked[:2]] == ["user", "user"]
    person.open["2"].set_result(Answer(result="on it"))
    assert (await asked[2]).text == "on it"


async def test_what_expires_by_itself_is_not_withdrawn():
    """It says so: nobody ended it."""
    waiting = PendingAsks()
    with pytest.raises(TimeoutError):
        await waiting.put(origin(), 0.0, asyncio.get_running_loop().create_future())
    ending = asyncio.ensure_future(waiting.put(origin(), None, asyncio.get_running_loop().create_future()))
    await asyncio.sleep(0)
    waiting.end(origin("2"), "server")
    with pytest.raises(Blocked):
        await ending
