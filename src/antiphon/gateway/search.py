"""Search among the tools of a gateway: clients list two tools, and find all others by words.

A thousand definitions would fill a model's context. ``find_tools`` returns the few that fit, with their schemas, and
``call_tool`` calls one, with the consent that any call of it needs. Words are ranked by BM25, in SQLite's full-text
index in memory.
"""

from __future__ import annotations

import asyncio
import re
import sqlite3
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Annotated, Any, cast
from weakref import WeakKeyDictionary, finalize

import msgspec

from antiphon.errors import ConfigError
from antiphon.gateway.group import PrincipalGroup
from antiphon.gateway.served_requests import SERVED, fail_tool
from antiphon.gateway.server_catalogue import Exposure, ServerCatalogue
from antiphon.server.server_middleware import ServerRequest
from antiphon.wire.apps import is_for_model
from antiphon.wire.common import ABSENT
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolResult, ListToolsResult, Tool, ToolAnnotations

FIND, CALL = "find_tools", "call_tool"

USUAL_RESULTS = 5
MAX_RESULTS = 20
"""Most tools of one search."""
MAX_RESULT = 48 * 1024
"""Most bytes of definitions in one result, about 12,000 tokens; of further tools only the names are returned."""
MAX_INDEXED = 4_000
"""Most characters of one definition that are searched."""
MAX_WORDS = 32
"""Most words of one search."""
MAX_SERVERS = 50
"""Most servers that a description names."""

_TABLE = (
    "CREATE VIRTUAL TABLE tools USING fts5(name, title, server, description, parameters, tokenize='porter unicode61')"
)
_ADD = "INSERT INTO tools VALUES (?, ?, ?, ?, ?)"
_FOUND = "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 8.0, 4.0, 3.0, 2.0, 1.0), rowid LIMIT ?"
"""The numbers are the weights of the columns, in their order."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
"""Scripts without spaces between words: each character counts as a word."""


class Index:
    """The tools of one catalogue, searchable by words. Its methods run in threads, one at a time."""

    def __init__(self, catalogue: ServerCatalogue) -> None:
        self._tools = [tool for tool in catalogue.tools if is_for_model(tool)]
        rows = [_index_tool(tool, catalogue) for tool in self._tools]
        self._database = sqlite3.connect(":memory:", check_same_thread=False)
        self._database.execute(_TABLE)
        self._database.executemany(_ADD, rows)
        finalize(self, self._database.close)

    def find(self, query: str, limit: int) -> list[Tool]:
        """Return the tools that have one of the words of ``query``, the best first."""
        words = _WORD.findall(_space_words(query))[:MAX_WORDS]
        if not words:
            return []
        # Quoted, so that no word is read as an operator; a word also matches longer words that begin with it.
        wanted = " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in words)
        found = self._database.execute(_FOUND, (wanted, limit))
        return [self._tools[rowid - 1] for (rowid,) in found]


def _index_tool(tool: Tool, catalogue: ServerCatalogue) -> tuple[str, ...]:
    owned = catalogue.find("tool", tool.name)
    properties: object = tool.input_schema.get("properties")
    names = list(cast("dict[str, object]", properties)) if isinstance(properties, dict) else []
    said = (tool.name, tool.title or "", owned.server if owned else "", tool.description or "", " ".join(names))
    return tuple(_space_words(text[:MAX_INDEXED]) for text in said)


def _space_words(text: str) -> str:
    """Return a text with a space wherever a word may begin: ``createIssue`` and ``create_issue`` become two words."""
    return _IDEOGRAPH.sub(r" \1 ", _HUMP.sub(" ", text)).replace("_", " ")


# --- the two tools ------------------------------------------------------------------------------------------------


class _Find(msgspec.Struct, kw_only=True):
    query: Annotated[str, msgspec.Meta(max_length=1_000)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS)] = USUAL_RESULTS


class _Call(msgspec.Struct, kw_only=True):
    name: str
    arguments: msgspec.Raw = ABSENT


def _list_tools(servers: Sequence[str]) -> list[Tool]:
    named = ", ".join(servers[:MAX_SERVERS]) + (", ..." if len(servers) > MAX_SERVERS else "")
    return [
        Tool(
            name=FIND,
            title="Find tools",
            description=f"Find tools by what they do, before you call one with {CALL}. Each result has the name, the "
            f"description and the input schema of a tool. There are tools of: {named}.",
            input_schema={
                "type": "object",
                "properties": {
                    "query": {
                        "type": "string",
                        "maxLength": 1_000,
                        "description": "Words about what the tool should do, such as: create issue repository",
                    },
                    "limit": {
                        "type": "integer",
                        "minimum": 1,
                        "maximum": MAX_RESULTS,
                        "default": USUAL_RESULTS,
                        "description": "Most tools to return",
                    },
                },
                "required": ["query"],
            },
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        Tool(
            name=CALL,
            title="Call a tool",
            description=f"Call a tool that {FIND} has found, with arguments that fit its input schema.",
            input_schema={
                "type": "object",
                "properties": {
                    "name": {"type": "string", "description": f"The tool's name, as {FIND} returned it"},
                    "arguments": {"type": "object", "description": "By the input schema of the tool"},
                },
                "required": ["name"],
            },
        ),
    ]


class Search:
    """Serves ``tools/list`` and ``tools/call`` of clients that search; raises ``ConfigError`` without SQLite's FTS5."""

    def __init__(self) -> None:
        try:
            Index(ServerCatalogue({}, Exposure()))
        except sqlite3.OperationalError as error:
            raise ConfigError(f"search needs SQLite with FTS5, which this Python lacks ({error})") from None
        self._indexes: WeakKeyDictionary[ServerCatalogue, Index] = WeakKeyDictionary()
        self._turn = asyncio.Lock()
        self.served: Mapping[str, Callable[[PrincipalGroup, ServerRequest], Awaitable[Any]]] = {
            **SERVED,
            "tools/list": self._list_tools,
            "tools/call": self._call_tool,
        }
        """``served_requests.SERVED`` with the list and the calls of clients that search."""

    async def find(self, catalogue: ServerCatalogue, query: str, limit: int) -> list[Tool]:
        """Return the tools that fit best, as ``Index.find`` does, in a thread.

        Making the index of tens of thousands of tools takes up to a second.
        """
        async with self._turn:
            index = self._indexes.get(catalogue)
            if index is None:
                index = self._indexes[catalogue] = await asyncio.to_thread(Index, catalogue)
            return await asyncio.to_thread(index.find, query, limit)

    async def _list_tools(self, group: PrincipalGroup, _request: ServerRequest) -> ListToolsResult:
        return ListToolsResult(tools=_list_tools(list(group.upstreams)), meta=group.catalogue.meta)

    async def _call_tool(self, group: PrincipalGroup, request: ServerRequest) -> Any:
        name: str = request.params.name
        if name not in (FIND, CALL):
            return fail_tool(f"There is no tool {name!r} here. Find tools with {FIND}, and call them with {CALL}.")
        try:
            arguments = bytes(request.params.arguments) or b"{}"
            if name == FIND:
                return await self._render_found(await group.listed(), msgspec.json.decode(arguments, type=_Find))
            inner = msgspec.json.decode(arguments, type=_Call)
            if bytes(inner.arguments)[:1] not in (b"", b"{"):
                raise msgspec.ValidationError("Expected `object` - at `$.arguments`")
        except msgspec.DecodeError as error:
            return fail_tool(f"The arguments of {name} are not valid: {error}")
        catalogue = await group.listed()
        if catalogue.find("tool", inner.name) is None:
            near = await self.find(catalogue, inner.name, 3)
            hint = f" Did you mean {', '.join(tool.name for tool in near)}?" if near else ""
            return fail_tool(f"There is no tool {inner.name!r}.{hint} Find tools with {FIND}.")
        # Served as a direct call of that tool, so that definition, consent and record are those of the tool.
        return await SERVED["tools/call"](group, request.replace(name=inner.name, arguments=inner.arguments or None))

    async def _render_found(self, catalogue: ServerCatalogue, wanted: _Find) -> CallToolResult:
        tools = await self.find(catalogue, wanted.query, wanted.limit)
        if not tools:
            return CallToolResult(
                content=[TextContent(text=f"No tool fits {wanted.query!r}. {_describe_catalogue(catalogue)}")]
            )
        shown: list[dict[str, Any]] = []
        left = MAX_RESULT
        for tool in tools:
            said = {"name": tool.name, "description": tool.description, "inputSchema": tool.input_schema}
            size = len(encode_value(said))
            if size <= left:
                left -= size
                shown.append(said)
            else:
                shown.append({"name": tool.name, "leftOut": f"{size} bytes; find it alone by its name, with limit 1"})
        return CallToolResult(content=[TextContent(text=encode_value({"tools": shown}).decode())])


def _describe_catalogue(catalogue: ServerCatalogue) -> str:
    owners = (catalogue.find("tool", tool.name) for tool in catalogue.tools)
    counts = Counter(owned.server for owned in owners if owned is not None)
    listed = ", ".join(f"{server} ({count})" for server, count in counts.most_common(MAX_SERVERS))
    return f"Servers, with the number of their tools: {listed or 'none'}."
