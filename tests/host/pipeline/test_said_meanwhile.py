"""What other people and processes say between two steps of one ask."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from antiphon.errors import InternalError, Rejected
from antiphon.host import Answer, Approve, Host, MemoryStore, Policy, Queue, Scripted, digest
from antiphon.host.budget import Amount
from antiphon.host.store.base import OPEN, BlockRow, Change, ReviewRow, Store
from tests.host.asks import Person, approve, origin, request
from tests.host.pipeline.test_result_stage import ORDER, passed, rules, said
from tests.host.pipeline.test_tool_consent import asked, call
from tests.host.review.test_queue import approval, first


class Interrupted(MemoryStore):
    """A store in which somebody else does something right after one kind of read."""

    def __init__(self, read: str, act: Callable[[Store], Awaitable[object]]) -> None:
        super().__init__()
        self._read, self._act = read, act

    async def after(self, read: str, found: Any) -> Any:
        """Let the other one act, once."""
        if read == self._read:
            self._read = ""
            await self._act(self)
        return found

    async def standing(self, *names: Any) -> Any:
        """See ``base.Store.standing``."""
        return await self.after("standing", await super().standing(*names))

    async def grants(self, *names: Any) -> Any:
        """See ``base.Store.grants``."""
        return await self.after("grants", await super().grants(*names))

    async def blocks(self, *names: Any) -> Any:
        """See ``base.Store.blocks``."""
        return await self.after("blocks", await super().blocks(*names))


async def block(store: Store) -> None:
    """Block the server, as another process does."""
    await store.block(BlockRow(identity=asked().identity, target="x", since=1.0))


async def switch_off(store: Store) -> None:
    """Switch the tool off, as another process does."""
    await store.switch_tool(asked().identity, "order", off=1.0, by="me")


async def refusal(call: Awaitable[object]) -> tuple[str, list[str]]:
    """Return why a call is refused, with what is noted of it."""
    with pytest.raises(Rejected) as caught:
        await call
    return caught.value.data["reason"], getattr(caught.value, "__notes__", [])


SAID = pytest.mark.parametrize(
    ("act", "detail"), [(block, "policy: blocked"), (switch_off, "policy: switched off")], ids=["block", "switch"]
)


@SAID
async def test_a_call_that_a_rule_allows_is_not_made_after_all(act, detail: str):
    """Somebody forbids it after the store was read."""
    host = Host(reviewer=None, policy=Policy(default="allow"), store=Interrupted("standing", act))
    assert await refusal(host.confirm(call(), asked())) == ("policy", [detail])
    assert [record.outcome for record in host.audit.records() if record.step == "answered"] == []


@SAID
async def test_a_call_that_a_grant_covers_is_not_made_after_all(act, detail: str):
    """Somebody forbids it after the grants were read, and the grant is not used up."""
    store = Interrupted("", act)
    person = Person(lambda item: Approve(digest=digest(item.params), scope="session"))
    host = Host(reviewer=person, store=store)
    assert await host.confirm(call(), asked("1"))
    store._read = "grants"
    assert await refusal(host.confirm(call(), asked("2"))) == ("policy", [detail])
    assert (len(person.shown), [row.used for row in await store.grants()]) == (1, [0])


@SAID
async def test_a_call_that_a_person_approves_is_not_made_after_all(act, detail: str):
    """Somebody forbids it after the decision was read; a tool may be switched off before it, too."""
    host = Host(reviewer=Person(approve), store=Interrupted("blocks", act))
    assert await refusal(host.confirm(call(), asked())) == ("policy", [detail])
    assert await host.store.definitions() == [] or (await host.store.definitions())[0].off is not None


async def test_a_tool_that_is_switched_off_is_not_called_by_an_approval_after_that():
    """The question was there before; it is over then."""
    store = MemoryStore()
    queue = Queue(store)
    asking = asyncio.create_task(Host(reviewer=queue, store=store).confirm(call(), asked()))
    [question] = await first(queue)
    await switch_off(store)
    await queue.decide(question.id, approval(question), hash=question.hash)
    assert await refusal(asking) == ("policy", ["policy: switched off"])
    assert await store.reviews(OPEN) == []


class Retracted(Interrupted):
    """A store in which a decision is taken back right after its process has read it."""

    async def review(self, id: str) -> ReviewRow | None:
        """See ``base.Store.review``."""
        found = await super().review(id)
        return await self.after("review", found) if found is not None and found.state == "decided" else found


async def retract(store: Store) -> None:
    """Take all decisions for lost, as a process does that takes this one for dead; somebody then denies."""
    for row in await store.reviews(("decided",)):
        await store.block(BlockRow(identity=row.identity, target="x", since=1.0))
        await store.unblock(row.identity)


@pytest.mark.parametrize("response", ["never", "always"], ids=["in person", "response"])
async def test_an_answer_is_not_handed_over_by_a_decision_that_is_gone(response: Any):
    """Written by the person, or by a model and approved: neither leaves."""
    store = Retracted("review", retract)
    queue = Queue(store)
    policy = Policy(default="ask" if response == "never" else "allow")
    host = Host(Scripted(["one"]), reviewer=queue, store=store, policy=policy, review_response=response)
    asking = asyncio.create_task(host(request(), origin()))
    [question] = await first(queue)
    item = question.item
    made = Answer(result="mine") if response == "never" else Approve(digest=digest(item.result))
    await queue.decide(question.id, made, hash=question.hash)
    assert await refusal(asking) == ("changed", ["changed: the decision does not exist any more"])
    assert "answered" not in [record.step for record in host.audit.records()]


async def test_a_result_is_not_handed_over_by_a_decision_that_is_gone():
    """The model is told that it is withheld."""
    store = Retracted("review", retract)
    queue = Queue(store)
    host = Host(reviewer=queue, store=store, policy=rules("ask", "instructions"))
    asking = asyncio.create_task(passed(host.policy, ORDER, host=host))
    [question] = await first(queue)
    await queue.decide(question.id, Approve(digest=digest(question.item.result)), hash=question.hash)
    assert "withheld" in said(await asking)


class Failing(MemoryStore):
    """A store whose reply is lost when a request is to be sent, though what it was told is stored."""

    async def commit(self, change: Change) -> str | None:
        """See ``base.Store.commit``."""
        refused = await super().commit(change)
        if change.send is not None or (change.hold is not None and change.hold.sent):
            raise OSError("the connection was lost")
        return refused


@pytest.mark.parametrize("reviewer", [None, Person(approve)], ids=["rule", "person"])
async def test_what_was_not_sent_costs_nothing(reviewer: Person | None):
    """The provider is called only after that is stored; if the store fails, it never is."""
    provider = Scripted(["one"])
    policy = Policy(default="ask" if reviewer else "allow")
    host = Host(provider, store=Failing(), policy=policy, reviewer=reviewer)
    with pytest.raises(InternalError):
        await host(request(), origin())
    balances = await host.store.balances()
    assert (provider.requests, {(each.held, each.spent) for each in balances}) == ([], {(Amount(), Amount())})
    assert "settled" not in [record.step for record in host.audit.records()]
