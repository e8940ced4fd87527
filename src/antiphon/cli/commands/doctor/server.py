"""What a server declares, how it behaves, and what is unusual about it, for ``antiphon doctor TARGET``."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping
from statistics import median
from typing import Any, cast

import msgspec

from antiphon.channel import Channel
from antiphon.cli.commands.doctor.local import Finding
from antiphon.cli.failures import explain
from antiphon.cli.open_client import left_out_of, opened
from antiphon.cli.options import Reach
from antiphon.cli.targets import address_of, resolve_target
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, MethodNotFound
from antiphon.host.checks.visible import hidden
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.revisions import revision
from antiphon.wire.tools import Tool

__all__ = ["examine", "login_finding", "oddities"]

_PINGS = 5
_MANY_TOOLS = 100
"""Number of tools from which models choose badly, and lists cost more than the work."""
_LONG = 4_000
"""Characters from which a description costs a model more than it is worth."""
# 2025-11-25 server/tools, Tool Names: 1 to 128 characters, letters, digits, "_", "-" and ".".
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


async def examine(target: str, reach: Reach, report: Callable[[Finding], object]) -> None:
    """Connect to a server and report findings one by one; errors are raised."""
    channels: list[Channel] = []
    began = time.perf_counter()
    async with opened(target, reach, seen=channels.append) as client:
        report(Finding("ok", "connection", f"open after {time.perf_counter() - began:.2f} s"))
        for finding in _identity(client):
            report(finding)
        report(await _round_trip(client))
        async for finding in _lists(client):
            report(finding)
        noise = sum(getattr(channel, "noise", 0) for channel in channels)
        if noise:
            report(Finding("odd", "stdout", f"{noise} lines that are not messages (logs belong on stderr)"))
        if len(channels) > 1:
            report(Finding("odd", "start", "it ended when asked for its revisions, and had to be started again"))


async def login_finding(target: str, reach: Reach) -> Finding:
    """Say what a server requires from clients that sign in, by its and its authorization server's metadata."""
    address = address_of(resolve_target(target, reach.config))
    if address is None:
        return Finding("note", "login", "a server that is started here gets its secrets by its environment")
    from antiphon.cli.logins import wanted_by

    try:
        return Finding("note", "login", await wanted_by(address))
    except AntiphonError as error:
        return Finding("odd", "login", explain(error))


def _identity(client: Client) -> Iterator[Finding]:
    info = client.server_info
    if info is None:
        yield Finding("odd", "server", "does not state its name and version")
    else:
        yield Finding("ok", "server", f"{info.title or info.name} {info.version}".strip())
    agreed = revision(client.revision)
    era = "modern" if agreed is not None and agreed.modern else "legacy: with a handshake"
    yield Finding("ok", "revision", f"{client.revision} ({era})")
    text = _offers(client.server_capabilities)
    yield Finding("ok" if text else "odd", "offers", text or "nothing at all")
    if hidden(client.instructions or ""):
        yield Finding("odd", "instructions", f"contain invisible characters: {hidden(client.instructions or '')}")


def _offers(capabilities: ServerCapabilities) -> str:
    declared = cast("dict[str, dict[str, object] | None]", msgspec.to_builtins(capabilities))
    return ", ".join(
        name + (f" ({', '.join(sorted(parts))})" if parts else "") for name, parts in sorted(declared.items())
    )


async def _round_trip(client: Client) -> Finding:
    taken: list[float] = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        try:
            await client.ping()
        except MethodNotFound:
            return Finding("odd", "round trip", "it does not know ping")
        taken.append((time.perf_counter() - began) * 1e3)
    kind = "odd" if median(taken) > 1_000 else "ok"
    return Finding(kind, "round trip", f"{median(taken):.1f} ms (median of {_PINGS})")


async def _lists(client: Client) -> AsyncIterator[Finding]:
    offered = client.server_capabilities
    for name in await left_out_of(client):
        yield Finding("failed", f"server {name}", "is left out, since it has not been listed yet: antiphon doctor NAME")
    if offered.tools is not None:
        tools = [tool async for tool in client.tools()]
        yield Finding("ok", "tools", str(len(tools)))
        for finding in oddities(tools):
            yield finding
    if offered.resources is not None:
        resources = [one async for one in client.resources()]
        templates = [one async for one in client.resource_templates()]
        yield Finding("ok", "resources", f"{len(resources)}, and {len(templates)} templates")
    if offered.prompts is not None:
        yield Finding("ok", "prompts", str(len([one async for one in client.prompts()])))


def oddities(tools: Iterable[Tool]) -> Iterator[Finding]:
    """Yield what is unusual about a list of tools."""
    names: Counter[str] = Counter()
    for tool in tools:
        names[tool.name] += 1
        for text in _odd_tool(tool):
            yield Finding("odd", f"tool {tool.name}", text)
    for name, count in names.items():
        if count > 1:
            yield Finding("odd", f"tool {name}", f"is listed {count} times")
    if names.total() > _MANY_TOOLS:
        yield Finding("odd", "tools", f"more than {_MANY_TOOLS}: models choose badly among so many")


def _odd_tool(tool: Tool) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield "its name is not allowed by the specification (letters, digits, '_', '-', '.'; at most 128)"
    if not (tool.description or "").strip():
        yield "has no description: a model cannot know what it is for"
    elif len(tool.description or "") > _LONG:
        yield f"its description has {len(tool.description or '')} characters"
    found = hidden(tool.description or "")
    if found:
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.items())
        yield f"its description contains invisible characters: {kinds}"
    if tool.input_schema.get("type") != "object":
        yield f"its input schema is of type {tool.input_schema.get('type')!r}, not object"
    missing = _undescribed(tool.input_schema)
    if missing:
        yield f"its input schema requires what it does not describe: {', '.join(missing)}"


def _undescribed(schema: Mapping[str, Any]) -> list[str]:
    required, properties = schema.get("required"), schema.get("properties")
    described = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    names = cast("list[object]", required) if isinstance(required, list) else []
    return [str(name) for name in names if name not in described]
