"""The command line of the MCP Inspector on our server, in both eras: over stdio, and as three replicas behind nginx.

It offers no sampling: a case of its own.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.our_server import server
from tests.interop.peers import OUR_SERVER, Peers
from tests.support.three_replicas import three_replicas

ERAS = pytest.mark.parametrize("era", ["legacy", "modern"])


@pytest.fixture(scope="module", params=["stdio", "replicas"])
def place(request: pytest.FixtureRequest) -> Iterator[list[str]]:
    """Say where our server is: the command line that starts it, or the address of nginx before three of it."""
    if request.param == "stdio":
        yield OUR_SERVER
        return
    with three_replicas(OUR_SERVER) as url:
        yield [url, "--transport", "http"]


@ERAS
def test_it_lists_the_tools(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """All of them, and no complaint about a schema."""
    done = peers.inspect(tmp_path, era, "--method", "tools/list", "--strict", server=place)
    assert done.returncode == 0, done.stderr
    assert [tool["name"] for tool in json.loads(done.stdout)["result"]["tools"]] == [tool.name for tool in server.tools]


@ERAS
def test_it_calls_a_tool(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """With typed arguments and structured content."""
    call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40"]
    done = peers.inspect(tmp_path, era, *call, server=place)
    assert json.loads(done.stdout)["result"]["structuredContent"] == {"total": 42}


@ERAS
def test_it_puts_the_server_under_load(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """A thousand calls, fifty at once: every one is answered."""
    load = ["--load", "--load-requests", "1000", "--load-concurrency", "50"]
    call = ["--method", "tools/call", "--tool-name", "add", "--tool-arg", "a=2", "b=40"]
    done = peers.inspect(tmp_path, era, *call, *load, server=place)
    result = json.loads(done.stdout)["result"]
    assert (result["ok"], result["errors"], result["toolErrors"]) == (1000, 0, 0)


@ERAS
def test_it_reads_a_resource(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """Of a template."""
    done = peers.inspect(tmp_path, era, "--method", "resources/read", "--uri", "note://tuesday", server=place)
    assert json.loads(done.stdout)["result"]["contents"][0]["text"] == "Note tuesday"


@ERAS
def test_it_gets_a_prompt(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """With its argument."""
    named = ["--prompt-name", "review", "--prompt-args", "language=python"]
    done = peers.inspect(tmp_path, era, "--method", "prompts/get", *named, server=place)
    assert "Review this python" in done.stdout


@ERAS
def test_it_is_told_that_sampling_is_needed(peers: Peers, tmp_path: Path, place: list[str], era: str):
    """A client without sampling gets a clear error, not silence."""
    call = ["--method", "tools/call", "--tool-name", "describe", "--tool-arg", "product=sweater"]
    done = peers.inspect(tmp_path, era, *call, server=place)
    assert done.returncode != 0
    assert "sampling" in done.stdout + done.stderr
