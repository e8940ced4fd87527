"""One ask: refused before it is sent, or sent and decoded."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon import Client, Context, Server
from antiphon.errors import (
    ElicitationUnavailable,
    MissingCapability,
    NotInRevision,
    Rejected,
    RemoteProtocolError,
    SamplingUnavailable,
)
from antiphon.testing import Recorder, Script
from antiphon.wire.tools import Tool
from tests.support.raw_client import raw_client, said, text

ERAS = ["2025-11-25", "2026-07-28"]
FORM = {"type": "object", "properties": {}}


def trying() -> tuple[Server, list[Any]]:
    """Make a server whose tools ask for everything, and the list of what came of it."""
    server, seen = Server("s"), list[Any]()

    @server.tool
    async def ask(kind: str, ctx: Context) -> str:
        tools = [Tool(name="t", input_schema={"type": "object"})]
        asks: dict[str, Any] = {
            "sampling": lambda: ctx.sample("?"),
            "tools": lambda: ctx.sample("?", tools=tools),
            "elicitation": lambda: ctx.elicit("?", FORM),
            "roots": ctx.list_roots,
        }
        try:
            seen.append(await asks[kind]())
        except Exception as error:
            seen.append(error)
            raise
        return "answered"

    return server, seen


@pytest.mark.parametrize("revision", ERAS)
@pytest.mark.parametrize(
    ("kind", "error", "needed"),
    [
        ("sampling", SamplingUnavailable, {"sampling": {}}),
        ("tools", SamplingUnavailable, {"sampling": {"tools": {}}}),
        ("elicitation", ElicitationUnavailable, {"elicitation": {"form": {}}}),
        ("roots", MissingCapability, {"roots": {}}),
    ],
)
async def test_what_the_client_does_not_offer_is_not_asked(
    kind: str, error: type[MissingCapability], needed: Any, revision: str
) -> None:
    """The handler gets an error that names it, and nothing travels."""
    server, seen = trying()
    recorder = Recorder()
    async with Client(server, revision=revision, wrap=recorder) as client:
        if revision == "2026-07-28":
            with pytest.raises(MissingCapability) as caught:
                await client.call_tool("ask", {"kind": kind})
            assert caught.value.data == {"requiredCapabilities": needed}
        else:
            assert (await client.call_tool("ask", {"kind": kind})).is_error
    assert type(seen[0]) is error
    assert seen[0].data == {"requiredCapabilities": needed}
    assert not any(one.kind == "request" for one in recorder.messages if one.direction == "received")


async def test_sampling_without_tools_is_not_asked_with_tools() -> None:
    """The capability has parts."""
    server, seen = trying()
    async with Client(server, sampling=Script(["x", "x"]), revision="2025-11-25") as client:
        assert (await client.call_tool("ask", {"kind": "tools"})).is_error
        assert not (await client.call_tool("ask", {"kind": "sampling"})).is_error
    assert isinstance(seen[0], SamplingUnavailable)


async def test_what_the_revision_cannot_carry_is_not_asked() -> None:
    """Tools in sampling began with 2025-11-25."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake("2025-06-18")
        reply = await client.reply(client.request("tools/call", name="ask", arguments={"kind": "tools"}))
    assert reply["result"]["isError"] is True
    assert isinstance(seen[0], NotInRevision)


async def test_an_error_of_the_client_is_raised_in_the_handler() -> None:
    """As the exception of its code, with its data."""
    server, seen = trying()
    script = Script([Rejected("User rejected sampling request", data={"reason": "budget"})])
    async with Client(server, sampling=script, revision="2025-11-25") as client:
        await client.call_tool("ask", {"kind": "sampling"})
    assert isinstance(seen[0], Rejected)
    assert seen[0].data == {"reason": "budget"}
    assert seen[0].remote


@pytest.mark.parametrize("bad", [{}, {"role": "assistant"}, {"role": "assistant", "content": 1, "model": "m"}])
async def test_an_answer_that_cannot_be_read_is_the_clients_fault(bad: Any) -> None:
    """Handler and client learn which ask it was, and what was wrong with the answer."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake()
        call = client.request("tools/call", name="ask", arguments={"kind": "sampling"})
        client.send({"id": (await client.asked())["id"], "result": bad})
        result = (await client.reply(call))["result"]
    assert isinstance(seen[0], RemoteProtocolError)
    assert "sampling/createMessage" in str(seen[0])
    assert text(result).startswith("ask: The client's answer to sampling/createMessage cannot be read")


async def test_an_answer_with_members_nobody_knows_is_read() -> None:
    """What is new to us is no mistake."""
    server, seen = trying()
    async with raw_client(server) as client:
        await client.handshake()
        call = client.request("tools/call", name="ask", arguments={"kind": "sampling"})
        client.send({"id": (await client.asked())["id"], "result": {**said("fine"), "novel": 1}})
        await client.reply(call)
    assert seen[0].text == "fine"
