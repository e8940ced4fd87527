"""The life of a modern call: the table by itself, and real calls that are led through it in every order."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon import CallTimeout, Context, ToolError
from antiphon.machine.state_store import MemoryStateStore
from antiphon.server.calls import parked_call, replayed_call, server_rounds
from antiphon.server.calls.call_states import ASKING, ENDS, TRANSITIONS, CallEvent, CallState, find_next_state
from antiphon.server.calls.parked_call import RoundCall
from tests.support.call_diagram import diagram, on_page
from tests.support.cluster import Tool, cluster
from tests.support.raw_client import RawClient, said

Json = dict[str, Any]


def test_the_table_has_a_row_for_every_state():
    """And an event that no row has would be a word without a meaning."""
    assert set(TRANSITIONS) == set(CallState)
    assert {event for row in TRANSITIONS.values() for event in row} == set(CallEvent)


def test_every_state_can_be_reached_and_leads_to_every_end():
    """None is drawn for nothing, and none is a trap."""

    def reached(start: CallState) -> set[CallState]:
        found, left = {start}, [start]
        while left:
            new = set(TRANSITIONS[left.pop()].values()) - found
            found |= new
            left += new
        return found

    assert reached(CallState.NEW) == set(CallState)
    assert {state for state in CallState if not reached(state) >= ENDS} == ENDS
    assert set(CallState) - ENDS - ASKING == {CallState.NEW, CallState.DIVERGED, CallState.CANCELLED}


@given(st.lists(st.sampled_from(list(CallEvent))))
def test_no_sequence_of_events_leaves_the_table(events: list[CallEvent]):
    """What a row has leads on; what it has not raises, and names both; after an end nothing is left."""
    state, ends = CallState.NEW, 0
    for event in events:
        if event in TRANSITIONS[state]:
            state = find_next_state(state, event)
            ends += state in ENDS
        else:
            with pytest.raises(RuntimeError, match=f"{state}.*{event.value}"):
                find_next_state(state, event)
    assert ends == (state in ENDS)


def test_the_page_shows_the_table():
    """``python -m tests.support.call_diagram`` draws it anew."""
    assert on_page() == diagram()


# --- real calls -----------------------------------------------------------------------------------------------------


class Lives:
    """What every call that a test makes goes through."""

    def __init__(self) -> None:
        self._of: dict[int, tuple[object, list[CallState]]] = {}
        """By the id of each call: the call, so that no other has its id, and its states."""
        self._refused: list[str] = []
        """Events that the table has not."""

    def note(self, call: object, state: CallState) -> None:
        """Note one state of a call."""
        self._of.setdefault(id(call), (call, []))[1].append(state)

    def after(self, state: CallState, event: CallEvent) -> CallState:
        """Do as ``after`` does, and note what it refuses."""
        try:
            return find_next_state(state, event)
        except RuntimeError as error:
            self._refused.append(str(error))
            raise

    def check(self) -> None:
        """Every life begins with the first state, follows the table, and has exactly one end."""
        assert self._refused == []
        assert self._of
        for _, life in self._of.values():
            assert life[0] is CallState.NEW
            for before, then in itertools.pairwise(life):
                assert then in TRANSITIONS[before].values()
            assert [state for state in life if state in ENDS] == [life[-1]]


@contextmanager
def watched() -> Generator[Lives]:
    """Note each state that a call is given, and leave everything else as it is."""
    lives = Lives()
    slot: Any = RoundCall.__dict__["state"]

    class Watched:
        def __get__(self, call: Any, _kind: object = None) -> CallState:
            return slot.__get__(call)

        def __set__(self, call: Any, state: CallState) -> None:
            lives.note(call, state)
            slot.__set__(call, state)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RoundCall, "state", Watched())
        patch.setattr(parked_call, "find_next_state", lives.after)
        patch.setattr(replayed_call, "find_next_state", lives.after)
        # Every journal goes into the store, where there is one: a round is being sealed for a while.
        patch.setattr(server_rounds, "_STORED_FROM", 0)
        yield lives


class SlowStore(MemoryStateStore):
    """Takes its time, as a store on another machine does."""

    async def put(self, key: str, value: bytes, ttl: float) -> None:
        """Store a value some passes of the event loop later."""
        for _ in range(20):
            await asyncio.sleep(0)
        await super().put(key, value, ttl)


def make_tool(program: list[str], end: str) -> Tool:
    """Make a tool that does what it is told, and ends as it is told."""
    turns = itertools.count()

    async def short(ctx: Context) -> None:
        with contextlib.suppress(CallTimeout):
            await ctx.sample("quick?", timeout=0.0)

    does: dict[str, Callable[[Context], Awaitable[object]]] = {
        "ask": lambda ctx: ctx.sample("ask?"),
        "both": lambda ctx: asyncio.gather(ctx.sample("one?"), ctx.sample("other?")),
        "short": short,
        "step": lambda ctx: ctx.step("step", lambda: 1),
        "fickle": lambda ctx: ctx.sample(f"turn {next(turns)}?", key="fickle"),
        "pass": lambda _ctx: asyncio.sleep(0),
    }

    async def tool(ctx: Context) -> str:
        try:
            for word in program:
                await does[word](ctx)
        except asyncio.CancelledError:
            if end != "swallow":
                raise
        if end == "raise":
            raise ToolError("told to")
        if end == "quit":
            raise asyncio.CancelledError
        return "done"

    return tool


async def lead(tool: Tool, deeds: list[tuple[str, int, int]], *, has_store: bool) -> None:
    """Let a client do all of this to two servers that share a key, and close them."""
    store = SlowStore() if has_store else None
    async with cluster(tool, state_store=store, max_parked=3) as both:
        seen: list[Json] = []
        sent: list[tuple[RawClient, int]] = []
        await both.clients[0].reply(_begin(both.clients[0], sent))
        for deed, at, which in deeds:
            client = both.clients[at]
            for raw in both.clients:
                await raw.reply(raw.modern("tools/list"))
                seen += [reply["result"] for reply in raw.replies() if "requestState" in reply.get("result", {})]
            if deed == "begin":
                _begin(client, sent)
            elif deed == "cancel" and sent:
                other, id = sent[which % len(sent)]
                other.send({"method": "notifications/cancelled", "params": {"requestId": id}})
            elif seen:
                round = seen[which % len(seen)]
                answers = {key: said("yes") for key in round["inputRequests"]} if deed == "answer" else {}
                state = round["requestState"]
                more = {"requestState": state, "inputResponses": answers}
                sent.append((client, client.modern("tools/call", name="tool", arguments={}, **more)))


def _begin(client: RawClient, sent: list[tuple[RawClient, int]]) -> int:
    id = client.modern("tools/call", name="tool", arguments={})
    sent.append((client, id))
    return client.modern("tools/list")


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(["ask", "both", "short", "step", "fickle", "pass"]), min_size=1, max_size=5),
    st.sampled_from(["return", "raise", "quit", "swallow"]),
    st.lists(
        st.tuples(
            st.sampled_from(["answer", "answer", "retry", "cancel", "begin"]), st.integers(0, 1), st.integers(0, 9)
        ),
        max_size=8,
    ),
    st.booleans(),
)
def test_whatever_happens_to_it_a_call_has_one_end(
    program: list[str], end: str, deeds: list[tuple[str, int, int]], has_store: bool
):
    """Asks, answers, lost replies, cancellations, evictions and replays, in any order, until the servers close."""
    with watched() as lives:
        asyncio.run(lead(make_tool(program, end), deeds, has_store=has_store))
    lives.check()
