"""``AgentTools``: what all adapters share: which clients are used and how long, and who decides about a call.

Owns what an adapter takes, and the reviewer that stands for a framework's own approval.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

from antiphon.client.client import Client
from antiphon.client.connection.server_files import read_servers, substitute_variables, variables_in
from antiphon.errors import ConfigError, Rejected
from antiphon.gateway.gateway import Gateway
from antiphon.host.agent_run.offered_tools import OfferedTool, call_for_model, call_tool, offer_tools
from antiphon.host.config.trust import Trust
from antiphon.host.configured_host import open_host
from antiphon.host.host import Host
from antiphon.host.review.review import Approve, Decision, Deferred, Deny, ElicitItem, NoReviewer, ReviewItem, ToolItem
from antiphon.host.review.review import digest as digest_of
from antiphon.machine.files import read_file
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

Tools = Client | Gateway | str | PathLike[str] | Sequence[Client]
"""A client or several, a gateway, or the path of a file that lists servers (``mcpServers``)."""
Approval = Literal["host", "framework"]
"""Who decides what the policy leaves open: the host's reviewer, or the framework in its own way."""

OnProgress = Callable[[str, float, float | None, str | None], object]
"""Called with the tool's name, and the progress, the total and the message of a report."""


class Undecided(Exception):
    """The framework has to ask its user about a call; nothing was sent. Repeat the call with the decision."""


class AgentTools:
    """The tools of some servers, for one framework. Entered several times, it is closed with the last exit.

    Args:
        tools: where the tools come from; a client that is connected already stays so.
        host: has each call confirmed, besides what the clients ask; by default only what the clients ask, and for a
            file the host of ``open_host()``.
        approval: who decides what the policy leaves open; by default the host's reviewer.
        framework: its name, for the record.
        on_progress: called with the tool's name, the progress, the total and the message of each report; by default
            nobody is told.

    Raises:
        ConfigError: these cannot be combined.
    """

    def __init__(
        self, tools: Tools, *, host: Host | None, approval: Approval, framework: str, on_progress: OnProgress | None
    ) -> None:
        self._tools, self._host, self._framework = tools, host, framework
        self._on_progress = on_progress
        self._defers = approval == "framework"
        if approval not in ("host", "framework"):
            raise ConfigError(f'approval is "host" or "framework", not {approval!r}')
        if self._defers and (host is None or isinstance(tools, str | PathLike)):
            raise ConfigError('approval="framework" needs host=, and clients rather than a file')
        self._clients: list[Client] = []
        self._held = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._entered = 0

    async def __aenter__(self) -> Self:
        """Connect at the first entry."""
        async with self._lock:
            if not self._entered:
                async with AsyncExitStack() as held:
                    self._clients = [await self._connect_source(each, held) for each in self._sources(held)]
                    self._held = held.pop_all()
            self._entered += 1
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Close at the last exit what the first entry has opened."""
        async with self._lock:
            self._entered -= 1
            if not self._entered:
                await self._held.aclose()

    async def _offer(self) -> Mapping[str, OfferedTool]:
        """List the tools that a model may call, by the names for it."""
        return await offer_tools(self._clients)

    async def _call(
        self,
        offered: OfferedTool,
        arguments: Mapping[str, Any],
        *,
        approved: bool | None = None,
        reason: str | None = None,
    ) -> CallToolResult:
        """Call a tool; what went wrong is a result for the model.

        ``approved``: what the user decided, with the ``reason``; ``None`` for nothing yet, then ``Undecided``
        may be raised.
        """
        told = self._on_progress
        progress = None if told is None else partial(told, offered.name)
        confirm: Host | _Confirmation | None = self._host
        if self._defers and self._host is not None:
            confirm = _Confirmation(self._host, _FrameworkReviewer(self._framework, approved, reason))
        result, refused = await call_for_model(call_tool(offered, arguments, confirm, progress))
        if refused == "deferred":
            raise Undecided
        return result

    async def _connect_source(self, client: Client, held: AsyncExitStack) -> Client:
        if self._defers and client.confirmers:
            raise ConfigError('approval="framework": the client asks already; give the host to the adapter alone')
        return client if client.is_open else await held.enter_async_context(client)

    def _sources(self, held: AsyncExitStack) -> Sequence[Client]:
        tools, host = self._tools, self._host
        if isinstance(tools, str | PathLike):
            tools = self._gateway(Path(tools), held)
        if isinstance(tools, Gateway):
            relayed = None if host is None else host.elicit
            return [Client(tools.server, sampling=host, elicitation=relayed)]
        return [tools] if isinstance(tools, Client) else tools

    def _gateway(self, path: Path, held: AsyncExitStack) -> Gateway:
        try:
            data = read_file(path, 1024 * 1024 + 1)
        except OSError as error:
            raise ConfigError(f"{path}: {error.strerror}") from None
        entries = read_servers(data, path)
        if any(variables_in(entry) for entry in entries.values()) and not Trust().covers(path, data):
            raise ConfigError(f"{path} wants variables of the environment: antiphon trust add {path}")
        entries = {
            name: substitute_variables(entry, os.environ, path.parent, f"{path}: {name}")
            for name, entry in entries.items()
            if entry.fault is None
        }
        if self._host is None:
            host = self._host = open_host()
            held.push_async_callback(self._forget, host)
        targets = {name: entry.target for name, entry in entries.items()}
        return Gateway(targets, self._host, tools={name: entry.tool_globs for name, entry in entries.items()})

    async def _forget(self, host: Host) -> None:
        self._host = None
        await host.aclose()


class _FrameworkReviewer:
    """A ``Reviewer`` with the decision of a framework's user about one call, or with none yet."""

    available = True

    def __init__(self, framework: str, approved: bool | None, reason: str | None) -> None:
        self._by, self._approved, self._reason = framework, approved, reason

    @property
    def has_denied(self) -> bool:
        return self._approved is False

    async def confirm(self, item: ToolItem) -> Decision:
        if self._approved is None:
            raise Deferred(self._by)
        if self._approved:
            return Approve(digest=digest_of(item.params), by=self._by)
        return Deny(reason=self._reason, by=self._by)

    async def review(self, item: ReviewItem) -> Decision:
        raise NoReviewer(self._by)

    async def elicit(self, item: ElicitItem) -> Deny:
        raise NoReviewer(self._by)


class _Confirmation:
    """The host's confirmation of one call, with the framework's reviewer."""

    def __init__(self, host: Host, reviewer: _FrameworkReviewer) -> None:
        self._host, self._reviewer = host, reviewer

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall:
        allowed = await self._host.confirm(params, origin, reviewer=self._reviewer)
        if self._reviewer.has_denied:
            # A grant or a condition of the policy may allow it by now; the user's word about this very call counts.
            raise Rejected("User rejected the call of the tool", data={"reason": "user"})
        return allowed

    def handed_over(self, origin: Origin, why: str | None) -> Awaitable[None] | None:
        return self._host.handed_over(origin, why)
