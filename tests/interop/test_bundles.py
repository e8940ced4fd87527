"""Bundles of ``antiphon pack`` in the hands of MCPB's own program, and started as hosts start them.

The package ``@anthropic-ai/mcpb`` is the reference: its schema, its validator, and how it unpacks.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from antiphon.cli.commands.pack import command as pack
from tests.cli.commands.test_pack import SERVER
from tests.interop.peers import Peers

PROJECT = """
[project]
name = "weather-server"
version = "1.2.0rc1"
description = "The weather of any town"
readme = "README.md"
requires-python = ">=3.11"
license = "MIT"
authors = [{ name = "Ann", email = "ann@example.com" }]
keywords = ["weather"]
dependencies = ["antiphon"]

[project.scripts]
weather-server = "server:main"

[project.urls]
Homepage = "https://weather.example.com"
Repository = "https://github.com/ann/weather"
Documentation = "https://weather.example.com/docs"
Issues = "https://github.com/ann/weather/issues"

[tool.antiphon.pack]
name = "io.github.ann/weather"
entry_point = "server.py"
title = "Weather"

[tool.antiphon.pack.manifest]
icon = "icon.png"
privacy_policies = ["https://weather.example.com/privacy"]

[tool.antiphon.pack.variables.WEATHER_KEY]
description = "Key of the weather service"
required = true
sensitive = true
"""
PROSE = {"description", "title", "$comment", "example", "examples"}


def run_mcpb(peers: Peers, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run MCPB's program to its end."""
    return peers.run([peers.node, str(peers.root / "npm/node_modules/@anthropic-ai/mcpb/dist/cli/cli.js"), *arguments])


@pytest.fixture
def unpacked(peers: Peers, tmp_path: Path) -> Path:
    """Pack a project, and have MCPB's program unpack the bundle."""
    project = tmp_path / "project"
    project.mkdir()
    (project / "pyproject.toml").write_text(PROJECT, encoding="utf-8")
    (project / "server.py").write_text(SERVER, encoding="utf-8")
    (project / "README.md").write_text("<!-- mcp-name: io.github.ann/weather -->\n", encoding="utf-8")
    (project / "icon.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    packed = peers.run([sys.executable, "-m", "antiphon", "pack", str(project)])
    assert packed.returncode == 0, packed.stderr
    bundle = project / "dist" / "weather-server-1.2.0rc1.mcpb"
    assert run_mcpb(peers, "info", str(bundle)).returncode == 0
    done = run_mcpb(peers, "unpack", str(bundle), str(tmp_path / "unpacked"))
    assert done.returncode == 0, done.stderr
    return tmp_path / "unpacked"


def test_their_validator_takes_the_manifest(peers: Peers, unpacked: Path):
    """With the icon beside it; a manifest that is wrong is not taken."""
    done = run_mcpb(peers, "validate", str(unpacked))
    assert (done.returncode, "Manifest schema validation passes!" in done.stdout) == (0, True), done.stdout
    manifest = unpacked / "manifest.json"
    manifest.write_text(manifest.read_text(encoding="utf-8").replace('"uv"', '"uvx"', 1), encoding="utf-8")
    assert run_mcpb(peers, "validate", str(unpacked)).returncode == 1


async def test_uv_starts_the_server_of_a_bundle(peers: Peers, unpacked: Path):
    """By the command line of the manifest, filled in as a host does; uv uses this environment, and installs nothing."""
    start = json.loads((unpacked / "manifest.json").read_bytes())["server"]["mcp_config"]
    assert start["command"] == "uv"
    words = [word.replace("${__dirname}", str(unpacked)) for word in start["args"]]
    given = {name: value.replace("${user_config.weather_key}", "Ann") for name, value in start["env"].items()}
    offline = {"UV_PROJECT_ENVIRONMENT": sys.prefix, "UV_NO_SYNC": "1", "UV_OFFLINE": "1", **given}
    line = ["env", *(f"{name}={value}" for name, value in offline.items()), str(peers.root / "uv/bin/uv"), *words]
    async with Client(line) as client:
        assert (await client.call_tool("weather", {"town": "Kiel"})).text == "Rain in Kiel, says Ann"


def leave_out_prose(schema: Any, *, is_map: bool = False) -> Any:
    """Return the rules of a schema; in a map of members, every name is kept."""
    if isinstance(schema, list):
        return [leave_out_prose(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: leave_out_prose(each, is_map=name in ("properties", "definitions") and not is_map)
        for name, each in schema.items()
        if is_map or name not in PROSE
    }


def test_our_schema_has_the_rules_of_theirs(peers: Peers):
    """All of them, and no others."""
    theirs = peers.root / "npm/node_modules/@anthropic-ai/mcpb/dist/mcpb-manifest-v0.4.schema.json"
    ours = Path(pack.__file__).with_name("mcpb-0.4.json")
    assert json.loads(ours.read_bytes()) == leave_out_prose(json.loads(theirs.read_bytes()))
