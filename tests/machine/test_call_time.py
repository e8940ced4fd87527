"""One time for all that a call of ours needs; a person's does not count, a machine's does."""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import CallTimeout, Rejected
from antiphon.host import Host, Policy, Scripted
from antiphon.host.review.review import Decision, ReviewItem
from antiphon.machine.call_time import CURRENT, TimeLeft, count_time, hold_variable
from tests.host.asks import Person, approve
from tests.support.raw_server import RawServer

REVISIONS = pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])


@pytest.fixture
async def server() -> Server:
    """Make a server that asks, and then has no end."""
    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe it."""
        await ctx.sample("Describe it.")
        await asyncio.Event().wait()
        return "never"

    return server


def test_a_time_is_known_only_where_it_counts() -> None:
    """Within, without a call, and where a person decides in the middle of it."""
    time = TimeLeft(1)
    assert CURRENT.get() is None
    with count_time(time):
        assert CURRENT.get() is time
        with count_time(None):
            assert CURRENT.get() is None
        assert CURRENT.get() is time
    assert CURRENT.get() is None


@REVISIONS
async def test_what_a_machine_took_to_answer_ends_the_call(server: Server, revision: str) -> None:
    """The clock stands still while an ask is answered; what is taken off the time counts when it goes on."""

    async def answer(_params: object, _origin: object) -> str:
        await asyncio.sleep(0)
        time = CURRENT.get()
        assert time is not None and time.seconds is not None and 0 < time.seconds <= 3600
        time.spend(3600)
        return "a cup"

    async with Client(server, sampling=answer, revision=revision, timeout=3600) as client:
        with pytest.raises(CallTimeout, match="not answered within 3600 s"):
            await client.call_tool("describe")


@REVISIONS
async def test_consent_is_asked_for_within_the_time_of_the_call(server: Server, revision: str) -> None:
    """A host that looks into its store there is a machine, too."""
    times: list[TimeLeft | None] = []

    async def confirm(_params: object, _origin: object) -> bool:
        times.append(CURRENT.get())
        return False

    async with Client(server, confirm=confirm, revision=revision, timeout=3600) as client:
        with pytest.raises(Rejected, match="rejected"):
            await client.call_tool("describe")
    assert [time and time.given for time in times] == [3600]


async def test_a_reviewer_has_time() -> None:
    """A queue looks into the store again and again while a person thinks."""
    times: list[TimeLeft | None] = []

    def decide(item: ReviewItem) -> Decision:
        times.append(CURRENT.get())
        return approve(item)

    server = Server("shop")

    @server.tool
    async def describe(ctx: Context) -> str:
        """Describe it."""
        return (await ctx.sample("Describe it.")).text

    host = Host(Scripted(["a cup"]), reviewer=Person(decide), policy=Policy(default="ask"))
    async with Client(server, sampling=host) as client:
        assert (await client.call_tool("describe")).text == "a cup"
    assert times == [None]


@REVISIONS
async def test_the_look_at_the_output_schema_has_what_the_call_left(
    revision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that takes its time with the call, and as much again with the list, gets it once."""
    loop = asyncio.get_running_loop()
    ahead = 0.0
    real = loop.time
    monkeypatch.setattr(loop, "time", lambda: real() + ahead)

    def call(_message: dict[str, Any]) -> dict[str, Any]:
        nonlocal ahead
        ahead += 3000
        return {"content": [], "structuredContent": {"a": 1}}

    def page(_message: dict[str, Any]) -> dict[str, Any]:
        nonlocal ahead
        ahead += 1000
        return {"tools": [], "nextCursor": "again"}

    raw = RawServer(tools_call=call, tools_list=page)
    async with Client(raw, revision=revision, timeout=3600) as client:
        with pytest.raises(CallTimeout, match="3600 s"):
            await client.call_tool("t")


def test_a_variable_has_its_value_until_the_block_ends():
    """Then it has the earlier one again."""
    variable: ContextVar[int] = ContextVar("variable", default=1)
    with hold_variable(variable, 2):
        assert variable.get() == 2
    assert variable.get() == 1
