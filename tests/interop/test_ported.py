"""Servers ported from FastMCP by the rules of the migration page answer the same, to our client and to FastMCP's."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any, cast

import pytest

from antiphon import Client
from antiphon.types import TextContent
from antiphon.wire.envelope import encode_value
from tests.interop.peers import Peers

HERE = Path(__file__).parent / "ported"
PATIENCE = 90.0
"""Seconds that a server may take to start: FastMCP imports for seconds, and a machine may be busy."""

STEPS: dict[str, list[tuple[str, str, dict[str, Any]]]] = {
    "echo": [
        ("tool", "echo_tool", {"text": "Hällo"}),
        ("resource", "echo://static", {}),
        ("resource", "echo://there", {}),
        ("prompt", "echo", {"text": "again"}),
    ],
    "complex_inputs": [("tool", "name_shrimp", {"tank": {"shrimp": [{"name": "Bo"}]}, "extra_names": ["Al"]})],
    "mount_example": [
        ("tool", "weather_get_forecast", {"location": "Bergen"}),
        ("tool", "news_get_headlines", {}),
        ("tool", "check_status", {}),
    ],
    "persistent_state": [
        ("tool", "get_value", {"key": "colour"}),
        # What is read afterwards differs: FastMCP keeps it in a session, which 2026-07-28 does not have.
        ("tool", "set_value", {"key": "colour", "value": "red"}),
    ],
    "resources_as_tools": [
        ("tool", "read_resource", {"uri": "config://app"}),
        ("tool", "read_resource", {"uri": "user://7/profile"}),
        ("resource", "user://7/profile", {}),
    ],
    "tool_result_echo": [("tool", "echo", {"text": "hello"})],
    "remove_nulls": [("tool", "get_profile", {"user_id": 2})],
    "serializer": [("tool", "get_metrics", {})],
    "screenshot": [("tool", "take_screenshot", {})],
    "metadata": [
        ("tool", "calculate_sum", {"a": 1, "b": 2}),
        ("resource", "data://sales", {}),
        ("prompt", "analyze", {"data_type": "table"}),
    ],
}


MOUNTED = {"weather_get_forecast": "weather__get_forecast", "news_get_headlines": "news__get_headlines"}
"""The names of tools of mounted servers here."""


async def walk_with_ours(command: list[str], steps: list[tuple[str, str, dict[str, Any]]]) -> list[Any]:
    """Walk through a server with our client."""
    async with Client(command, timeout=PATIENCE) as client:
        answers: list[Any] = [sorted([tool.name async for tool in client.tools()])]
        for kind, name, given in steps:
            if kind == "tool":
                result = await client.call_tool(name, given)
                blocks = [json.loads(encode_value(block)) for block in result.content]
                answers.append([blocks, result.structured_content, bool(result.is_error)])
            elif kind == "resource":
                answers.append([content.text for content in (await client.read_resource(name)).contents])
            else:
                messages = (await client.get_prompt(name, given)).messages
                answers.append([[each.role, cast("TextContent", each.content).text] for each in messages])
    return answers


def normalize(answers: list[Any]) -> list[Any]:
    """Undo what the migration page says differs: two underscores after a prefix, and texts that are wrapped, too."""

    def parse(text: str) -> Any:
        try:
            return json.loads(text)
        except ValueError:
            return text

    def show(answer: Any) -> Any:
        if not (isinstance(answer, list) and len(cast("list[Any]", answer)) == 3 and isinstance(answer[2], bool)):
            return cast("Any", answer)
        blocks, structured, is_error = cast("tuple[list[dict[str, Any]], Any, bool]", answer)
        if isinstance(structured, dict) and list(cast("dict[str, Any]", structured)) == ["result"]:
            # A text alone is not repeated as structured content here; read_resource wraps one in FastMCP.
            structured = None if isinstance(structured["result"], str) else cast("Any", structured)
        shown = [[block["type"], parse(block["text"]) if "text" in block else block["data"]] for block in blocks]
        return [shown, structured, is_error]

    names = [name.replace("__", "_") for name in answers[0]]
    return [names, *(show(answer) for answer in answers[1:])]


@pytest.mark.parametrize("name", STEPS)
async def test_a_ported_server_answers_as_fastmcp_does(name: str, peers: Peers):
    """Both servers, each seen by both clients: four times the same."""
    python = str(peers.root / "fastmcp" / "bin" / "python")
    servers = {
        "FastMCP": ([python, str(HERE / "fastmcp_servers.py"), name], STEPS[name]),
        "Antiphon": (
            [sys.executable, str(HERE / "antiphon_servers.py"), name],
            [(kind, MOUNTED.get(tool, tool), given) for kind, tool, given in STEPS[name]],
        ),
    }
    seen: dict[str, list[Any]] = {}
    for server, (command, steps) in servers.items():
        seen[f"{server}, our client"] = normalize(await walk_with_ours(command, steps))
        line = [python, str(HERE / "fastmcp_walk.py"), json.dumps(steps), *command]
        done = await asyncio.to_thread(peers.run, line)
        assert done.returncode == 0, done.stderr[-4000:]
        seen[f"{server}, FastMCP's client"] = normalize(json.loads(done.stdout.splitlines()[-1]))
    wanted = seen["FastMCP, FastMCP's client"]
    assert {who: answers for who, answers in seen.items() if answers != wanted} == {}
