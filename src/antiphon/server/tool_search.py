"""Search among tools: clients list two tools, and find all others by words.

A thousand definitions would fill a model's context. ``find_tools`` returns the few that fit, with their schemas, and
``call_tool`` calls one. Words are ranked by BM25, in SQLite's full-text index in memory. ``SearchTools`` is this as
middleware of a server; a gateway searches with what is here, over its catalogue.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any, cast
from weakref import finalize

import msgspec
from msgspec.structs import replace

from antiphon.errors import ConfigError, InvalidParams
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.wire.apps import is_for_model
from antiphon.wire.common import ABSENT, PaginatedParams
from antiphon.wire.content import TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, ListToolsResult, Tool, ToolAnnotations, fail_tool

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

_MAX_INDEXES = 8
"""Most indexes of one server: callers that see different tools have one each."""
_MAX_TOOLS = 50_000
"""Most tools of one index."""

_COLUMNS = "name, title, server, description, parameters, tokenize='porter unicode61'"
_FOUND = "SELECT rowid FROM tools WHERE tools MATCH ? ORDER BY bm25(tools, 8.0, 4.0, 3.0, 2.0, 1.0), rowid LIMIT ?"
"""The numbers are the weights of the columns, in their order."""
_WORD = re.compile(r"[^\W_]+")
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_IDEOGRAPH = re.compile(r"([\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af])")
"""Scripts without spaces between words: each character counts as a word."""


class ToolIndex:
    """Tools that are searchable by words. Its methods run in threads, one at a time.

    ``server_of`` returns the server whose tool a name is, for words about servers. Raises ``ConfigError`` without the
    full-text search of SQLite.
    """

    def __init__(self, tools: Sequence[Tool], server_of: Callable[[str], str] = lambda _: "") -> None:
        self._tools = [tool for tool in tools if is_for_model(tool)]
        rows = [_index_tool(tool, server_of(tool.name)) for tool in self._tools]
        try:
            import sqlite3  # here, since a server without search does not need it

            self._database = sqlite3.connect(":memory:", check_same_thread=False)
            self._database.execute(f"CREATE VIRTUAL TABLE tools USING fts5({_COLUMNS})")
        except Exception as error:
            raise ConfigError(f"search needs SQLite with FTS5, which this Python lacks ({error})") from None
        self._database.executemany("INSERT INTO tools VALUES (?, ?, ?, ?, ?)", rows)
        finalize(self, self._database.close)

    def find(self, query: str, limit: int) -> list[Tool]:
        """Return the tools that have one of the words of ``query``, the best first."""
        words = _WORD.findall(_space_words(query))[:MAX_WORDS]
        if not words:
            return []
        # Quoted, so that no word is read as an operator; a word also matches longer words that begin with it.
        wanted = " OR ".join(f'"{word}"*' if len(word) > 2 else f'"{word}"' for word in words)
        return [self._tools[rowid - 1] for (rowid,) in self._database.execute(_FOUND, (wanted, limit))]


def _index_tool(tool: Tool, server: str) -> tuple[str, ...]:
    properties: object = tool.input_schema.get("properties")
    names = list(cast("dict[str, object]", properties)) if isinstance(properties, dict) else []
    said = (tool.name, tool.title or "", server, tool.description or "", " ".join(names))
    return tuple(_space_words(text[:MAX_INDEXED]) for text in said)


def _space_words(text: str) -> str:
    """Return a text with a space wherever a word may begin: ``createIssue`` and ``create_issue`` become two words."""
    return _IDEOGRAPH.sub(r" \1 ", _HUMP.sub(" ", text)).replace("_", " ")


# --- the two tools ------------------------------------------------------------------------------------------------


class FindArguments(msgspec.Struct, kw_only=True):
    """The arguments of ``find_tools``."""

    query: Annotated[str, msgspec.Meta(max_length=1_000, description="What it should do: create issue repository")]
    limit: Annotated[int, msgspec.Meta(ge=1, le=MAX_RESULTS, description="Most tools to return")] = USUAL_RESULTS


class CallArguments(msgspec.Struct, kw_only=True):
    """The arguments of ``call_tool``; those of the tool inside are not decoded."""

    name: Annotated[str, msgspec.Meta(description=f"The tool's name, as {FIND} returned it")]
    arguments: Annotated[
        msgspec.Raw, msgspec.Meta(description="By the input schema of the tool", extra_json_schema={"type": "object"})
    ] = msgspec.field(default_factory=lambda: ABSENT)


_KINDS: Mapping[str, type[FindArguments | CallArguments]] = {FIND: FindArguments, CALL: CallArguments}


def _describe_arguments(name: str) -> dict[str, Any]:
    [described] = msgspec.json.schema(_KINDS[name])["$defs"].values()
    return {name: described[name] for name in ("type", "properties", "required")}


def define_tools(owners: str) -> list[Tool]:
    """Return the definitions of both tools; ``owners``: whose tools are found."""
    return [
        Tool(
            name=FIND,
            title="Find tools",
            description=f"Find tools by what they do, before you call one with {CALL}. Each result has the name, the "
            f"description and the input schema of a tool. There are tools of: {owners}.",
            input_schema=_describe_arguments(FIND),
            annotations=ToolAnnotations(read_only_hint=True, open_world_hint=False),
        ),
        Tool(
            name=CALL,
            title="Call a tool",
            description=f"Call a tool that {FIND} has found, with arguments that fit its input schema.",
            input_schema=_describe_arguments(CALL),
        ),
    ]


def read_call(params: CallToolRequestParams) -> FindArguments | CallArguments:
    """Read the arguments of a call of one of both tools; ``DecodeError`` says what does not fit."""
    read = msgspec.json.decode(bytes(params.arguments) or b"{}", type=_KINDS[params.name])
    if isinstance(read, CallArguments) and bytes(read.arguments)[:1] not in (b"", b"{"):
        raise msgspec.ValidationError("Expected `object` - at `$.arguments`")
    return read


def render_tools(tools: Sequence[Tool]) -> CallToolResult:
    """Return the definitions of tools that were found, within ``MAX_RESULT``."""
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


class SearchTools:
    """Have clients list two tools, ``find_tools`` and ``call_tool``, and find all others by words.

    ``server.middleware(SearchTools())`` keeps hundreds of definitions out of a model's context. Tools are found by
    whom they are visible to, and a call through ``call_tool`` is a call of the tool inside: scopes, rates, tasks and
    ``once=`` count as ever. Clients that know a name call it directly. Add it before other middleware, which then
    meets the tool inside.

    Args:
        keep: names of the tools that stay in the list, such as those with an interface, those that only an interface
            calls, or those with required arguments in headers.

    Raises:
        ConfigError: ``keep`` is a text, or this Python's SQLite has no full-text search.
    """

    def __init__(self, keep: Collection[str] = ()) -> None:
        if isinstance(keep, str):
            raise ConfigError(f"SearchTools(keep=) is a list of names, as in [{keep!r}]")
        # Without full-text search no server begins.
        ToolIndex(())
        self._kept = frozenset(keep)
        self._indexes: deque[tuple[Sequence[Tool], ToolIndex]] = deque(maxlen=_MAX_INDEXES)
        self._turn = asyncio.Lock()

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """List both tools, and serve them; pass other requests on."""
        if request.method == "tools/list":
            return await self._list_tools(request, call_next)
        if request.method != "tools/call" or request.params.name not in (FIND, CALL):
            return await call_next(request)
        try:
            wanted = read_call(request.params)
        except msgspec.DecodeError as error:
            return fail_tool(f"The arguments of {request.params.name} are not valid: {error}")
        if isinstance(wanted, FindArguments):
            return await self._find_tools(wanted, request, call_next)
        try:
            tool = request.find_tool(wanted.name)
            if tool is not None and not is_for_model(tool):
                raise InvalidParams(f"Unknown tool: {wanted.name}")
            return await call_next(request.replace(name=wanted.name, arguments=wanted.arguments or None))
        except InvalidParams as error:
            # A result rather than an error of the protocol: the model chose the name, and can choose another.
            return fail_tool(f"{error.message}. Find tools with {FIND}.")

    def find_called(self, params: CallToolRequestParams) -> CallToolRequestParams:
        """Return the call inside a call of ``call_tool``, which decides whether it may run twice or become a task.

        Args:
            params: those of the call, as the client sent them.
        """
        if params.name == CALL:
            with suppress(msgspec.DecodeError):
                inner = cast("CallArguments", read_call(params))
                return replace(params, name=inner.name, arguments=inner.arguments)
        return params

    async def _list_tools(self, request: ServerRequest, call_next: CallNext) -> ListToolsResult:
        # Clients in Go write an empty cursor for none.
        if request.params.cursor:
            raise InvalidParams("Unknown cursor: this list has one page")
        first = await self._collect(request, call_next, len(self._kept))
        kept = [tool for tool in first.tools if tool.name in self._kept]
        return replace(first, tools=[*define_tools(request.ctx.server.name), *kept], next_cursor=None)

    async def _collect(self, request: ServerRequest, call_next: CallNext, names: int = _MAX_TOOLS) -> ListToolsResult:
        """Return the caller's list in one page; only until it has so many of the kept names."""
        first = page = await request.serve_other("tools/list", PaginatedParams(), call_next)
        found = list(first.tools)
        while page.next_cursor and len(found) < _MAX_TOOLS and sum(each.name in self._kept for each in found) < names:
            page = await request.serve_other("tools/list", PaginatedParams(cursor=page.next_cursor), call_next)
            found += page.tools
        return replace(first, tools=found)

    async def _find_tools(self, wanted: FindArguments, request: ServerRequest, call_next: CallNext) -> CallToolResult:
        tools = (await self._collect(request, call_next)).tools
        async with self._turn:
            # Compared whole, since callers see different tools, and other middleware may change any of them.
            index = next((made for known, made in self._indexes if known == tools), None)
            if index is None:
                index = await asyncio.to_thread(ToolIndex, tools)
                self._indexes.append((tools, index))
            found = await asyncio.to_thread(index.find, wanted.query, wanted.limit)
        if not found:
            return CallToolResult(content=[TextContent(text=f"No tool fits {wanted.query!r}. Try other words.")])
        return render_tools(found)
