"""Which call an ask belongs to, how many each may cost, and whose turn it is."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.client.answers.ownership import OpenCall, OpenCalls
from antiphon.client.rounds.loop import RoundLimits
from antiphon.errors import InvalidParams
from antiphon.protocol.events import Request
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Raw
from antiphon.wire.methods import METHODS
from antiphon.wire.prompts import GetPromptRequestParams
from antiphon.wire.resources import ReadResourceRequestParams
from antiphon.wire.revisions import LATEST_LEGACY
from antiphon.wire.tools import CallToolRequestParams

PARAMS = CallToolRequestParams.of("t", {"x": 1})


def calls(**limits: int) -> OpenCalls:
    """Make an empty table."""
    return OpenCalls(RoundLimits(**limits))


def an_ask() -> Request:
    """Make an ask as it arrives."""
    spec = METHODS["sampling/createMessage"]
    return Request(1, spec, RequestParams(), Raw(b"{}"), LATEST_LEGACY, meta=None, capabilities=None)


async def waiting(table: OpenCalls, owner: OpenCall | None = None) -> asyncio.Task[None]:
    """Begin to wait for a turn."""

    async def wait() -> None:
        turn = table.take_turn(owner)
        if turn is not None:
            await turn

    task = asyncio.create_task(wait())
    await asyncio.sleep(0)
    return task


def test_arguments_that_nobody_can_read_are_invalid() -> None:
    """Or the caller, perhaps a host before a gateway, would be told of an internal error."""
    with pytest.raises(InvalidParams, match=r"arguments: Number out of range"):
        OpenCall("tools/call", CallToolRequestParams.of("t", Raw(b'{"x":1e400}'))).origin()
    with pytest.raises(InvalidParams, match=r"arguments: .*UTF-8"):
        OpenCall("tools/call", CallToolRequestParams.of("t", Raw(b'{"x":"\xff"}'))).origin()


# --- whose an ask is -----------------------------------------------------------------------------------------------


def test_the_only_open_call_owns_every_ask() -> None:
    """There is no other it could belong to."""
    table = calls()
    assert (table.only_call(), table.may_ask) == (None, False)
    only = table.open("tools/call", PARAMS)
    assert table.only_call() is table.only_call("tools/call") is only
    assert table.only_call("prompts/get") is None
    table.close(only)
    assert (table.only_call(), table.may_ask) == (None, False)


def test_no_call_owns_an_ask_that_a_call_given_up_may_have_sent() -> None:
    """The only open call owns asks again once the server has answered a call that was made later."""
    table = calls()
    table.close(table.open("tools/call", PARAMS), given_up=True)
    assert (table.only_call(), table.may_ask) == (None, True)
    later = table.open("tools/call", PARAMS)
    assert table.only_call() is table.only_call("tools/call") is None
    table.close(later)
    assert table.only_call() is None
    last = table.open("tools/call", PARAMS)
    assert table.only_call() is last


def test_of_several_calls_the_stream_tells_the_owner() -> None:
    """Without it nobody knows."""
    table = calls()
    one, two = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    one.request, two.request = 7, 8
    assert table.call_of(8) is two
    assert table.call_of(7) is one
    assert table.only_call() is None
    assert table.call_of(9) is None


def test_a_call_says_what_it_is() -> None:
    """Name and arguments, whatever the method; and a name of its own."""
    table = calls()
    tool = table.open("tools/call", PARAMS).origin()
    prompt = table.open("prompts/get", GetPromptRequestParams(name="p", arguments={"a": "b"})).origin()
    read = table.open("resources/read", ReadResourceRequestParams(uri="s://x")).origin()
    assert (tool.method, tool.name, tool.arguments) == ("tools/call", "t", {"x": 1})
    assert (prompt.name, prompt.arguments) == ("p", {"a": "b"})
    assert (read.name, read.arguments) == ("s://x", None)
    assert len({tool.id, prompt.id, read.id}) == 3


def test_a_call_that_goes_on_keeps_its_name() -> None:
    """Whatever else was called meanwhile, in whichever process."""
    assert calls().open("tools/call", PARAMS, name="12-abcd").origin().id == "12-abcd"


# --- how many ------------------------------------------------------------------------------------------------------


def test_one_call_has_its_limit() -> None:
    """And the next one has it anew."""
    table = calls(asks=2)
    for _ in range(2):
        call = table.open("tools/call", PARAMS)
        assert [table.charge(call) for _ in range(3)] == [True, True, False]
        table.close(call)


def test_calls_whose_asks_are_told_apart_are_counted_apart() -> None:
    """What one has used up is not taken from the other."""
    table = calls(asks=2)
    one, two = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    assert [table.charge(one) for _ in range(3)] == [True, True, False]
    assert [table.charge(two) for _ in range(3)] == [True, True, False]


def test_asks_of_nobody_knows_which_call_share_what_is_left() -> None:
    """No call that keeps to its limit is ever refused."""
    table = calls(asks=3)
    one = table.open("tools/call", PARAMS)
    assert table.charge(one)
    table.open("tools/call", PARAMS)
    assert [table.charge(None) for _ in range(6)] == [True] * 5 + [False]


def test_what_a_call_did_not_use_ends_with_it() -> None:
    """A server cannot save it up for another call."""
    table = calls(asks=3)
    long = table.open("tools/call", PARAMS)
    for _ in range(50):
        table.close(table.open("tools/call", PARAMS))
    assert [table.charge(long) for _ in range(4)] == [True] * 3 + [False]


def test_the_shared_asks_of_a_call_that_has_ended_are_its_own() -> None:
    """As many as it may have had: the calls that are still open keep what is left for them."""
    table = calls(asks=3)
    one, two = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    assert all(table.charge(None) for _ in range(4))
    table.close(one)
    assert [table.charge(two) for _ in range(3)] == [True] * 3
    third = table.open("tools/call", PARAMS)
    table.close(two)
    assert [table.charge(third) for _ in range(4)] == [True, True, True, False]


def test_asks_without_a_call_are_counted_until_the_request_ends() -> None:
    """A list during which the server asks is bounded as well; the next one begins anew."""
    table = calls(asks=2)
    for _ in range(3):
        assert [table.charge(None) for _ in range(3)] == [True, True, False]
        table.note_rest()


# --- whose turn ----------------------------------------------------------------------------------------------------


async def test_few_asks_of_a_call_are_answered_at_once() -> None:
    """The next one has its turn when one has ended."""
    table = calls(at_once=2)
    call = table.open("tools/call", PARAMS)
    tasks = [await waiting(table, call) for _ in range(4)]
    assert [task.done() for task in tasks] == [True, True, False, False]
    table.end_turn(call)
    await asyncio.wait_for(tasks[2], 60)
    assert not tasks[3].done()
    tasks[3].cancel()


async def test_every_open_call_adds_turns() -> None:
    """Or an answerer that calls the same server would wait for itself."""
    table = calls(at_once=1)
    outer = table.open("tools/call", PARAMS)
    assert table.take_turn(outer) is None
    blocked = await waiting(table)
    assert not blocked.done()
    table.open("tools/call", PARAMS)
    await asyncio.wait_for(blocked, 60)


async def test_a_call_that_waits_does_not_hold_up_another() -> None:
    """Turns are taken in order only among those whose turn it can be."""
    table = calls(at_once=1)
    one, two = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    assert table.take_turn(one) is None
    first = await waiting(table, one)
    second = await waiting(table, two)
    table.close(table.open("tools/call", PARAMS))
    await asyncio.wait_for(second, 60)
    assert not first.done()
    first.cancel()


async def test_who_no_longer_waits_takes_no_turn() -> None:
    """Neither before it was given one nor after."""
    table = calls(at_once=1)
    call = table.open("tools/call", PARAMS)
    assert table.take_turn(call) is None
    before, after, last = [await waiting(table, call) for _ in range(3)]
    before.cancel()
    await asyncio.sleep(0)
    table.end_turn(call)
    after.cancel()
    await asyncio.wait_for(last, 60)
    assert before.cancelled()
    assert after.cancelled()
    assert call.answering == 1


# --- an ask ends with its call -------------------------------------------------------------------------------------


def test_an_ask_ends_with_its_call() -> None:
    """Its answerer is told why; one that was answered already is not."""
    table = calls()
    call = table.open("tools/call", PARAMS)
    told: list[object] = []
    ask, answered = an_ask(), an_ask()
    ask.on_cancel = answered.on_cancel = told.append
    table.bind(ask, call)
    table.bind(answered, call).discard(answered)
    table.close(call)
    assert told == ["the call it belongs to has ended"]


def test_a_shared_ask_ends_with_the_last_call() -> None:
    """As long as there is one, it may belong to it."""
    table = calls()
    one, two = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    told: list[object] = []
    ask = an_ask()
    ask.on_cancel = told.append
    table.bind(ask, None)
    table.close(one)
    assert told == []
    table.close(two)
    assert len(told) == 1


def test_an_ask_of_no_call_ends_with_none() -> None:
    """It came during a list."""
    table = calls()
    told: list[object] = []
    ask = an_ask()
    ask.on_cancel = told.append
    table.bind(ask, None)
    table.close(table.open("tools/call", PARAMS))
    assert told == []


# --- calls that were given up ---------------------------------------------------------------------------------------


def test_what_belongs_to_a_call_that_was_given_up_counts_for_no_other() -> None:
    """The server asks for it until it hears of it: the next call has its own number of asks all the same."""
    table = calls(asks=3)
    for call in [table.open("tools/call", PARAMS) for _ in range(4)]:
        table.close(call, given_up=True)
    innocent = table.open("tools/call", PARAMS)
    assert all(table.charge(table.only_call()) for _ in range(12))
    assert innocent.asked == 0
    assert [table.charge(table.only_call()) for _ in range(4)] == [True, True, True, False]


def test_what_is_certainly_a_calls_counts_for_it() -> None:
    """The transport says whose it is."""
    table = calls(asks=1)
    table.close(table.open("tools/call", PARAMS), given_up=True)
    innocent = table.open("tools/call", PARAMS)
    assert table.charge(innocent, is_certain=True)
    assert not table.charge(innocent, is_certain=True)


def test_a_later_call_that_was_answered_ends_that() -> None:
    """The server has read the cancellations before it."""
    table = calls(asks=2)
    before, given_up = table.open("tools/call", PARAMS), table.open("tools/call", PARAMS)
    table.close(given_up, given_up=True)
    table.close(before)
    assert all(table.charge(None) for _ in range(2))
    table.close(table.open("tools/call", PARAMS), given_up=True)
    table.close(table.open("tools/call", PARAMS))
    last = table.open("tools/call", PARAMS)
    assert [table.charge(last) for _ in range(3)] == [True, True, False]
