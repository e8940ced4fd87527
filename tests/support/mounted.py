"""A server with features of every kind, and a server on which others are mounted."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any

from msgspec import structs

from antiphon import Context, Server
from antiphon.errors import PeerError
from antiphon.server import CallNext, ServerRequest

__all__ = ["noting", "outcome", "outer_of", "shop"]


def shop(name: str = "shop", **options: Any) -> Server:
    """Make a server with features of every kind."""
    server = Server(name, **options)

    @server.tool
    async def greet(name: str, ctx: Context) -> str:
        """Greet somebody."""
        return f"hello {name} from {ctx.server.name}"

    @server.tool
    def add(a: int, b: int) -> int:
        return a + b

    @server.tool
    def fail() -> str:
        raise ValueError("secret")

    @server.tool
    async def poem(ctx: Context) -> str:
        one, two = await asyncio.gather(ctx.sample("one"), ctx.sample("two"))
        return one.text + two.text + (await ctx.sample("three")).text

    @server.resource("shop://stock")
    def stock() -> str:
        return "ten hats"

    @server.resource("shop://{kind}/price{?size}")
    def price(kind: str, size: int = 1) -> str:
        return f"{kind}: {10 * size}"

    @server.prompt
    def ask(topic: str) -> str:
        """Ask about something."""
        return f"about {topic}"

    @server.complete("ask", "topic")
    def topics(value: str) -> list[str]:
        return [value + "!"]

    @server.complete("shop://{kind}/price{?size}", "kind")
    def kinds(value: str) -> list[str]:
        return [value + "?"]

    return server


def outer_of(*inners: tuple[Server, str | None], **options: Any) -> Server:
    """Make a server on which others are mounted."""
    server = Server("outer", **options)
    for inner, prefix in inners:
        server.mount(inner, prefix=prefix)
    return server


async def outcome(call: Awaitable[Any]) -> object:
    """Return the result of a call without the name of the server, or the error as the client sees it."""
    try:
        return structs.replace(await call, meta=None)
    except PeerError as error:
        return type(error), error.code, error.message


def noting(server: Server, seen: list[str], name: str) -> None:
    """Let a server note its requests, in its own names."""

    @server.middleware
    async def note(request: ServerRequest, call_next: CallNext) -> Any:
        subject = getattr(request.params, "name", None) or getattr(request.params, "uri", "")
        seen.append(f"{name} {request.method} {subject}".rstrip())
        return await call_next(request)
