"""A server that keeps what its client sends, and lists what hosts may refuse, rename or cut.

    measuring_server.py LOG [COUNT]

Each message that comes is a line of LOG. COUNT further tools are listed. Needs nothing but Python.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

LONG = " ".join(f"{at:05}" for at in range(2000))
"""12,000 characters, in which each word tells where it stands."""
NAMES = ["plain", "with.point", "with/slash", "with space", "with:colon", "größe", "UPPER-case_9"]
NAMES += [f"n{length:03}{'x' * (length - 4)}" for length in (40, 50, 51, 55, 56, 64, 112, 113, 114, 128, 200)]


def make_tool(name: str, **members: Any) -> dict[str, Any]:
    """Make a tool that takes one text."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": f"Measures {name[:20]}.", "inputSchema": schema, **members}


def list_tools(count: int) -> list[dict[str, Any]]:
    """List tools with odd names, a long description, and schemas that are not plain."""
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}}}
    union = {"anyOf": [{"type": "string"}, {"type": "integer"}]}
    properties = {"node": {"$ref": "#/$defs/node"}, "union": union, "untyped": {}, "list": {"type": "array"}}
    odd = {"type": "object", "properties": properties, "$defs": {"node": node}}
    return [
        *map(make_tool, NAMES),
        make_tool("long", description=LONG),
        make_tool("odd_schema", inputSchema=odd),
        make_tool("any_of", inputSchema={"type": "object", "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}),
        *(make_tool(f"more_{at:03}") for at in range(count)),
    ]


def answer_request(method: str, params: dict[str, Any], count: int) -> dict[str, Any]:
    """Answer a request as the server of the oldest and of the newest handshake."""
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}, "prompts": {}, "resources": {}, "logging": {}},
            "serverInfo": {"name": "measuring", "version": "1"},
            "instructions": f"Instructions: {LONG}",
        }
    if method == "tools/call":
        return {"content": [{"type": "text", "text": LONG * 40}]}
    lists: dict[str, dict[str, Any]] = {
        "tools/list": {"tools": list_tools(count)},
        "prompts/list": {"prompts": [{"name": "ask", "description": "Asks."}]},
        "resources/list": {"resources": [{"uri": "note://one", "name": "one"}]},
        "resources/templates/list": {"resourceTemplates": []},
    }
    return lists.get(method, {})


def serve_stdio(log: str, count: int) -> None:
    """Answer line by line."""
    for line in sys.stdin:
        with Path(log).open("a", encoding="utf-8") as file:
            file.write(line)
        message = json.loads(line)
        if "id" in message and "method" in message:
            answer: dict[str, Any] = {"result": answer_request(message["method"], message.get("params", {}), count)}
            if message["method"] == "server/discover":
                answer = {"error": {"code": -32601, "message": "no such method"}}
            print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)


if __name__ == "__main__":
    serve_stdio(sys.argv[1], int((sys.argv[2:] or ["0"])[0]))
