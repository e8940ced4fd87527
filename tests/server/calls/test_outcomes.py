"""What a modern call came to can always be sent, and whoever waits hears of it."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Context, InternalError, PeerError, Server
from antiphon.server.calls.outcomes import unsendable
from antiphon.testing import Script, connected
from antiphon.wire.content import TextContent
from antiphon.wire.tools import CallToolResult

HALF = "\ud800"


def result(text: str) -> CallToolResult:
    """Make a result of one text."""
    return CallToolResult(content=[TextContent(text=text)])


def test_of_a_result_its_fault_is_delivered() -> None:
    """And what is kept says no more than that it failed."""
    fault = ValueError("half a pair")
    delivered, kept = unsendable(result(HALF), fault)
    assert delivered is fault
    assert b"Internal error" in bytes(kept)


def test_an_error_is_delivered_as_it_is() -> None:
    """It is for the session to refuse and to log."""
    error = PeerError("odd", data={"at": object()})
    delivered, kept = unsendable(error, TypeError("object"))
    assert delivered is error
    assert b"Internal error" in bytes(kept)


@pytest.mark.parametrize("asks", [0, 1])
@pytest.mark.parametrize("failure", [PeerError(HALF), PeerError("odd", data=object())])
async def test_a_prompt_that_raises_what_cannot_be_sent_is_answered(asks: int, failure: PeerError) -> None:
    """Before its first round and after it; nobody waits for the deadline."""
    server = Server("odd")

    @server.prompt
    async def odd(ctx: Context) -> str:
        for _ in range(asks):
            await ctx.sample("q")
        raise failure

    async with connected(server, sampling=Script(["a"])) as client:
        with pytest.raises(InternalError, match="Internal error"):
            await client.get_prompt("odd")


async def test_a_result_that_cannot_be_sent_after_a_round_is_answered() -> None:
    """The round before it has made it a call that is kept."""
    server = Server("odd")

    @server.tool
    async def odd(ctx: Context) -> str:
        await ctx.sample("q")
        return HALF

    async with connected(server, sampling=Script(["a"])) as client:
        with pytest.raises(InternalError, match="Internal error"):
            await client.call_tool("odd")


async def test_a_handler_that_cancels_itself_is_not_told_of_a_state() -> None:
    """The client sent none: what happened is that the request was abandoned, as it is in the other era."""
    server = Server("odd")

    @server.tool
    async def odd(ctx: Context) -> Any:
        raise asyncio.CancelledError

    for revision in ("2025-11-25", "2026-07-28"):
        async with connected(server, revision=revision) as client:
            with pytest.raises(InternalError, match="The request was abandoned"):
                await client.call_tool("odd")
