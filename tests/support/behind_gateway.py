"""Servers to put behind a gateway, with features of each kind, and the host and the user that answer what they ask."""

from __future__ import annotations

import itertools
from typing import Any

from antiphon import Context, Server
from antiphon.gateway import Gateway
from antiphon.gateway.upstream import Upstream
from antiphon.host import Approve, Host, Policy, Scripted
from antiphon.types import ElicitResult

__all__ = ["CELLS", "ERAS", "Offering", "Person", "host", "shop", "upstreams_of"]

ERAS = ["2025-11-25", "2026-07-28"]
CELLS = list(itertools.product(ERAS, ERAS))


def upstreams_of(gateway: Gateway) -> list[Upstream]:
    """Return the servers behind a gateway that were started, with all that it knows of them."""
    return [upstream for group in gateway._groups.values() for upstream in group.upstreams.values()]


def shop(revision: str) -> Server:
    """Make a server that speaks one revision alone, with features of each kind."""
    server = Server("shop", revisions=[revision])
    for tool in (describe, order, visit, count, echo):
        server.tool(tool)
    server.add_resource("shop://stock", "ten hats")
    server.resource("shop://{kind}/price")(price)
    server.prompt(ask)
    server.complete("ask", "topic")(lambda value: [value + "!"])
    server.complete("shop://{kind}/price", "kind")(lambda value: [value + "?"])
    return server


async def describe(product: str, ctx: Context) -> str:
    """Write one line."""
    return (await ctx.sample(f"One line about {product}")).text


async def order(ctx: Context) -> str:
    """Ask how many."""
    answer = await ctx.elicit("How many?", int)
    return f"{answer.action}: {answer.value}"


async def visit(ctx: Context) -> str:
    """Ask the user to pay elsewhere."""
    return (await ctx.elicit_url("Pay", "https://pay.example/1")).action


async def count(ctx: Context) -> dict[str, int]:
    """Count to three."""
    for n in range(1, 4):
        await ctx.progress(n, 3, f"{n}")
    return {"n": 3}


def echo(value: float) -> str:
    """Say what came."""
    return repr(value)


def price(kind: str) -> str:
    """Say what it costs."""
    return f"{kind}: 10"


def ask(topic: str) -> str:
    """Ask about something."""
    return f"about {topic}"


class Person:
    """Accepts what is asked: forms with the number 3, addresses as they are."""

    available = True

    async def review(self, item: Any) -> Any:
        """Let it pass."""
        return Approve()

    async def confirm(self, item: Any) -> Any:
        """Let it be called."""
        return Approve()

    async def elicit(self, item: Any) -> ElicitResult:
        """Accept."""
        asked = {} if item.params.mode == "url" else item.params.requested_schema["properties"]
        return ElicitResult(action="accept", content=dict.fromkeys(asked, 3) or None)


def host(*answers: str) -> Host:
    """Make a host that lets everything pass."""
    return Host(Scripted(list(answers)), policy=Policy(default="allow"), reviewer=Person())


class Offering:
    """A client's user: answers what is asked, and notes it."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def sample(self, params: Any, origin: Any) -> str:
        """Answer a prompt."""
        self.asked.append(params.messages[0].text)
        return f"[{params.messages[0].text}]"

    async def elicit(self, params: Any, origin: Any) -> ElicitResult:
        """Fill in a form."""
        self.asked.append(params.message)
        return ElicitResult(action="accept", content=dict.fromkeys(params.requested_schema["properties"], 5))

    async def roots(self) -> list[str]:
        """List one folder."""
        return ["file:///relayed"]
