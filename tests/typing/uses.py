"""The public interface as authors use it, for a strict type checker: ``make check`` reads this file beside ``src``.

``assert_type`` says what is known of each value; nothing here may be unknown, or known as less. ``test_uses`` runs it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal, TypedDict, assert_type

import msgspec

from antiphon import (
    BY_HAND,
    CallToolResult,
    Client,
    Context,
    CreateMessageRequestParams,
    CreateMessageResult,
    Depends,
    Elicited,
    ElicitRequestParams,
    ElicitResult,
    Origin,
    PendingRound,
    Root,
    Sample,
    SamplingMessage,
    Server,
    TextContent,
    Tool,
    ToolAnnotations,
)
from antiphon.server import PerCaller
from antiphon.testing import Script

__all__ = ["use"]

server = Server("typed", version="1.0")


@dataclass
class Booking:
    """A form, and the type of an answer."""

    guests: int
    seat: str = "window"


class Colour(Enum):
    """One member of a form."""

    RED = "red"


class Size(msgspec.Struct):
    """A result with structure."""

    width: int


class Address(TypedDict):
    """A plain dict with known keys."""

    city: str


# --- decorators keep what they decorate ---------------------------------------------------------------------------


@server.tool
def size(product: str, factor: int = 1) -> Size:
    """Tell how wide a product is."""
    return Size(len(product) * factor)


@server.tool(title="Stock", annotations=ToolAnnotations(read_only_hint=True), timeout=5)
async def stock(product: str) -> int:
    """Tell how many are left."""
    return len(product)


@server.resource("typed://{product}", mime_type="text/plain")
async def page(product: str) -> str:
    """Describe a product."""
    return product


@server.prompt(title="Praise")
def praise(product: str) -> str:
    """Ask for praise."""
    return product


@server.complete("praise", "product")
def products(value: str) -> list[str]:
    """Complete a product."""
    return [value]


def decorated() -> None:
    """Signatures are those of the functions."""
    plain: Callable[[str, int], Size] = size
    assert_type(plain("hat", 2), Size)
    assert_type(size("hat", factor=2), Size)
    assert_type(praise("hat"), str)
    assert_type(products("h"), list[str])
    assert_type(scripted(["a"]), Script)


# --- dependencies and state -----------------------------------------------------------------------------------------


def get_booking(ctx: Context[Booking]) -> Booking:
    """Provide the state of the lifespan, by its type."""
    return assert_type(ctx.state, Booking)


DEFAULT: Any = Depends(get_booking)


@server.tool
async def book(
    booking: Annotated[Booking, Depends(get_booking)],
    seats: Annotated[list[str], Depends(PerCaller[list[str]](list))],
    other: Booking = DEFAULT,
) -> int:
    """Take a dependency in both forms, and the state of the caller."""
    return booking.guests + other.guests + len(seats)


# --- a handler ----------------------------------------------------------------------------------------------------


@server.tool
async def ask(ctx: Context) -> str:
    """Ask a model in every form."""
    said = await ctx.sample("q", system_prompt="s", max_tokens=5)
    assert_type(said, Sample[None])
    assert_type(said.messages, list[SamplingMessage])
    assert_type((await ctx.sample("booking", result_type=Booking)).value, Booking)
    assert_type((await ctx.sample("address", result_type=Address)).value, Address)
    assert_type((await ctx.sample([*said.messages, "list"], result_type=list[str])).value, list[str])
    choice: Literal["a", "b"] = (await ctx.sample("choice", result_type=Literal["a", "b"])).value
    one, two = await asyncio.gather(ctx.sample("q"), ctx.sample("booking", result_type=Booking))
    assert_type(one, Sample[None])
    assert_type(two.value.guests, int)
    return said.text + choice


@server.tool(requires="sampling.tools")
async def loop(ctx: Context) -> str:
    """Let a model use tools. For no client of this file's, which have only functions to answer."""
    said = await ctx.sample("q", tools=[stock, size], tool_choice="auto", max_steps=3, result_type=Booking)
    assert_type(said.value, Booking)
    step = await ctx.sample_step(said.messages, tools=[stock])
    assert_type(step, Sample[None])
    return said.text


@server.tool
async def fill_in(ctx: Context) -> str:
    """Ask a person in every form."""
    booking = await ctx.elicit("booking", Booking)
    assert_type(booking, Elicited[Booking])
    assert_type(booking.action, Literal["accept", "decline", "cancel"])
    if booking.value is None:
        return booking.action
    assert_type(booking.value.guests, int)
    assert_type((await ctx.elicit("sure", bool)).value, bool | None)
    assert_type((await ctx.elicit("colour", Colour)).value, Colour | None)
    form = {"type": "object", "properties": {"city": {"type": "string"}}}
    assert_type((await ctx.elicit("address", form)).value, dict[str, Any] | None)
    seat: Literal["window", "garden"] | None = (await ctx.elicit("seat", Literal["window", "garden"])).value
    return seat or booking.value.seat


@server.tool
async def steps(ctx: Context) -> str:
    """Take steps and look around."""

    async def order() -> int:
        return 17

    def pay(idempotency_key: str) -> str:
        return idempotency_key

    assert_type(await ctx.step("order", order), int)
    assert_type(await ctx.step("pay", pay), str)
    assert_type(await ctx.step("now", lambda: 1.5), float)
    assert_type(await ctx.list_roots(), Sequence[Root])
    assert_type(ctx.request.headers, Mapping[str, str])
    assert_type(ctx.cancelled, bool)
    return ctx.server.name


# --- a client -----------------------------------------------------------------------------------------------------


async def complete(params: CreateMessageRequestParams, origin: Origin) -> str | CreateMessageResult:
    """Answer sampling."""
    asked = params.messages[-1].text.partition(" ")[0]
    answers = {"booking": '{"guests": 2}', "address": '{"city": "Bern"}', "list": '["x"]', "choice": '"a"'}
    return answers.get(asked, origin.target)


async def fill(params: ElicitRequestParams, origin: Origin) -> ElicitResult | Mapping[str, Any] | None:
    """Answer elicitation."""
    answers: dict[str, dict[str, Any]] = {"booking": {"guests": 2}, "address": {"city": "Bern"}}
    single = {"sure": True, "colour": "red", "seat": "garden"}
    return answers.get(params.message) or {"result": single[params.message]}


def scripted(texts: Sequence[str]) -> Script:
    """Answer sampling with prepared texts, of which a list is one of texts alone."""
    return Script(texts)


async def use() -> str:
    """Use the server from clients of every kind; return what the handlers came to."""
    async with Client(server, sampling=complete, elicitation=fill, roots=["docs"]) as client:
        result = await client.call_tool("ask", {})
        assert_type(result, CallToolResult)
        assert_type(result.text, str)
        texts = [block.text for block in result.content if isinstance(block, TextContent)]
        assert_type(texts, list[str])
        async for tool in client.tools():
            assert_type(tool, Tool)
        filled = await client.call_tool("fill_in")
        taken = await client.call_tool("steps")
        async with client.listen(tools=True) as changes:
            assert_type(list(changes.uris), list[str])
    return " ".join([*texts, filled.text, taken.text, await by_hand()])


async def by_hand() -> str:
    """Go through rounds by hand."""
    async with Client(server, elicitation=BY_HAND) as client:
        outcome = await client.rounds.call_tool("fill_in")
        assert_type(outcome, CallToolResult | PendingRound[CallToolResult])
        while isinstance(outcome, PendingRound):
            assert_type(outcome, PendingRound[CallToolResult])
            outcome = await client.rounds.resume(outcome, dict.fromkeys(outcome.asks))
        assert_type(outcome, CallToolResult)
        return outcome.text
