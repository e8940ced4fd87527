"""``antiphon tools``: the tools of a server."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from antiphon.cli.open_client import name_left_out, opened, run
from antiphon.cli.options import Json, Reach, TargetText
from antiphon.cli.output.formats import first_line, print_list
from antiphon.wire.tools import Tool

__all__ = ["command", "signature"]


def command(
    target: TargetText,
    *,
    as_json: Json = False,
    reach: Reach,
) -> int:
    """List the tools of a server."""
    return run(_tools(target, reach, as_json=as_json))


async def _tools(target: str, reach: Reach, *, as_json: bool) -> int:
    async with opened(target, reach) as client:
        tools = [tool async for tool in client.tools()]
        code = await name_left_out(client)
    print_list(
        tools,
        {
            "tool": lambda tool: tool.name,
            "arguments": signature,
            "description": lambda tool: first_line(tool.description or tool.title),
        },
        as_json=as_json,
        nothing="The server has no tools.",
    )
    return code


def signature(tool: Tool) -> str:
    """Return the arguments of a tool in short form: optional ones with a question mark, each with its type."""
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    names = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    return ", ".join(f"{name}{'' if name in needed else '?'}: {_type(spec)}" for name, spec in names.items())


def _type(spec: object) -> str:
    kind = cast("Mapping[str, Any]", spec).get("type", "any") if isinstance(spec, dict) else "any"
    return " or ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)
