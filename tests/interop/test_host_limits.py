"""What hosts declare to a server, ask of it, and make of what it lists, on its way to their models.

``antiphon check --as`` tells an author what a host would lose: what it says is measured here.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from antiphon.check.check_rules import find_faults, read_rules
from tests.interop.host_homes import HOSTS, Home
from tests.interop.peers import PATIENCE, PROGRAMS, Peers
from tests.interop.programs.measuring_server import answer_request
from tests.interop.scripted_model import ScriptedModel, ToolUse


@dataclass
class RecordingModel(ScriptedModel):
    """A scripted model that keeps the bodies of all requests."""

    bodies: list[Any] = field(default_factory=list)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        if request.method == "POST":
            self.bodies.append(json.loads(await request.read()))
        return await super()._answer(request)


@dataclass
class Measured:
    """What a server and a model saw of one host."""

    sent: Sequence[Any]
    """The messages that came to the server."""
    tools: dict[str, str]
    """The descriptions of the tools that came to the model, by their names there."""
    text: str
    """All that came to the model, as JSON."""


async def measure_host(host: str, folder: Path, peers: Peers, count: int = 0) -> Measured:
    """Run a session of a host with the measuring server, which the model calls once."""
    program, log = HOSTS[host], folder / "server.log"
    async with RecordingModel([ToolUse("plain", {"text": "x"})]) as model:
        home = Home(folder, peers, program.environ(model.url))
        entry = {"command": sys.executable, "args": [str(PROGRAMS / "measuring_server.py"), str(log), str(count)]}
        home.write(home.file(host), program.settings({"antiphon": entry}, model.url))
        await home.run(*program.ask)
    sent = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    tools = {name: text for body in model.bodies for name, text in list_offered(body)}
    return Measured(sent, tools, json.dumps(model.bodies, ensure_ascii=False))


def list_offered(value: Any, space: str = "") -> Iterator[tuple[str, str]]:
    """Yield name and description of every tool in a request, whatever its dialect."""
    if isinstance(value, dict):
        name = value.get("name")
        if isinstance(name, str) and isinstance(value.get("description"), str):
            yield space + name, value["description"]
        inner = f"{name}|" if value.get("type") == "namespace" else space
        for each in value.values():
            yield from list_offered(each, inner)
    if isinstance(value, list):
        for each in value:
            yield from list_offered(each, space)


# Hosts take up to 15 seconds alone, and much longer beside other work.
@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_is_as_antiphon_check_plays_it(host: str, tmp_path: Path, peers: Peers):
    """It declares, asks for and loses what the table of the check says, to the character."""
    client, measured = read_rules().clients[host], await measure_host(host, tmp_path, peers)
    openings = [one["params"] for one in measured.sent if one.get("method") in ("server/discover", "initialize")]
    asked = [one.get("protocolVersion") or one["_meta"]["io.modelcontextprotocol/protocolVersion"] for one in openings]
    assert tuple(asked) == client.revisions
    assert openings[-1]["capabilities"] == client.declares
    assert openings[-1]["clientInfo"] == client.info

    server: dict[str, Any] = {
        method: answer_request(method, {"protocolVersion": ""}, 0) for method in ("initialize", "tools/list")
    }
    tools = {tool["name"]: tool for tool in server["tools/list"]["tools"]}
    about: dict[str, Any] = {
        "tools": [*tools.values()],
        "instructions": server["initialize"]["instructions"],
        "prompts": 1,
    }
    lost = [(rule, place, seen) for rule, place, seen in find_faults(f"as:{host}", {**about, "resources": 1})]
    names = {str(seen) for _, place, seen in lost if place.endswith(".name")}
    arrived = {
        name.split("antiphon", 1)[1].lstrip("_-|"): text for name, text in measured.tools.items() if "antiphon" in name
    }
    assert names == tools.keys() - arrived.keys()
    assert ("as.dropped" in {rule for rule, _, _ in lost}) == (len(arrived) < len(tools))

    broken = {rule for rule, _, _ in lost}
    long = about["instructions"]
    assert ("as.description" in broken) == (arrived["long"] != tools["long"]["description"])
    assert ("as.instructions-lost" in broken) == (long[:40] not in measured.text)
    assert ("as.instructions-cut" in broken) == (long[:4000] in measured.text and long not in measured.text)
    assert ("as.root-union" in broken) == ("anyOf" not in find_schema(measured.text, "any_of"))
    listed = {one.get("method") for one in measured.sent}
    assert ("as.prompts" in broken) == ("prompts/list" not in listed)
    reads = "resources/list" in listed or re.search(r"list_?mcp_?resources", measured.text, re.IGNORECASE)
    assert ("as.resources" in broken) == (not reads)


@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("host", HOSTS)
async def test_no_host_cuts_a_list_of_seven_hundred_tools(host: str, tmp_path: Path, peers: Peers):
    """So the check says nothing of their number, beyond what the vendors of models refuse."""
    measured = await measure_host(host, tmp_path, peers, count=700)
    assert sum("more_" in name for name in measured.tools) == 700


def find_schema(text: str, name: str) -> dict[str, Any]:
    """Return the input schema of a tool as it came to the model."""
    pending: list[Any] = json.loads(text)
    while pending:
        value = pending.pop()
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
        if isinstance(value, dict) and str(value.get("name", "")).endswith(name):
            members = ("input_schema", "parameters", "parametersJsonSchema")
            return next(value[member] for member in members if member in value)
    raise LookupError(name)
