"""Search among the tools of a gateway: ``server.tool_search`` over its catalogue, with the consent of any call."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from antiphon.gateway.group import PrincipalGroup
from antiphon.gateway.served_requests import SERVED
from antiphon.gateway.server_catalogue import ServerCatalogue
from antiphon.server.server_middleware import ServerRequest
from antiphon.server.tool_search import CALL, FIND, FindArguments, ToolIndex, define_tools, read_call, render_tools
from antiphon.wire.apps import is_for_model
from antiphon.wire.content import TextContent
from antiphon.wire.tools import CallToolResult, ListToolsResult, Tool, fail_tool

MAX_SERVERS = 50
"""Most servers that a description names."""


def index_catalogue(catalogue: ServerCatalogue) -> ToolIndex:
    """Make the index of a catalogue's tools, by their own words and the names of their servers."""

    def find_server(name: str) -> str:
        owned = catalogue.find("tool", name)
        return owned.server if owned else ""

    return ToolIndex(catalogue.tools, find_server)


class Search:
    """Serves ``tools/list`` and ``tools/call`` of clients that search; raises ``ConfigError`` without SQLite's FTS5."""

    def __init__(self) -> None:
        # Without full-text search no gateway begins.
        ToolIndex(())
        self._indexes: WeakKeyDictionary[ServerCatalogue, ToolIndex] = WeakKeyDictionary()
        self._turn = asyncio.Lock()
        self.served: Mapping[str, Callable[[PrincipalGroup, ServerRequest], Awaitable[Any]]] = {
            **SERVED,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        """``served_requests.SERVED`` with the list and the calls of clients that search."""

    async def find(self, catalogue: ServerCatalogue, query: str, limit: int) -> list[Tool]:
        """Return the tools that fit best, as ``ToolIndex.find`` does, in a thread.

        Making the index of tens of thousands of tools takes up to a second.
        """
        async with self._turn:
            index = self._indexes.get(catalogue)
            if index is None:
                index = self._indexes[catalogue] = await asyncio.to_thread(index_catalogue, catalogue)
            return await asyncio.to_thread(index.find, query, limit)

    async def _list_tools(self, group: PrincipalGroup, _request: ServerRequest) -> ListToolsResult:
        servers = list(group.upstreams)
        named = ", ".join(servers[:MAX_SERVERS]) + (", ..." if len(servers) > MAX_SERVERS else "")
        return ListToolsResult(tools=define_tools(named), meta=group.catalogue.meta)

    async def _call_tool(self, group: PrincipalGroup, request: ServerRequest) -> Any:
        name: str = request.params.name
        if name not in (FIND, CALL):
            return fail_tool(f"There is no tool {name!r} here. Find tools with {FIND}, and call them with {CALL}.")
        try:
            inner = read_call(request.params)
        except msgspec.DecodeError as error:
            return fail_tool(f"The arguments of {name} are not valid: {error}")
        catalogue = await group.listed()
        if isinstance(inner, FindArguments):
            tools = await self.find(catalogue, inner.query, inner.limit)
            if tools:
                return render_tools(tools)
            text = f"No tool fits {inner.query!r}. {_describe_catalogue(catalogue)}"
            return CallToolResult(content=[TextContent(text=text)])
        tool = catalogue.tool(inner.name)
        if tool is None or not is_for_model(tool):
            near = await self.find(catalogue, inner.name, 3)
            hint = f" Did you mean {', '.join(tool.name for tool in near)}?" if near else ""
            return fail_tool(f"There is no tool {inner.name!r}.{hint} Find tools with {FIND}.")
        # Served as a direct call of that tool, so that definition, consent and record are those of the tool.
        return await SERVED["tools/call"](group, request.replace(name=inner.name, arguments=inner.arguments or None))


def _describe_catalogue(catalogue: ServerCatalogue) -> str:
    owners = (catalogue.find("tool", tool.name) for tool in catalogue.tools)
    counts = Counter(owned.server for owned in owners if owned is not None)
    listed = ", ".join(f"{server} ({count})" for server, count in counts.most_common(MAX_SERVERS))
    return f"Servers, with the number of their tools: {listed or 'none'}."
