"""Asks: requests of the server's within a call, and the clock that stands still for them."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.errors import CallTimeout, InternalError, InvalidParams, LocalProtocolError, Rejected
from antiphon.wire.envelope import decode_wire
from antiphon.wire.methods import METHODS
from antiphon.wire.revisions import LEGACY
from antiphon.wire.roots import ListRootsResult, Root
from antiphon.wire.sampling import CreateMessageResult
from tests.support.linked import ANSWER, SAMPLE, done, linked, settle


async def asking(request, peer):
    """Ask once, and return what was answered."""
    outgoing = peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request)
    answer = decode_wire(await peer.request(outgoing), CreateMessageResult)
    return done(answer.content.text)


async def answering(_request, _peer):
    """Answer at once."""
    return ANSWER


@pytest.mark.parametrize("revision", LEGACY)
async def test_a_call_asks_and_goes_on(revision):
    """In every revision that has requests of the server's."""
    async with linked(asking, answering, revision=revision) as link:
        assert await link.call() == "yes"
        link.check_empty()


async def test_an_answer_may_take_its_time():
    """The client reads on, and serves others."""
    go = asyncio.Event()

    async def answer(_request, _peer):
        await go.wait()
        return ANSWER

    async with linked(asking, answer) as link:
        calls = [link.started() for _ in range(20)]
        await settle()
        go.set()
        assert await asyncio.gather(*calls) == ["yes"] * 20
        link.check_empty()


async def test_asks_of_one_call_run_at_once():
    """Their answers come in any order."""
    order = []

    async def tool(request, peer):
        async def one(number):
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))
            order.append(number)

        await asyncio.gather(*(one(number) for number in range(3)))
        return done()

    turns = iter([asyncio.Event() for _ in range(3)])
    waiting = []

    async def answer(_request, _peer):
        turn = next(turns)
        waiting.append(turn)
        await turn.wait()
        return ANSWER

    async with linked(tool, answer) as link:
        call = link.started()
        await settle()
        for turn in reversed(waiting):
            turn.set()
            await settle()
        assert await call == "done"
        assert order == [2, 1, 0]


async def test_an_ask_may_be_answered_while_another_handler_still_asks():
    """Two calls, each with its own ask."""
    go = asyncio.Event()

    async def answer(request, _peer):
        if request.id == 1:
            await go.wait()
        return ANSWER

    async with linked(asking, answer) as link:
        first, second = link.started(), link.started()
        assert await second == "yes"
        assert not first.done()
        go.set()
        assert await first == "yes"


async def test_a_refusal_reaches_the_handler_as_an_error_of_the_peers():
    """It is the handler's to tell; by itself it is told to nobody."""

    async def tool(request, peer):
        try:
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request))
        except Rejected as error:
            return done(f"{error.remote} {error.data}")

    async def answer(_request, _peer):
        raise Rejected("User rejected sampling request", data={"reason": "person"})

    async with linked(tool, answer) as link:
        assert await link.call() == "True {'reason': 'person'}"


async def test_an_answerer_may_call_the_server_back():
    """A host that uses the server's own tools to answer: calls within asks within calls."""

    async def tool(request, peer):
        return done("inner") if request.params.name == "inner" else await asking(request, peer)

    async with linked(tool, lambda _request, _peer: ANSWER) as link:

        async def answer(_request, _peer):
            assert await link.call("inner") == "inner"
            return ANSWER

        link.client._handlers = {"sampling/createMessage": answer}
        assert await link.call("outer") == "yes"
        link.check_empty()


async def test_roots_may_be_listed_outside_of_a_call():
    """The server asks of its own accord."""
    answers = {"roots/list": lambda _request, _peer: ListRootsResult(roots=[Root(uri="file:///a")])}
    async with linked(asking, answers) as link:
        raw = await link.ask(None, "roots/list")
        assert decode_wire(raw, ListRootsResult).roots[0].uri == "file:///a"


async def test_an_ask_left_behind_by_its_call_is_withdrawn():
    """The handler returns without waiting: the client is told to stop, whoever still waits gets an error."""
    left, stopped = [], asyncio.Event()

    async def tool(request, peer):
        left.append(asyncio.ensure_future(asking(request, peer)))
        await asyncio.sleep(0)
        return done()

    async def answer(_request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(tool, answer) as link:
        assert await link.call() == "done"
        await stopped.wait()
        with pytest.raises(LocalProtocolError, match="has ended"):
            await left[0]
        link.check_empty()


async def test_an_ask_of_a_call_that_has_ended_is_not_sent():
    """A task that outlives its call cannot ask any more."""
    kept = []

    async def tool(request, _peer):
        kept.append(request)
        return done()

    async with linked(tool, answering) as link:
        await link.call()
        with pytest.raises(LocalProtocolError, match="has ended"):
            await link.ask(kept[0])


async def test_a_handler_that_fails_withdraws_its_asks():
    """One of several asks failed; the others are not left with the user."""
    stopped = asyncio.Event()

    async def tool(request, peer):
        async with asyncio.TaskGroup() as group:
            group.create_task(asking(request, peer))
            group.create_task(asking(request, peer))

    async def answer(request, _peer):
        if request.id == 1:
            raise InvalidParams("no")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()

    async with linked(tool, answer) as link:
        with pytest.raises(InternalError, match="Internal error"):
            await link.call()
        await stopped.wait()
        link.check_empty()


# --- human time is free -----------------------------------------------------------------------------------------------


async def test_the_deadline_of_a_call_stands_still_while_an_ask_is_answered(clock):
    """However long a person thinks; then it goes on where it stood."""
    go, asked = asyncio.Event(), asyncio.Event()

    async def tool(request, peer):
        await asking(request, peer)
        asked.set()
        await asyncio.Event().wait()

    async def answer(_request, _peer):
        await go.wait()
        return ANSWER

    async with linked(tool, answer) as link:
        call = link.started(timeout=10)
        await clock.advance(100_000)
        assert not call.done()
        go.set()
        await asked.wait()
        await clock.advance(9)
        assert not call.done()
        await clock.advance(2)
        with pytest.raises(CallTimeout, match="within 10 s"):
            await call


async def test_an_answer_given_at_once_does_not_stop_the_clock(clock):
    """A refusal costs the server its own time."""

    async def tool(request, peer):
        while True:
            await asking(request, peer)
            await asyncio.sleep(1)

    async with linked(tool, lambda _request, _peer: ANSWER) as link:
        call = link.started(timeout=10)
        for _ in range(11):
            await clock.advance(1)
        with pytest.raises(CallTimeout):
            await call


async def test_several_asks_at_once_stop_the_clock_once(clock):
    """It goes on when the last of them was answered."""
    turns = [asyncio.Event(), asyncio.Event()]

    async def tool(request, peer):
        await asyncio.gather(asking(request, peer), asking(request, peer))
        await asyncio.Event().wait()

    async def answer(request, _peer):
        await turns[request.id - 1].wait()
        return ANSWER

    async with linked(tool, answer) as link:
        call = link.started(timeout=10)
        await clock.advance(50)
        turns[0].set()
        await clock.advance(50)
        assert not call.done()
        turns[1].set()
        await clock.advance(9)
        assert not call.done()
        await clock.advance(2)
        with pytest.raises(CallTimeout):
            await call


async def test_a_withdrawn_ask_lets_the_clock_go_on(clock):
    """The server gave up on it."""

    async def tool(request, peer):
        with pytest.raises(CallTimeout):
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request), timeout=5)
        await asyncio.Event().wait()

    async def answer(_request, _peer):
        await asyncio.Event().wait()

    async with linked(tool, answer) as link:
        call = link.started(timeout=10)
        await clock.advance(5)
        await clock.advance(9)
        assert not call.done()
        await clock.advance(2)
        with pytest.raises(CallTimeout):
            await call


async def test_the_clock_of_a_server_does_not_stand_still_for_calls(clock):
    """Only a client answers on behalf of a person."""

    async def tool(request, peer):
        try:
            await peer.request(peer.session.ask(METHODS["sampling/createMessage"], SAMPLE, request), timeout=5)
        except CallTimeout as error:
            return done(str(error))

    async def answer(_request, _peer):
        await asyncio.Event().wait()

    async with linked(tool, answer) as link:
        call = link.started()
        await clock.advance(5)
        assert await call == "sampling/createMessage was not answered within 5 s"


@pytest.mark.requirement("lifecycle.timeouts")
async def test_each_call_has_a_deadline_of_its_own(clock):
    """Those that pass are given up, and the server is told to stop; the others go on."""
    stopped = []

    async def tool(request, _peer):
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(request.params.name)

    async with linked(tool) as link:
        calls = {seconds: link.started(str(seconds), timeout=seconds) for seconds in (3, 1, 2)}
        patient = link.started("patient")
        for seconds in (1, 2, 3):
            await clock.advance(1)
            with pytest.raises(CallTimeout, match=f"within {seconds} s"):
                await calls[seconds]
        assert stopped == ["1", "2", "3"]
        assert not patient.done()
        patient.cancel()
        await asyncio.wait([patient])


async def test_a_deadline_that_has_passed_is_a_timeout_error(clock):
    """For callers who know only Python."""

    async def tool(_request, _peer):
        await asyncio.Event().wait()

    async with linked(tool) as link:
        call = link.started(timeout=1)
        await clock.advance(1)
        with pytest.raises(TimeoutError):
            await call


async def test_no_timer_is_left_when_all_calls_were_answered(clock):
    """Closing stops the clock."""

    async def tool(_request, _peer):
        return done()

    async with linked(tool) as link:
        await link.call(timeout=60)
        await link.client.close()
        assert link.client.waiting._timer is None
