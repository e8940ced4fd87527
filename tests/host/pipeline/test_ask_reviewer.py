"""Asking a person, within bounds."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import Rejected
from antiphon.host import Answer, Deny, Host, Limits, Queue, Scripted
from antiphon.host.store import MemoryStore
from antiphon.host.store.base import Ticket
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import Person, origin, request

FORM = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}})


class Slow(Person):
    """A person who decides when told."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = asyncio.Event()
        self.decide = asyncio.Event()

    async def review(self, item):
        self.asked.set()
        await self.decide.wait()
        return Deny()

    async def elicit(self, item):
        return await self.review(item)


async def test_a_person_is_not_buried():
    """While as many wait as may, the next is refused; a form is declined."""
    person = Slow()
    host = Host(Scripted([]), reviewer=person, limits=Limits(pending_reviews=1))
    first = asyncio.create_task(host(request(), origin("1")))
    await person.asked.wait()
    with pytest.raises(Rejected) as caught:
        await host(request(), origin("2"))
    assert caught.value.data == {"reason": "limit"}
    assert caught.value.__notes__ == ["limit: pending_reviews"]
    assert await host.elicit(FORM, origin("3")) == ElicitResult(action="decline")
    person.decide.set()
    with pytest.raises(Rejected):
        await first


@pytest.mark.parametrize("ask", ["request", "call"])
async def test_a_refusal_says_where_a_question_waited(ask: str):
    """Its place is for our own caller: the server hears of no reviewer."""
    store = MemoryStore()
    host = Host(Scripted([]), reviewer=Queue(store), store=store, review_timeout=0.05)
    with pytest.raises(Rejected, match=r"run antiphon review \(in a terminal\) or antiphon review --web") as caught:
        await (host(request(), origin()) if ask == "request" else host.confirm(CallToolRequestParams.of("f"), origin()))
    assert caught.value.data == {"reason": "expired"}
    assert "antiphon" not in caught.value.told


async def test_forms_are_limited_and_recorded():
    """As everything that a server asks; the person sees which server it is, and for which call."""
    person = Person(fill=ElicitResult(action="accept", content={"name": "Ada"}))
    host = Host(reviewer=person, limits=Limits(per_minute=2))
    actions = [(await host.elicit(FORM, origin(str(number)))).action for number in range(3)]
    assert actions == ["accept", "accept", "decline"]
    [shown, _] = person.forms
    assert (shown.origin.target, shown.origin.call.name, shown.params) == ("python catalogue.py", "describe", FORM)
    assert [(record.method, record.step, record.outcome) for record in host.audit.records("0")] == [
        ("elicitation/create", "received", ""),
        ("elicitation/create", "policy", "ask"),
        ("elicitation/create", "answered", "accept"),
    ]
    assert [(record.step, record.outcome) for record in host.audit.records("2")][-1] == ("refused", "limit:per_minute")
    assert "Ada" not in str(host.audit.records())


async def test_who_decided_is_recorded():
    """Where the reviewer says so."""
    host = Host(Scripted([]), reviewer=Person(lambda item: Answer(result="x", ticket=Ticket(id="r", by="ada"))))
    host.store.commit = _unchecked(host.store.commit)
    await host(request(), origin())
    assert [record.by for record in host.audit.records() if record.step == "review"] == ["ada"]


def _unchecked(commit):
    """Let a decision be carried out that no queue has kept."""
    import msgspec

    async def committed(change):
        return await commit(msgspec.structs.replace(change, finish=None))

    return committed
