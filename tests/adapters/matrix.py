"""What an adapter has to carry, on each revision: one case for each kind, for the frameworks' own test modules.

A test module gives ``drive``: an agent of its framework, with a model of its framework's tests, calls one tool and
returns what the model got.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from antiphon import Client, Context, ImageContent, Server, Tool
from antiphon.errors import ToolError
from antiphon.host import Approve, Budget, Cap, Deny, EditCall, Host, MemoryStore, Policy, Rule, Scripted, digest
from antiphon.types import CallToolRequestParams, ElicitResult
from tests.adapters.servers import PNG, Size
from tests.host.asks import Person

__all__ = ["CASES", "EXPECTED", "REVISIONS", "SINCE", "TOOLS", "Carried", "Drive", "check", "make_server"]

REVISIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
CASES = (
    "sampling",
    "sampling with tools",
    "form",
    "url",
    "task",
    "cancel",
    "approve",
    "edit",
    "refuse",
    "budget",
    "image",
    "structured",
    "error",
)


@dataclass
class Carried:
    """What the server saw."""

    ran: list[str] = field(default_factory=list)
    cancelled: asyncio.Event = field(default_factory=asyncio.Event)
    waiting: asyncio.Event = field(default_factory=asyncio.Event)


Drive = Callable[[Client, Host, str, Mapping[str, Any]], Awaitable[str]]
"""Has an agent call a tool of a client once, under a host; returns all that its model got, as text."""


def make_server(carried: Carried, revision: str | None = None) -> Server:
    """Make a server with a tool for each case, by default for all revisions."""
    server = Server("every-case", revisions=None if revision is None else [revision])
    _add_asking_tools(server)

    @server.tool(task="allowed")
    async def produce(product: str) -> str:
        """Work on something for long."""
        return f"produced: {product}"

    @server.tool
    async def wait() -> str:
        """Wait until the call is cancelled."""
        carried.waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            carried.cancelled.set()
        return "never"

    @server.tool
    def buy(product: str) -> str:
        """Buy something."""
        carried.ran.append(product)
        return f"bought: {product}"

    @server.tool
    def draw() -> ImageContent:
        """Draw something."""
        return ImageContent.of(PNG, "image/png")

    @server.tool
    def price(product: str) -> dict[str, float]:
        """Say what a product costs."""
        return {"euros": 19.5}

    @server.tool
    def fail() -> str:
        """Fail."""
        raise ToolError("Ask for a scarf")

    return server


def _add_asking_tools(server: Server) -> None:
    """Add the tools that ask the client."""

    @server.tool
    async def describe(product: str, ctx: Context) -> str:
        """Have the client's model describe a product."""
        return (await ctx.sample(f"Describe a {product}", max_tokens=50)).text

    @server.tool
    async def count(ctx: Context) -> str:
        """Have the client's model use a tool of this server."""
        tool = Tool(name="stock", description="Count the stock", input_schema={"type": "object", "properties": {}})
        return (await ctx.sample("How many?", max_tokens=50, tools=[tool])).text

    @server.tool
    async def order(ctx: Context) -> str:
        """Order one, after asking for the size."""
        answer = await ctx.elicit("Which size?", Size)
        return str(answer.action)

    @server.tool
    async def pay(ctx: Context) -> str:
        """Have the user pay."""
        return str((await ctx.elicit_url("Pay here", "https://shop.example/pay")).action)


TOOLS = {
    "sampling": ("describe", {"product": "hat"}),
    "sampling with tools": ("count", {}),
    "form": ("order", {}),
    "url": ("pay", {}),
    "task": ("produce", {"product": "hat"}),
    "cancel": ("wait", {}),
    "approve": ("buy", {"product": "hat"}),
    "edit": ("buy", {"product": "hat"}),
    "refuse": ("buy", {"product": "hat"}),
    "budget": ("describe", {"product": "hat"}),
    "image": ("draw", {}),
    "structured": ("price", {"product": "hat"}),
    "error": ("fail", {}),
}
SINCE = {"form": "2025-06-18", "url": "2025-11-25", "sampling with tools": "2025-11-25"}
EXPECTED = {
    "sampling": "a warm hat",
    "sampling with tools": "a warm hat",
    "form": "accept",
    "url": "accept",
    "task": "produced: hat",
    "approve": "bought: hat",
    "edit": "bought: cap",
    "refuse": "too dear",
    "budget": "budget",
    "image": "image/png",
    "structured": "19.5",
    "error": "Ask for a scarf",
}
"""What the model reads of each case."""


def _decide(case: str) -> Any:
    def decide(item: Any) -> Any:
        if case == "refuse":
            return Deny(reason="too dear", tell=True)
        if case == "edit":
            params = CallToolRequestParams.of("buy", {"product": "cap"})
            return EditCall(params=params, digest=digest(params))
        return Approve(digest=digest(item.params))

    return decide


async def check(drive: Drive, case: str, revision: str) -> None:
    """Check one case on one revision."""
    carried = Carried()
    accepted = ElicitResult(action="accept", content={"size": "L"} if case == "form" else None)
    person = Person(_decide(case), fill=accepted)
    asks = case in ("approve", "edit", "refuse")
    rules = [Rule(effect="allow", kind="sampling")] + ([] if asks else [Rule(effect="allow", kind="tool")])
    budget = Budget(total=Cap(tokens=1)) if case == "budget" else Budget()
    host = Host(
        Scripted(["a warm hat"]), policy=Policy(rules=tuple(rules)), reviewer=person, store=MemoryStore(), budget=budget
    )
    client = Client(make_server(carried), sampling=host, elicitation=host.elicit, revision=revision)
    name, arguments = TOOLS[case]
    if case == "cancel":
        running = asyncio.ensure_future(drive(client, host, name, arguments))
        await carried.waiting.wait()
        running.cancel()
        await asyncio.wait([running])
        await carried.cancelled.wait()
        return
    got = await drive(client, host, name, arguments)
    if revision < SINCE.get(case, ""):
        assert f"revision {revision} has no" in got, got
        return
    wanted = "User rejected sampling" if case == "budget" and revision < "2026-07-28" else EXPECTED[case]
    assert wanted in got, got
    assert carried.ran == {"approve": ["hat"], "edit": ["cap"]}.get(case, [])
    assert len(person.shown) == (1 if asks else 0)
