"""What a gateway does with each request of a client: it finds the server, makes the request there, returns the result.

Owns the table of the methods that are served from the servers behind the gateway. ``group`` knows whose each name is.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from msgspec import Raw

from antiphon.client.client import Client
from antiphon.errors import InternalError, PeerError, Rejected, ResultInvalid
from antiphon.gateway.group import Group
from antiphon.gateway.progress import reporting
from antiphon.gateway.upstream import Unavailable
from antiphon.server.middleware import ServerRequest
from antiphon.wire.completion import CompleteRequestParams, CompleteResult, PromptReference
from antiphon.wire.content import TextContent
from antiphon.wire.prompts import GetPromptResult, ListPromptsResult
from antiphon.wire.resources import ListResourcesResult, ListResourceTemplatesResult, ReadResourceResult
from antiphon.wire.tools import CallToolResult, ListToolsResult

__all__ = ["SERVED"]

_OURS = "io.modelcontextprotocol/"
"""Members of ``_meta`` that belong to one connection, and are not passed on."""


async def _list_tools(group: Group, _request: ServerRequest) -> ListToolsResult:
    return ListToolsResult(tools=(await group.listed()).tools)


async def _list_prompts(group: Group, _request: ServerRequest) -> ListPromptsResult:
    return ListPromptsResult(prompts=(await group.listed()).prompts)


async def _list_resources(group: Group, _request: ServerRequest) -> ListResourcesResult:
    return ListResourcesResult(resources=(await group.listed()).resources)


async def _list_templates(group: Group, _request: ServerRequest) -> ListResourceTemplatesResult:
    return ListResourceTemplatesResult(resource_templates=(await group.listed()).templates)


async def _call_tool(group: Group, request: ServerRequest) -> CallToolResult:
    owned = await group.owned("tool", request.params.name)
    meta = request.ctx.request.meta
    passed = {key: value for key, value in meta.items() if not key.startswith(_OURS) and key != "progressToken"}
    arguments: Raw = request.params.arguments
    try:
        async with (
            group.upstreams[owned.server].used(request) as client,
            reporting(request.ctx, wanted="progressToken" in meta) as report,
        ):
            return await client.call_tool(owned.name, arguments or None, progress=report, meta=passed or None)
    except Rejected as error:
        return _failed(f"The call was refused: {error.message}")
    except (Unavailable, ResultInvalid) as error:
        return _failed(str(error))
    except PeerError as error:
        raise _passed_on(error) from None


async def _get_prompt(group: Group, request: ServerRequest) -> GetPromptResult:
    owned = await group.owned("prompt", request.params.name)
    async with _used(group, owned.server, request) as client:
        return await client.get_prompt(owned.name, request.params.arguments)


async def _read_resource(group: Group, request: ServerRequest) -> ReadResourceResult:
    uri: str = request.params.uri
    async with _used(group, await group.reader(uri), request) as client:
        return await client.read_resource(uri)


async def _complete(group: Group, request: ServerRequest) -> CompleteResult:
    params: CompleteRequestParams = request.params
    ref = params.ref
    owned = await (group.owned("prompt", ref.name) if isinstance(ref, PromptReference) else group.template(ref.uri))
    settled = params.context.arguments if params.context is not None else None
    async with _used(group, owned.server, request) as client:
        return await client.complete(owned.name, params.argument.name, params.argument.value, arguments=settled)


SERVED: Mapping[str, Callable[[Group, ServerRequest], Awaitable[Any]]] = {
    "tools/list": _list_tools,
    "tools/call": _call_tool,
    "prompts/list": _list_prompts,
    "prompts/get": _get_prompt,
    "resources/list": _list_resources,
    "resources/templates/list": _list_templates,
    "resources/read": _read_resource,
    "completion/complete": _complete,
}
"""By method: ``async (group, request) -> result``."""


@asynccontextmanager
async def _used(group: Group, server: str, request: ServerRequest) -> AsyncGenerator[Client]:
    try:
        async with group.upstreams[server].used(request) as client:
            yield client
    except Unavailable as error:
        raise InternalError(str(error)) from None
    except PeerError as error:
        raise _passed_on(error) from None


def _passed_on(error: PeerError) -> PeerError:
    """Return an error of a server behind the gateway as one of our own, because remote errors are not passed on."""
    return PeerError(error.message, code=error.code, data=error.data)


def _failed(text: str) -> CallToolResult:
    return CallToolResult(content=[TextContent(text=text)], is_error=True)
