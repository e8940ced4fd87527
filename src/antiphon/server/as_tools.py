"""Resources and prompts as tools, for hosts that know only tools: middleware for a server or a gateway.

Each tool makes the requests that a client would make, by the same caller: scopes, ``visible=`` and a gateway's consent
count as ever.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar

from msgspec import Struct
from msgspec.structs import replace

from antiphon.errors import InsufficientScope, PeerError
from antiphon.server.features.tools import ServedTool
from antiphon.server.server_middleware import CallNext, ServerRequest
from antiphon.wire.common import PaginatedParams
from antiphon.wire.content import EmbeddedResource, TextContent
from antiphon.wire.envelope import encode_value
from antiphon.wire.prompts import GetPromptRequestParams
from antiphon.wire.resources import ReadResourceRequestParams
from antiphon.wire.tools import ListToolsResult, ToolAnnotations, fail_tool

_MAX_PAGES = 10
"""Most pages of a list in one result: what follows would not fit into a model's context anyway."""


class _Caller(Struct):
    """Makes requests in the place of a call: the context of the functions below."""

    __antiphon_context__: ClassVar = True
    ask: Callable[[str, Any], Awaitable[Any]]
    """Has a request with these params served, and returns its result."""

    async def collect(self, method: str, member: str) -> list[Any]:
        found: list[Any] = []
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            page = await self.ask(method, PaginatedParams(cursor=cursor))
            found += getattr(page, member)
            if (cursor := page.next_cursor) is None:
                break
        return found


async def list_resources(caller: _Caller) -> str:
    """List what read_resource can read: resources, and templates of URIs whose {gaps} you fill in."""
    resources = await caller.collect("resources/list", "resources")
    templates = await caller.collect("resources/templates/list", "resource_templates")
    return encode_value({"resources": resources, "resourceTemplates": templates}).decode()


async def read_resource(uri: str, caller: _Caller) -> Sequence[TextContent | EmbeddedResource]:
    """Read a resource by its URI, as list_resources returned it."""
    result = await caller.ask("resources/read", ReadResourceRequestParams(uri=uri))
    return [
        EmbeddedResource(resource=each) if each.text is None else TextContent(text=each.text)
        for each in result.contents
    ]


async def list_prompts(caller: _Caller) -> str:
    """List the prompts that get_prompt can fill in, with their arguments."""
    return encode_value({"prompts": await caller.collect("prompts/list", "prompts")}).decode()


async def get_prompt(name: str, caller: _Caller, arguments: dict[str, str] | None = None) -> str:
    """Fill in a prompt, and return its messages, which you then follow."""
    result = await caller.ask("prompts/get", GetPromptRequestParams(name=name, arguments=arguments))
    return encode_value({"messages": result.messages}).decode()


class _AsTools:
    """Lists some tools before all others, and serves them."""

    functions: Sequence[Callable[..., Any]]

    def __init__(self) -> None:
        reads = ToolAnnotations(read_only_hint=True)
        made = (ServedTool.from_function(each, structured=False, annotations=reads) for each in self.functions)
        self._tools = {tool.name: tool for tool in made}

    async def __call__(self, request: ServerRequest, call_next: CallNext) -> Any:
        """Serve these tools, and pass other requests on."""
        if request.method == "tools/call" and (tool := self._tools.get(request.params.name)) is not None:
            ask = partial(request.serve_other, call_next=call_next)
            try:
                return await tool.call(request.params.arguments, _Caller(ask))
            except InsufficientScope:
                raise
            except PeerError as error:
                return fail_tool(error.message)
        result = await call_next(request)
        if isinstance(result, ListToolsResult) and not request.params.cursor:
            result = replace(result, tools=[*(tool.definition for tool in self._tools.values()), *result.tools])
        return result


class ResourcesAsTools(_AsTools):
    """Offer resources by the tools ``list_resources`` and ``read_resource``: ``server.middleware(ResourcesAsTools())``.

    A tool of the server with one of these names is not reached any more.
    """

    functions = (list_resources, read_resource)


class PromptsAsTools(_AsTools):
    """Offer prompts by the tools ``list_prompts`` and ``get_prompt``: ``server.middleware(PromptsAsTools())``."""

    functions = (list_prompts, get_prompt)
