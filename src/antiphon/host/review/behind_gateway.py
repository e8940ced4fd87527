"""The servers behind a gateway, as the review page of its host shows them.

Owns what is shown of them. A gateway fills ``Servers``; a host without one has none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from typing import Literal, Protocol

import msgspec

from antiphon.host.audit.log import day_of
from antiphon.host.review.definitions import MAX_KEPT, Digests, changes_of, speaks_to_the_model
from antiphon.host.review.diff import Line
from antiphon.host.store.base import DefinitionRow, Store
from antiphon.wire.envelope import encode
from antiphon.wire.tools import Tool, ToolAnnotations

__all__ = ["Gated", "GatedTool", "RunState", "Servers", "ShownServer", "ShownTool", "shown_servers"]

MAX_TOOLS = 500
"""Most tools of one server that are listed: nobody switches more one by one, since filters can do that."""

RunState = Literal["stopped", "starting", "running", "failed"]


class ShownTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a server behind a gateway offers, and its name for clients."""

    tool: Tool
    """As its server defines it."""
    called: str | None
    """Its name for clients; ``None`` if it is not shown to them."""
    is_off: bool = False
    """Whether a person has switched it off. If not, a tool that clients do not see is denied by the configuration."""


class ShownServer(msgspec.Struct, frozen=True, kw_only=True):
    """One server behind a gateway, running or not: its state, its tools, and what it wrote last."""

    name: str
    """As configured."""
    identity: str
    target: str
    """The command line or URL, for display; without credentials."""
    state: RunState
    since: float
    """When it entered its state: seconds since the epoch."""
    process: int | None = None
    error: str | None = None
    """Why it failed last."""
    heard: tuple[str, ...] = ()
    """The last lines that it wrote to standard error."""
    tools: tuple[ShownTool, ...] = ()
    conflicts: tuple[str, ...] = ()
    """Its names that had to be changed because of another server's names."""


class Servers(Protocol):
    """The servers of one program."""

    @property
    def upstreams(self) -> Sequence[ShownServer]:
        """Return the servers as they are now, in the order of the configuration."""
        ...

    async def switch_tool(self, identity: str, tool: str, *, on: bool, by: str | None) -> None:
        """Show a tool to clients, or hide and refuse it.

        Args:
            identity: identity of its server.
            tool: the server's own name for it.
            on: whether it can be used.
            by: who decided.
        """
        ...


class Gated(msgspec.Struct, frozen=True, kw_only=True):
    """One server, with what the store knows of it."""

    server: ShownServer
    calls: int
    """Calls of its tools today (UTC)."""
    money: int
    """What its requests cost today, in nano-dollars."""
    tools: list[GatedTool]
    more: int
    """Number of its tools beyond those listed."""


class GatedTool(msgspec.Struct, frozen=True, kw_only=True):
    """One tool of such a server, with what the store knows of it."""

    served: ShownTool
    definition: Literal["new", "allowed", "changed"]
    changes: tuple[Line, ...] | None = ()
    """What has changed since it was allowed; ``None`` if it is too long to be compared."""
    is_marked: bool = False
    """Whether its definition has hidden characters or gives orders to the model."""
    claims: tuple[str, ...] = ()
    """What its server claims of it."""


async def shown_servers(servers: Servers, store: Store, digests: Digests, now: float) -> list[Gated]:
    """Collect what is shown of the servers. The store must have gathered the audit before.

    Args:
        servers: the servers.
        store: what was allowed, called and spent.
        digests: the hashes of their definitions.
        now: seconds since the epoch.
    """
    return [each async for each in _gated(servers, store, digests, now)]


async def _gated(servers: Servers, store: Store, digests: Digests, now: float) -> AsyncIterator[Gated]:
    lines, _ = await store.spending()
    today = day_of(now)
    midnight = now // 86_400 * 86_400
    calls = await store.calls(midnight)
    allowed = {(row.identity, row.tool): row for row in await store.definitions()}
    for server in servers.upstreams:
        yield Gated(
            server=server,
            calls=calls.get(server.identity, 0),
            money=sum(line.money for line in lines if line.day == today and line.identity == server.identity),
            tools=[
                await _tool(digests, server, each, allowed.get((server.identity, each.tool.name)))
                for each in server.tools[:MAX_TOOLS]
            ],
            more=max(0, len(server.tools) - MAX_TOOLS),
        )


async def _tool(digests: Digests, server: ShownServer, served: ShownTool, row: DefinitionRow | None) -> GatedTool:
    tool, allowed = served.tool, row.digest if row is not None else ""
    is_large = len(encode(tool)) > MAX_KEPT
    changed = bool(allowed) and not is_large and await digests.of(server.identity, tool) != allowed
    hints = tool.annotations or ToolAnnotations()
    claims = {"read-only": hints.read_only_hint, "destructive": hints.destructive_hint}
    return GatedTool(
        served=served,
        definition="changed" if changed else "allowed" if allowed else "new",
        changes=changes_of(row.body, tool) if changed and row is not None else (),
        # In a thread, because the patterns take a moment where there are hundreds of tools.
        is_marked=is_large or await asyncio.to_thread(speaks_to_the_model, tool),
        claims=tuple(name for name, claim in claims.items() if claim),
    )
