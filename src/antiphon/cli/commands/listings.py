"""``antiphon tools``, ``resources`` and ``prompts``: what a server offers, as lists."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, TypeVar, cast

from antiphon.cli.open_client import name_left_out, open_client
from antiphon.cli.options import Json, Reach, TargetText
from antiphon.cli.output.formats import first_line, print_list
from antiphon.client.client import Client
from antiphon.wire.prompts import Prompt
from antiphon.wire.resources import Resource, ResourceTemplate
from antiphon.wire.tools import Tool

T = TypeVar("T")


async def tools(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List the tools of a server."""
    columns: dict[str, Callable[[Tool], str]] = {
        "tool": lambda tool: tool.name,
        "arguments": format_signature,
        "description": lambda tool: first_line(tool.description or tool.title),
    }
    return await _print_all(target, reach, Client.tools, columns, noun="tools", as_json=as_json)


async def resources(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List what a server lets you read.

    Its resources, and the templates of those it makes on demand.
    """
    columns: dict[str, Callable[[Resource | ResourceTemplate], str]] = {
        "resource": lambda one: one.uri if isinstance(one, Resource) else one.uri_template,
        "type": lambda one: one.mime_type or "",
        "name": lambda one: one.title or one.name,
        "description": lambda one: first_line(one.description),
    }
    return await _print_all(target, reach, _iterate_resources, columns, noun="resources", as_json=as_json)


async def prompts(target: TargetText, *, as_json: Json = False, reach: Reach) -> int:
    """List the prompts of a server."""
    columns: dict[str, Callable[[Prompt], str]] = {
        "prompt": lambda prompt: prompt.name,
        "arguments": lambda prompt: ", ".join(
            f"{one.name}{'' if one.required else '?'}" for one in prompt.arguments or ()
        ),
        "description": lambda prompt: first_line(prompt.description or prompt.title),
    }
    return await _print_all(target, reach, Client.prompts, columns, noun="prompts", as_json=as_json)


async def _print_all(
    target: str,
    reach: Reach,
    iterate: Callable[[Client], AsyncIterator[T]],
    columns: Mapping[str, Callable[[T], str]],
    *,
    noun: str,
    as_json: bool,
) -> int:
    async with open_client(target, reach) as client:
        found = [item async for item in iterate(client)]
        code = await name_left_out(client)
    print_list(found, columns, as_json=as_json, nothing=f"The server has no {noun}.")
    return code


async def _iterate_resources(client: Client) -> AsyncIterator[Resource | ResourceTemplate]:
    async for resource in client.resources():
        yield resource
    async for template in client.resource_templates():
        yield template


def format_signature(tool: Tool) -> str:
    """Return the arguments of a tool in short form: optional ones with a question mark, each with its type."""
    properties = tool.input_schema.get("properties")
    required = tool.input_schema.get("required")
    names = cast("dict[str, object]", properties) if isinstance(properties, dict) else {}
    needed = cast("list[Any]", required) if isinstance(required, list) else []
    return ", ".join(f"{name}{'' if name in needed else '?'}: {_format_type(spec)}" for name, spec in names.items())


def _format_type(spec: object) -> str:
    kind = cast("Mapping[str, Any]", spec).get("type", "any") if isinstance(spec, dict) else "any"
    return " or ".join(map(str, cast("list[Any]", kind))) if isinstance(kind, list) else str(kind)
