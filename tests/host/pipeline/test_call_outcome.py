"""What became of a call that a person decided about, told again."""

from __future__ import annotations

import time
from typing import Any

from msgspec import structs

from antiphon.host import MemoryStore, Queue, ReviewItem
from antiphon.host.pipeline.tool_consent import find_call, settle_call
from antiphon.host.review.question import hash_owner
from antiphon.host.store import PendingCallRow
from antiphon.wire.content import TextContent
from antiphon.wire.tools import CallToolResult
from tests.host.asks import origin, request

IDENTITY = origin().identity


def sent(**more: Any) -> PendingCallRow:
    """Make a call that was sent."""
    row = PendingCallRow(
        id="1", fingerprint="f", owner=hash_owner("ann"), until=time.time() + 60, sent=True, at=time.time(), host="h"
    )
    return structs.replace(row, **more)


def says(text: str) -> CallToolResult:
    """Make a result."""
    return CallToolResult(content=[TextContent(text=text)])


async def test_an_outcome_is_told_to_its_own_principal_only() -> None:
    """Whoever else knows the id is told nothing of it."""
    store = MemoryStore()
    await settle_call(store, sent(), says("ordered"))
    told = await find_call(store, "1", IDENTITY, "order", "ann")
    assert isinstance(told, CallToolResult)
    assert told.content[0].text == "ordered"
    assert await find_call(store, "1", IDENTITY, "order", "bob") is None
    assert await find_call(store, "1", IDENTITY, "order", None) is None
    assert await find_call(store, "2", IDENTITY, "order", "ann") is None


async def test_an_outcome_that_is_too_long_is_not_kept() -> None:
    """The call has run, and that is told."""
    store = MemoryStore()
    await settle_call(store, sent(), says("x" * 100_000))
    told = await find_call(store, "1", IDENTITY, "order", "ann")
    assert isinstance(told, CallToolResult)
    assert told.content[0].text == "It ran; its result is too long to be kept."


async def test_without_an_outcome_nobody_knows() -> None:
    """A caller that gave up while the call ran, or a server that ended."""
    store = MemoryStore()
    await settle_call(store, sent(), None)
    told = await find_call(store, "1", IDENTITY, "order", "ann")
    assert isinstance(told, CallToolResult)
    assert told.is_error
    assert "Nobody knows whether this call ran" in told.content[0].text


async def test_a_store_that_fails_costs_no_result(caplog: Any) -> None:
    """The result goes to its caller; the log says that its outcome is not stored."""

    class Broken(MemoryStore):
        async def settle_call(self, call: PendingCallRow) -> None:
            raise OSError("gone")

    await settle_call(Broken(), sent(), says("ordered"))
    assert "the outcome of a call could not be stored: OSError" in caplog.text


async def test_a_question_of_another_kind_has_no_call() -> None:
    """The id of a request for a completion names no call of a tool."""
    store, asked = MemoryStore(), request()
    item = ReviewItem(origin=origin(), params=asked, received=asked, provider="echo", choices=frozenset({"approve"}))
    row = await Queue(store)._put("request", item, ["x"], None)
    assert await find_call(store, row.id, IDENTITY, "order", None) is None
