"""``AgentTools``: what all adapters share: which clients are used and how long, and who decides about a call.

Owns what an adapter takes, and the reviewer that stands for a framework's own approval.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, Literal, NoReturn, Self, TypedDict, Unpack

from antiphon.client.client import Client
from antiphon.client.connection.server_files import find_project, read_servers, substitute_variables, variables_in
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, LocalProtocolError, PeerError, Rejected
from antiphon.gateway.gateway import Gateway
from antiphon.host.agent_run.offered_tools import OfferedTool, call_for_model, call_tool, offer_tools
from antiphon.host.config.toml_files import Trust
from antiphon.host.configured_host import open_host
from antiphon.host.host import Host
from antiphon.host.review.definitions import digest_definition
from antiphon.host.review.question import hash_owner
from antiphon.host.review.review import Approve, Decision, Deferred, Deny, NoReviewer, ToolItem
from antiphon.host.review.review import digest as digest_of
from antiphon.host.store.base import PendingCallRow
from antiphon.machine.files import name_errors, read_file
from antiphon.machine.other_frameworks import check_options
from antiphon.wire.envelope import encode_value
from antiphon.wire.origin import ChangedCall, Origin
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

Tools = Client | Gateway | str | PathLike[str] | Sequence[Client]
"""A client or several, a gateway, or the path of a file that lists servers (``mcpServers``)."""
Approval = Literal["host", "framework"]
"""Who decides what the policy leaves open: the host's reviewer, or the framework in its own way."""

QUESTION_KEPT = 30 * 24 * 3600.0
"""Seconds in which an approval of a framework counts after its question: people may take weeks."""

OnProgress = Callable[[str, float, float | None, str | None], object]
"""Called with the tool's name, and the progress, the total and the message of a report."""


class Undecided(Exception):
    """The framework has to ask its user about a call; nothing was sent. Repeat the call with the decision."""


class AgentOptions(TypedDict, total=False):
    """What every adapter takes besides ``tools``."""

    host: Host | None
    """Has each call confirmed, besides what the clients ask; by default only what the clients ask, and for a file the
    host of ``open_host()``."""
    approval: Approval
    """Who decides what the policy leaves open; by default the host's reviewer."""
    on_progress: OnProgress | None
    """Called with the tool's name, the progress, the total and the message of each report; by default nothing is."""


class AgentTools:
    """The tools of some servers, for one framework. Entered several times, it is closed with the last exit.

    Args:
        tools: where the tools come from; a client that is connected already stays so.
        options: ``host``, ``approval`` and ``on_progress``; see ``AgentOptions``.

    Raises:
        ConfigError: these cannot be combined.
    """

    framework: ClassVar[str]
    """The name of the framework, for the record."""

    def __init__(self, tools: Tools, **options: Unpack[AgentOptions]) -> None:
        name = type(self).__name__
        check_options(f"{name}()", options, AgentOptions.__annotations__)
        given = tools if isinstance(tools, Sequence) else [tools]
        is_file = isinstance(tools, str | PathLike) and not re.search(r"://|\.py$", str(tools))
        if not is_file and not all(isinstance(each, Client | Gateway) for each in given):
            raise ConfigError(f"{name}() takes clients, a gateway or a file: write Client(...) around {tools!r}")
        self._tools, self._host = tools, options.get("host")
        self._on_progress = options.get("on_progress")
        host, approval = self._host, options.get("approval", "host")
        self._defers = approval == "framework"
        if approval not in ("host", "framework"):
            raise ConfigError(f'approval is "host" or "framework", not {approval!r}')
        if self._defers and (host is None or isinstance(tools, str | PathLike)):
            raise ConfigError('approval="framework" needs host=, and clients rather than a file')
        self._clients: dict[Client, bool] = {}  # Each with whether the adapter connects it.
        self._offered: Mapping[str, OfferedTool] = {}
        self._held = AsyncExitStack()
        self._lock = asyncio.Lock()
        self._entered = 0

    async def __aenter__(self) -> Self:
        """Connect at the first entry."""
        async with self._lock:
            if not self._entered:
                async with AsyncExitStack() as held:
                    self._clients = {each: not each.is_open for each in self._sources(held)}
                    for client, is_ours in self._clients.items():
                        if self._defers and client.confirmers:
                            raise ConfigError('approval="framework": the client asks already; give it no confirm=')
                        if is_ours:
                            await held.enter_async_context(client)
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
        """List the tools that a model may call, by the names for it; those of the last list if a server has ended."""
        if not self._entered:
            raise LocalProtocolError(f"Not connected: use the {type(self).__name__} inside `async with`")
        try:
            await self._connect_again()
            self._offered = await offer_tools(list(self._clients))
        except (CallTimeout, ConnectionClosed, PeerError):
            if not self._offered:
                raise
        return self._offered

    async def _connect_again(self) -> None:
        """Connect the clients again whose servers have ended, unless they were connected by the program."""
        async with self._lock:
            for client, is_ours in self._clients.items() if self._entered else ():
                if is_ours and not client.is_open:
                    await client.close()
                    await client.connect()

    async def _call(
        self,
        offered: OfferedTool,
        arguments: Mapping[str, Any],
        call: Sequence[object],
        *,
        approved: bool | None = None,
        reason: str | None = None,
    ) -> CallToolResult:
        """Call a tool; what went wrong is a result for the model.

        ``call`` names the call for the framework. ``approved``: what the user decided about it, with the ``reason``;
        ``None`` for nothing yet, then ``Undecided`` may be raised.
        """
        progress = self._on_progress and partial(self._on_progress, offered.name)

        async def attempt() -> CallToolResult:
            await self._connect_again()
            confirm: Host | _Confirmation | None = self._host
            if self._defers and self._host is not None:
                decision = approved, reason
                if approved and not await self._is_unchanged(offered, call):
                    decision = False, "The tool has changed since its call was approved; look at it again"
                confirm = _Confirmation(self._host, _FrameworkReviewer(self.framework, *decision))
            return await call_tool(offered, arguments, confirm, progress)

        result, refused = await call_for_model(attempt())
        if refused == "deferred":
            await self._note_question(offered, call)
            raise Undecided
        return result

    async def _note_question(self, offered: OfferedTool, call: Sequence[object]) -> None:
        """Keep by which definition of its tool the framework's user decides about a call."""
        if self._host is not None:
            id, until = self._identify_question(call), time.time() + QUESTION_KEPT
            shown = await digest_definition(offered.tool)
            row = PendingCallRow(id=id, fingerprint=shown, owner=self.framework, until=until)
            await self._host.store.settle_call(row)

    async def _find_question(self, call: Sequence[object]) -> str | None:
        """Return the digest of the definition by which the user was asked about a call; ``None`` if not asked."""
        kept = None if self._host is None else await self._host.store.pending_call(id=self._identify_question(call))
        return None if kept is None else kept.fingerprint

    async def _is_unchanged(self, offered: OfferedTool, call: Sequence[object]) -> bool:
        """Return whether the tool is still the one about which the framework's user was asked."""
        now = (await offer_tools(list(self._clients))).get(offered.name)
        return now is not None and await self._find_question(call) == await digest_definition(now.tool)

    def _identify_question(self, call: Sequence[object]) -> str:
        return hash_owner(encode_value([self.framework, *call]).decode())

    def _sources(self, held: AsyncExitStack) -> Sequence[Client]:
        tools, host = self._tools, self._host
        if isinstance(tools, str | PathLike):
            tools = self._gateway(Path(tools), held)
        if isinstance(tools, Gateway):
            return [Client(tools.server, sampling=host, elicitation=None if host is None else host.elicit)]
        return [tools] if isinstance(tools, Client) else tools

    def _gateway(self, path: Path, held: AsyncExitStack) -> Gateway:
        with name_errors(path):
            data = read_file(path, 1024 * 1024 + 1)
        entries = read_servers(data, path)
        if any(variables_in(entry) for entry in entries.values()) and not Trust().covers(path, data):
            raise ConfigError(f"{path} wants variables of the environment: antiphon trust add {path}")
        project = find_project(path)
        entries = {
            name: substitute_variables(entry, os.environ, project, f"{path}: {name}") for name, entry in entries.items()
        }
        if self._host is None:
            host = self._host = open_host()
            held.push_async_callback(self._forget, host)
        # The gateway logs what is wrong with an entry, which costs the other servers nothing.
        targets = {
            name: entry.target if entry.fault is None else {"fault": f"{path}: {entry.fault}"}
            for name, entry in entries.items()
        }
        tools = {name: entry.tool_globs for name, entry in entries.items() if entry.tool_globs}
        return Gateway(targets, self._host, tools=tools)

    async def _forget(self, host: Host) -> None:
        self._host = None
        await host.aclose()


class _FrameworkReviewer:
    """A ``Reviewer`` with the decision of a framework's user about one call, or with none yet."""

    available = True

    def __init__(self, framework: str, approved: bool | None, reason: str | None) -> None:
        self._by, self.approved, self._reason = framework, approved, reason

    async def confirm(self, item: ToolItem) -> Decision:
        if self.approved is None:
            raise Deferred(self._by)
        if self.approved:
            return Approve(digest=digest_of(item.params), by=self._by)
        return Deny(reason=self._reason, by=self._by, tell=self._reason is not None)

    async def review(self, item: object) -> NoReturn:
        raise NoReviewer(self._by)

    elicit = review


class _Confirmation:
    """The host's confirmation of one call, with the framework's reviewer."""

    def __init__(self, host: Host, reviewer: _FrameworkReviewer) -> None:
        self._host, self._reviewer = host, reviewer

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall:
        allowed = await self._host.confirm(params, origin, reviewer=self._reviewer)
        if self._reviewer.approved is False:
            # A grant or a condition of the policy may allow it by now; the user's word about this very call counts.
            raise Rejected("User rejected the call of the tool", data={"reason": "user"})
        return allowed

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        return await self._host.examine(result, params, origin)

    def handed_over(self, origin: Origin, why: str | None) -> Awaitable[None] | None:
        return self._host.handed_over(origin, why)
