"""The command line of the MCP Inspector on our server, in both eras. It offers no sampling: a case of its own."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.interop.our_server import server
from tests.interop.peers import Peers

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@ERAS
def test_it_lists_the_tools(peers: Peers, tmp_path: Path, era: str):
    """All of them, and no complaint about a schema."""
    done = peers.inspect(tmp_path, era, "--method", "tools/list", "--strict")
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]] == [tool.name for tool in server.tools]


@ERAS
def test_it_calls_a_tool(peers: Peers, tmp_path: Path, era: str):
    """With typed arguments and structured content."""
    done = peers.inspect(tmp_path, era, "--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40")
    assert json.loads(done.stdout)["result"]["structuredContent"] == {"total": 42}


@ERAS
def test_it_puts_the_server_under_load(peers: Peers, tmp_path: Path, era: str):
    """A thousand calls, fifty at once: every one is answered."""
    load = ["--load", "--load-requests", "1000", "--load-concurrency", "50"]
    done = peers.inspect(
        tmp_path, era, "--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40", *load
    )
    result = json.loads(done.stdout)["result"]
    assert (result["ok"], result["errors"], result["toolErrors"]) == (1000, 0, 0)


@ERAS
def test_it_reads_a_resource(peers: Peers, tmp_path: Path, era: str):
    """Of a template."""
    done = peers.inspect(tmp_path, era, "--method", "resources/read", "--uri", "note://tuesday")
    assert json.loads(done.stdout)["result"]["contents"][0]["text"] == "Note tuesday"


@ERAS
def test_it_gets_a_prompt(peers: Peers, tmp_path: Path, era: str):
    """With its argument."""
    named = ["--prompt-name", "review", "--prompt-args", "language=python"]
    done = peers.inspect(tmp_path, era, "--method", "prompts/get", *named)
    assert "Review this python" in done.stdout


@ERAS
def test_it_is_told_that_sampling_is_needed(peers: Peers, tmp_path: Path, era: str):
    """A client without sampling gets a clear error, not silence."""
    call = ["--method", "tools/call", "--tool-name", "describe", "--tool-arg", "product=sweater"]
    done = peers.inspect(tmp_path, era, *call)
    assert done.returncode != 0
    assert "sampling" in done.stdout + done.stderr
