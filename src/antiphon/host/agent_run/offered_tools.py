"""Tools as a model is offered them, and the one place where a model's call of a tool is made.

Owns what a source of tools is, which of its tools a model sees and by what names, and what a model gets of a result.
The loop of ``Host.run`` and the adapters for other frameworks use it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from functools import partial
from secrets import token_hex
from typing import Any, Protocol, runtime_checkable

import msgspec

from antiphon.errors import AntiphonError, ConfigError, LocalProtocolError, MethodNotFound, PeerError, Rejected
from antiphon.host.checks.validate import MAX_JSON_DEPTH, inspect_media
from antiphon.host.providers.base import plain_names
from antiphon.wire import content
from antiphon.wire.apps import is_for_model
from antiphon.wire.envelope import encode_value, read_data, too_deep
from antiphon.wire.origin import MEMORY, ChangedCall, Origin, identify_target
from antiphon.wire.outcome_filter import pass_outcome
from antiphon.wire.tools import CallToolRequestParams, CallToolResult, Tool, fail_tool, fit_schemas

MAX_RESULT = 100_000
"""Most characters of one result that a model gets: about 25,000 tokens, an eighth of what large models take."""


class ToolSource(Protocol):
    """Something that has tools: a ``Client``, or an object of your own."""

    def tools(self) -> AsyncIterator[Tool]:
        """Iterate over all tools."""
        ...

    def call_tool(self, name: str, arguments: Mapping[str, Any], /) -> Awaitable[CallToolResult]:
        """Call a tool.

        Args:
            name: the tool's name, as ``tools`` has it.
            arguments: its arguments.
        """
        ...


class ConfirmsCalls(Protocol):
    """Something that decides about calls of tools, such as a ``Host``."""

    async def confirm(self, params: CallToolRequestParams, origin: Origin) -> bool | ChangedCall | None:
        """Decide about one call: true allows it, a ``ChangedCall`` takes its place, anything else refuses it."""
        ...

    async def examine(self, result: CallToolResult, params: CallToolRequestParams, origin: Origin) -> CallToolResult:
        """Return what is passed on of a result."""
        ...


@runtime_checkable
class ToolClient(ToolSource, Protocol):
    """A source that knows its server, so that it has each call confirmed itself: a ``Client``."""

    @property
    def confirmers(self) -> Sequence[object]:
        """What is asked before each call already."""
        ...

    def call_tool(
        self, name: str, arguments: Mapping[str, Any], /, *, progress: Any = None, confirm: Any = None
    ) -> Awaitable[CallToolResult]:
        """Call a tool, once ``confirm`` allows it; ``progress`` is called with each progress report."""
        ...


class OfferedTool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a model may call."""

    name: str
    """Its name for the model: letters, digits, ``_`` and ``-``, at most 64, and each only once."""
    tool: Tool
    """What its server says of it."""
    source: ToolSource

    @property
    def definition(self) -> Tool:
        """The definition for the model, by the name for the model."""
        return self.tool if self.tool.name == self.name else msgspec.structs.replace(self.tool, name=self.name)


def as_sources(tools: ToolSource | Sequence[ToolSource]) -> Sequence[ToolSource]:
    """Return one source, or several, as a sequence; raise ``ConfigError`` for anything without tools."""
    sources = tools if isinstance(tools, Sequence) else [tools]
    for each in sources:
        if not (hasattr(each, "tools") and hasattr(each, "call_tool")):
            raise ConfigError(f"tools= takes a Client, or what has tools() and call_tool(), or a list; got {each!r}")
    return sources


async def offer_tools(sources: Sequence[ToolSource]) -> dict[str, OfferedTool]:
    """List the tools for a model by their names for it. Of two tools with one name, the first keeps it.

    Raises ``MethodNotFound``: none of the servers has tools; one that has none costs the others nothing.
    """
    found: list[tuple[ToolSource, Tool]] = []
    lacking: MethodNotFound | None = None
    for source in sources:
        try:
            found += [(source, fit_schemas(tool)) async for tool in source.tools() if is_for_model(tool)]
        except MethodNotFound as error:
            lacking = error
    if lacking is not None and not found:
        raise lacking
    names = plain_names([tool.name for _, tool in found])
    return {
        name: OfferedTool(name=name, tool=tool, source=source)
        for name, (source, tool) in zip(names, found, strict=True)
    }


async def call_tool(
    offered: OfferedTool,
    arguments: Mapping[str, Any],
    confirm: ConfirmsCalls | None,
    progress: Callable[..., object] | None = None,
) -> CallToolResult:
    """Call a tool once it is allowed. Each decider is asked once, whoever brings it.

    ``confirm`` is asked first; ``None`` if the source alone decides. ``progress`` gets ``(progress, total, message)``
    of each report of a client. A refusal raises ``Rejected``: nothing was sent.
    """
    source, name = offered.source, offered.tool.name
    if isinstance(source, ToolClient):
        return await source.call_tool(name, arguments, progress=progress, confirm=confirm)
    if confirm is None:
        return await source.call_tool(name, arguments)
    # It knows no server, so that its class stands for who it is.
    place = [MEMORY, f"{type(source).__module__}.{type(source).__qualname__}"]
    origin = Origin(id=token_hex(8), identity=identify_target(place), target=place[1], tool=offered.tool)
    params = CallToolRequestParams.of(name, arguments)
    allowed = await confirm.confirm(params, origin)
    changed = allowed if isinstance(allowed, ChangedCall) else None
    if changed is not None:
        if changed.params is None:
            return changed.result or CallToolResult(content=[])
        params, arguments = changed.params, changed.decode_arguments()
    elif allowed is not True:
        raise Rejected(f"User rejected the call of {name!r}", data={"reason": "user"})
    examine = partial(confirm.examine, params=params, origin=origin)
    result = await pass_outcome(source.call_tool(name, arguments), examine, is_local=True)
    return result if changed is None else changed.add_note(result)


async def call_for_model(
    calling: Awaitable[CallToolResult], most: int = MAX_RESULT
) -> tuple[CallToolResult, str | None]:
    """Wait for a call; return its result for the model, and why it was refused, if it was.

    Raises ``ConfigError`` and ``LocalProtocolError``: mistakes of the program, which a model cannot mend.
    """
    refused = None
    try:
        result = await calling
    except AntiphonError as error:
        result, refused = describe_failure(error), refusal_of(error)
    return fit_for_model(result, most), refused


def describe_failure(error: AntiphonError) -> CallToolResult:
    """Return the result that tells a model why a call failed; raise mistakes of the program again."""
    if isinstance(error, ConfigError | LocalProtocolError):
        raise error
    note = refusal_of(error, "note")
    said = error.message if isinstance(error, PeerError) else str(error)
    return fail_tool(f"{said}: {note}" if note else said)


def refusal_of(error: AntiphonError, member: str = "reason") -> str | None:
    """Return the ``reason`` of a refused call, or the person's ``note``; ``None`` if there is none."""
    found = read_data(error, member) if isinstance(error, Rejected) else None
    return found if isinstance(found, str) else None


_MOST_BLOCKS = 100
"""Most blocks of content that a model gets of one result: a request has room for 1,000."""


def fit_for_model(result: CallToolResult, most: int = MAX_RESULT) -> CallToolResult:
    """Return a result with content that models accept, of at most ``most`` characters; images count as base64.

    Structured content by itself has as many.
    """
    blocks = [_adapt_block(block) for block in result.content]
    structured = result.structured_content
    data = b"" if structured is None else encode_value(structured)
    if not blocks and data:
        blocks = [content.TextContent(text=data.decode())]
    if len(data) > most or too_deep(data, MAX_JSON_DEPTH):
        structured = None
    kept: list[content.ContentBlock] = []
    for at, block in enumerate(blocks):
        if at == _MOST_BLOCKS:
            kept.append(content.TextContent(text=f"[left out: {len(blocks) - at:,} more blocks]"))
            break
        size = len(block.text) if isinstance(block, content.TextContent) else len(encode_value(block))
        if size <= most:
            kept.append(block)
        elif isinstance(block, content.TextContent):
            kept.append(content.TextContent(text=f"{block.text[:most]}\n[cut: {most:,} of {size:,} characters]"))
        else:
            kept.append(content.TextContent(text=f"[left out: {type(block).__name__} of {size:,} characters]"))
        most = max(0, most - size)
    if structured is not result.structured_content and result.content:
        kept.append(content.TextContent(text=f"[left out: structured content of {len(data):,} characters]"))
    return msgspec.structs.replace(result, content=kept, structured_content=structured)


def _adapt_block(block: content.ContentBlock) -> content.ContentBlock:
    """Return a block as models accept it: what they cannot read, or a host refuses, is named in a text."""
    if isinstance(block, content.ImageContent | content.AudioContent):
        try:
            inspect_media(block.data, block.mime_type)
        except ValueError as error:
            return content.TextContent(text=f"[left out: {block.mime_type}, {len(block.data):,} characters: {error}]")
    if isinstance(block, content.TextContent | content.ImageContent | content.AudioContent | content.ResourceLink):
        return block
    if not isinstance(block, content.EmbeddedResource):
        return content.TextContent(text=f"[content of the unknown kind {block.type!r}]")
    resource = block.resource
    if resource.blob is None:
        return block
    kind = resource.mime_type or "application/octet-stream"
    if kind.startswith("image/"):
        return _adapt_block(content.ImageContent(data=resource.blob, mime_type=kind))
    return content.TextContent(text=f"[resource {resource.uri}: {kind}, {len(resource.blob) * 3 // 4:,} bytes]")
