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
from antiphon.cli.commands.doctor.local import DoctorFinding
from antiphon.cli.error_messages import explain_error
from antiphon.cli.open_client import list_left_out, open_client
from antiphon.cli.options import Reach
from antiphon.cli.target_text import address_of, resolve_target
from antiphon.client.client import Client
from antiphon.errors import AntiphonError, MethodNotFound
from antiphon.host.checks.visible import count_hidden
from antiphon.wire.lifecycle import ServerCapabilities
from antiphon.wire.revisions import find_revision
from antiphon.wire.tools import Tool

_PINGS = 5
_MANY_TOOLS = 100
"""Number of tools from which models choose badly, and lists cost more than the work."""
_LONG = 4_000
"""Characters from which a description costs a model more than it is worth."""
# 2025-11-25 server/tools, Tool Names: 1 to 128 characters, letters, digits, "_", "-" and ".".
_NAME = re.compile(r"[A-Za-z0-9_.-]{1,128}")


async def examine_server(target: str, reach: Reach, report: Callable[[DoctorFinding], object]) -> None:
    """Connect to a server and report findings one by one; errors are raised."""
    channels: list[Channel] = []
    began = time.perf_counter()
    async with open_client(target, reach, seen=channels.append) as client:
        report(DoctorFinding("ok", "connection", f"open after {time.perf_counter() - began:.2f} s"))
        for finding in _report_identity(client):
            report(finding)
        report(await _round_trip(client))
        async for finding in _check_lists(client):
            report(finding)
        noise = sum(getattr(channel, "noise", 0) for channel in channels)
        if noise:
            report(DoctorFinding("odd", "stdout", f"{noise} lines that are not messages (logs belong on stderr)"))
        if len(channels) > 1:
            report(DoctorFinding("odd", "start", "it ended when asked for its revisions, and had to be started again"))


async def check_login(target: str, reach: Reach) -> DoctorFinding:
    """Say what a server requires from clients that sign in, by its and its authorization server's metadata."""
    address = address_of(resolve_target(target, reach.config))
    if address is None:
        return DoctorFinding("note", "login", "a server that is started here gets its secrets by its environment")
    from antiphon.cli.login_access import describe_sign_in

    try:
        return DoctorFinding("note", "login", await describe_sign_in(address))
    except AntiphonError as error:
        return DoctorFinding("odd", "login", explain_error(error))


def _report_identity(client: Client) -> Iterator[DoctorFinding]:
    info = client.server_info
    if info is None:
        yield DoctorFinding("odd", "server", "does not state its name and version")
    else:
        yield DoctorFinding("ok", "server", f"{info.title or info.name} {info.version}".strip())
    agreed = find_revision(client.revision)
    era = "modern" if agreed is not None and agreed.modern else "legacy: with a handshake"
    yield DoctorFinding("ok", "revision", f"{client.revision} ({era})")
    text = _describe_offers(client.server_capabilities)
    yield DoctorFinding("ok" if text else "odd", "offers", text or "nothing at all")
    if count_hidden(client.instructions or ""):
        yield DoctorFinding(
            "odd", "instructions", f"contain invisible characters: {count_hidden(client.instructions or '')}"
        )


def _describe_offers(capabilities: ServerCapabilities) -> str:
    declared = cast("dict[str, dict[str, object] | None]", msgspec.to_builtins(capabilities))
    return ", ".join(
        name + (f" ({', '.join(sorted(parts))})" if parts else "") for name, parts in sorted(declared.items())
    )


async def _round_trip(client: Client) -> DoctorFinding:
    taken: list[float] = []
    for _ in range(_PINGS):
        began = time.perf_counter()
        try:
            await client.ping()
        except MethodNotFound:
            return DoctorFinding("odd", "round trip", "it does not know ping")
        taken.append((time.perf_counter() - began) * 1e3)
    kind = "odd" if median(taken) > 1_000 else "ok"
    return DoctorFinding(kind, "round trip", f"{median(taken):.1f} ms (median of {_PINGS})")


async def _check_lists(client: Client) -> AsyncIterator[DoctorFinding]:
    offered = client.server_capabilities
    for name in await list_left_out(client):
        yield DoctorFinding(
            "failed", f"server {name}", "is left out, since it has not been listed yet: antiphon doctor NAME"
        )
    if offered.tools is not None:
        tools = [tool async for tool in client.tools()]
        yield DoctorFinding("ok", "tools", str(len(tools)))
        for finding in find_oddities(tools):
            yield finding
    if offered.resources is not None:
        resources = [one async for one in client.resources()]
        templates = [one async for one in client.resource_templates()]
        yield DoctorFinding("ok", "resources", f"{len(resources)}, and {len(templates)} templates")
    if offered.prompts is not None:
        yield DoctorFinding("ok", "prompts", str(len([one async for one in client.prompts()])))


def find_oddities(tools: Iterable[Tool]) -> Iterator[DoctorFinding]:
    """Yield what is unusual about a list of tools."""
    names: Counter[str] = Counter()
    for tool in tools:
        names[tool.name] += 1
        for text in _odd_tool(tool):
            yield DoctorFinding("odd", f"tool {tool.name}", text)
    for name, count in names.items():
        if count > 1:
            yield DoctorFinding("odd", f"tool {name}", f"is listed {count} times")
    if names.total() > _MANY_TOOLS:
        yield DoctorFinding("odd", "tools", f"more than {_MANY_TOOLS}: models choose badly among so many")


def _odd_tool(tool: Tool) -> Iterator[str]:
    if not _NAME.fullmatch(tool.name):
        yield "its name is not allowed by the specification (letters, digits, '_', '-', '.'; at most 128)"
    if not (tool.description or "").strip():
        yield "has no description: a model cannot know what it is for"
    elif len(tool.description or "") > _LONG:
        yield f"its description has {len(tool.description or '')} characters"
    found = count_hidden(tool.description or "")
    if found:
        kinds = ", ".join(f"{count} {kind}" for kind, count in found.items())
        yield f"its description contains invisible characters: {kinds}"
    if tool.input_schema.get("type") != "object":
        yield f"its input schema is of type {tool.input_schema.get('type')!r}, not object"
    missing = _list_undescribed(tool.input_schema)
    if missing:
        yield f"its input schema requires what it does not describe: {', '.join(missing)}"


def _list_undescribed(schema: Mapping[str, Any]) -> list[str]:
    required, properties = schema.get("required"), schema.get("properties")
    described = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    names = cast("list[object]", required) if isinstance(required, list) else []
    return [str(name) for name in names if name not in described]
