"""Calls of tools, only of those that were allowed by name: results, their schemas, secrets, asks in between."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from antiphon.check.findings import ServerDefinitions
from antiphon.check.peer import Json, RawPeer
from antiphon.check.probes import NOTHING
from antiphon.errors import AntiphonError
from antiphon.host.checks.redact import find_secrets
from antiphon.json_schema.mismatch import MismatchError
from antiphon.json_schema.validator import SchemaValidator
from antiphon.wire.envelope import encode_value

MAX_CALLS = 50
MAX_DEPTH = 8
"""Most calls of one revision, and most levels of an argument that is made from its schema."""
ALL = "all"


async def call_tools(peer: RawPeer, definitions: ServerDefinitions, calls: Sequence[str]) -> None:
    """Call the tools that ``calls`` names (``NAME``, ``NAME={...}`` with arguments, or ``all``), and an unknown one."""
    if not calls or "tools" not in peer.capabilities:
        return
    objects = [cast("Json", tool) for tool in definitions.tools if isinstance(tool, dict)]
    tools = {tool["name"]: tool for tool in objects if isinstance(tool.get("name"), str)}
    peer.is_calling = True
    for name, arguments in list(_plan_calls(tools, calls))[:MAX_CALLS]:
        if peer.ended:
            break
        reply = await peer.ask_for(
            peer.make_request("tools/call", {"name": name, "arguments": arguments}), place=f"tools/call {name!r}"
        )
        if reply is not None and isinstance(reply.get("result"), dict):
            await _examine_result(peer, f"tools/call {name!r}", tools[name], reply["result"])
    reply = await peer.ask("tools/call", {"name": NOTHING, "arguments": {}})
    result: Json = {} if reply is None else reply.get("result") or {}
    if reply is not None and "error" not in reply and not result.get("isError"):
        peer.report("call.unknown", "tools/call of a tool that does not exist", reply)
    peer.is_calling = False


def _plan_calls(tools: Mapping[str, Json], calls: Sequence[str]) -> Iterator[tuple[str, Any]]:
    for call in calls:
        name, equals, text = call.partition("=")
        for each in tools if call == ALL else [name]:
            if each in tools:
                yield each, json.loads(text) if equals else make_example(tools[each].get("inputSchema"))


def make_example(schema: object, depth: int = 0) -> Any:
    """Make a value that a schema probably accepts: its default, an example, a choice, or a small value of its type."""
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return {}
    schema = cast("Json", schema)
    for member in ("const", "default"):
        if member in schema:
            return schema[member]
    for member in ("examples", "enum", "anyOf", "oneOf"):
        several: Any = schema.get(member)
        if isinstance(several, list) and several:
            first: Any = cast("list[Any]", several)[0]
            return first if member in ("examples", "enum") else make_example(first, depth + 1)
    kind: Any = schema.get("type", "object")
    kind = next(iter(cast("list[Any]", kind)), "null") if isinstance(kind, list) else kind
    if kind == "object":
        described, required = schema.get("properties", {}), schema.get("required", [])
        return {name: make_example(described.get(name), depth + 1) for name in required}
    simple: Json = {"string": "a", "integer": schema.get("minimum", 1), "number": 1.0, "boolean": False, "array": []}
    return simple.get(str(cast("object", kind)))


async def _examine_result(peer: RawPeer, place: str, tool: Json, result: Json) -> None:
    if result.get("resultType", "complete") != "complete":
        return
    if not isinstance(result.get("content"), list):
        peer.report("call.content", f"{place}: content", result)
    for found in find_secrets(encode_value(result).decode())[:3]:
        peer.report("safety.secret", place, f"{found.kind} in its result")
    schema = tool.get("outputSchema")
    if not isinstance(schema, dict) or result.get("isError") is True:
        return
    if "structuredContent" not in result:
        peer.report("call.unstructured", f"{place}: structuredContent", result)
        return
    try:
        await SchemaValidator(cast("Json", schema), place=place).check(result["structuredContent"])
    except MismatchError as error:
        peer.report(
            "call.mismatch",
            f"{place}: structuredContent",
            f"{error}; {encode_value(result['structuredContent'])[:200]!r}",
        )
    except AntiphonError as error:
        peer.report("call.schema", f"{place}: outputSchema", str(error))
