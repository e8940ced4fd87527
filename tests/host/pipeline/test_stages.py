"""What all kinds of asks have in common."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Literal

import pytest

from antiphon.errors import InternalError, InvalidParams, Rejected
from antiphon.host import Approve, Deny, Host, MemoryStore, Queue, Scripted, open_store
from antiphon.host.budget import Amount
from antiphon.host.pipeline.stages import place_of
from antiphon.host.review.review import digest_item
from antiphon.host.store.base import BlockRow
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.tools import CallToolRequestParams
from tests.host.asks import Person, approve, origin, request
from tests.host.store.stores import KINDS, Place

FORM = ElicitRequestParams.form("Name?", {"type": "object", "properties": {"name": {"type": "string"}}})


@pytest.fixture(params=KINDS)
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Place]:
    """One kind of store."""
    async with Place(request.param, tmp_path) as place:
        yield place


def test_the_place_is_before_the_colon():
    """As refusals of requests are written."""
    assert place_of(InvalidParams("messages[0].role: nobody")) == "messages[0].role"


class Cancelled(Scripted):
    """A provider whose connection pool was cancelled by somebody else."""

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Await something that was cancelled."""
        call = asyncio.get_running_loop().create_future()
        call.cancel()
        return await call


async def test_a_provider_that_was_cancelled_does_not_cancel_the_caller():
    """The caller gets an error, what was held is settled, and the audit says that the provider failed."""
    host = Host(Cancelled([]), reviewer=Person(approve))
    with pytest.raises(InternalError):
        await host(request(), origin())
    steps = [record.step for record in host.audit.records()]
    assert ("failed" in steps, "withdrawn" in steps, "settled" in steps) == (True, False, True)


@pytest.mark.parametrize("action", ["decline", "cancel"])
async def test_the_values_of_a_refused_form_are_dropped(action: Literal["decline", "cancel"]):
    """A reviewer of one's own may return what was typed even if the person has refused."""
    host = Host(reviewer=Person(approve, fill=ElicitResult(action=action, content={"name": "Ada"})))
    assert await host.elicit(FORM, origin()) == ElicitResult(action=action)


async def test_a_stopped_call_asks_nothing_more():
    """Its asks are refused unseen, its forms declined; other calls go on."""
    person = Person(lambda item: Deny(reach="call"), approve)
    host = Host(Scripted(["ok"]), reviewer=person)
    for ask in ("1", "2"):
        with pytest.raises(Rejected) as caught:
            await host(request(), origin(ask, call="a"))
        assert caught.value.data == {"reason": "user"}
    assert (await host.elicit(FORM, origin("3", call="a"))).action == "decline"
    assert (await host(request(), origin("4", call="b"))).text == "ok"
    assert (len(person.shown), person.forms) == (2, [])
    assert [record.outcome for record in host.audit.records("1") if record.step == "review"] == ["deny:call"]


async def test_a_blocked_server_asks_nothing_any_more():
    """Not with a policy that allows everything, not in another host on the same store, and no form either."""
    store = MemoryStore()
    with pytest.raises(Rejected):
        await Host(reviewer=Person(lambda item: Deny(reach="server")), store=store)(request(), origin("1"))
    for more in ({"review": "never", "reviewer": None}, {"provider": "manual", "reviewer": Person(approve)}):
        host = Host(store=store, **more)
        with pytest.raises(Rejected) as caught:
            await host(request(), origin("2"))
        assert caught.value.data == {"reason": "policy"}
        assert (await host.elicit(FORM, origin("3"))).action == "decline"
    other = Host(review="never", reviewer=None, store=store)
    assert (await other(request(), origin("4", command=["other"]))).model == "echo"


async def test_what_cannot_be_recorded_is_not_told():
    """A store that fails ends the ask, without its text."""

    class Broken(MemoryStore):
        async def commit(self, change):
            raise OSError("disk full at /secret")

    with pytest.raises(InternalError) as caught:
        await Host("echo", reviewer=None, review="never", store=Broken())(request(), origin())
    assert "secret" not in str(caught.value)


async def test_a_store_that_fails_puts_no_content_into_the_log(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    """Its driver's word for it, but not the statement, nor what was to be kept."""
    store = open_store(tmp_path / "host.db")
    await store.reviews()
    other = sqlite3.connect(tmp_path / "host.db")
    other.execute("DROP TABLE reviews")
    other.close()
    with pytest.raises(InternalError):
        await Host(reviewer=Queue(store), store=store)(request("my diary"), origin())
    await store.aclose()
    assert "no such table: reviews" in caplog.text
    assert not any(said in caplog.text for said in ("diary", "SELECT", "INSERT", "sqlalche.me"))


async def test_what_is_withdrawn_is_recorded():
    """Whenever it is."""
    waiting = asyncio.Event()

    class Slow(Person):
        async def review(self, item):
            waiting.set()
            await asyncio.Event().wait()

    host = Host(reviewer=Slow(approve))
    task = asyncio.create_task(host(request(), origin()))
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert host.audit.records()[-1].step == "withdrawn"


async def test_a_block_holds_for_servers_alike(place: Place):
    """A change of folder escapes it, for requests, tools and forms, and so does the form of earlier releases."""
    async with place.open() as store:
        host = Host(reviewer=Person(lambda item: Deny(reach="server")), store=store)
        with pytest.raises(Rejected):
            await host(request(), origin("1", coarser=("coarse:1", "command:1")))
        moved = origin("2", command=["moved"], coarser=("coarse:1", "command:2"))
        open_to_all = Host(review="never", reviewer=None, store=store)
        for asked in (open_to_all(request(), moved), open_to_all.confirm(CallToolRequestParams.of("buy", {}), moved)):
            with pytest.raises(Rejected) as caught:
                await asked
            assert caught.value.data == {"reason": "policy"}
        other = origin("3", command=["other"], coarser=("coarse:2", "command:3"))
        assert (await open_to_all(request(), other)).model == "echo"


async def test_a_block_of_an_earlier_release_holds(place: Place):
    """It knew the server by the words of its command line."""
    async with place.open() as store:
        await store.block(BlockRow(identity="command:1", target="python shop.py", since=0.0))
        with pytest.raises(Rejected) as caught:
            await Host(review="never", reviewer=None, store=store)(
                request(), origin("1", coarser=("coarse:1", "command:1"))
            )
        assert caught.value.data == {"reason": "policy"}


ODD = {
    "form": (ElicitResult(action="maybe"), "elicit"),
    "form denied": (Deny(reach="everything"), "elicit"),
    "scope": (lambda item: Approve(digest=digest_item(item), scope="for ever"), "review"),
    "terms": (lambda item: Approve(digest=digest_item(item), scope="always", terms=5), "review"),
    "reach": (lambda item: Deny(reach="everything"), "review"),
    "text": (lambda item: "approve", "review"),
}


@pytest.mark.parametrize("odd", ODD)
async def test_what_a_reviewer_must_not_say_is_its_failure(odd: str, caplog: pytest.LogCaptureFixture):
    """A reviewer of one's own may have a mistake: nothing is sent, kept or handed over, and the log says so."""
    said, how = ODD[odd]
    provider = Scripted(["ok"])
    reviewer = Person(fill=said) if how == "elicit" else Person(said)
    host = Host(provider, reviewer=reviewer)
    with pytest.raises(InternalError):
        await (host.elicit(FORM, origin()) if how == "elicit" else host(request(), origin()))
    assert provider.requests == []
    assert await host.grants.all() == []
    assert "the reviewer failed" in caplog.text


class Stop(BaseException):
    """What a framework raises to end a program's work."""


class Stopping(Scripted):
    """A provider within which a program is ended."""

    async def complete(self, params: CreateMessageRequestParams, *, model: str | None = None) -> CreateMessageResult:
        """Raise something that is no ``Exception``."""
        raise Stop


async def test_what_ends_a_program_settles_what_was_held():
    """It passes; until the end of the process nobody could spend what the reservation held."""
    store = MemoryStore()
    host = Host(Stopping([]), reviewer=Person(approve), store=store)
    with pytest.raises(Stop):
        await host(request(), origin())
    assert {each.held for each in await store.balances()} == {Amount()}
    assert [record.step for record in host.audit.records()][-2:] == ["failed", "settled"]
