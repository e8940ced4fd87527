"""Who is measured, how each is started, and what it offers. It starts nothing."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

__all__ = [
    "CLIENTS",
    "EARLIER",
    "OURS",
    "SERVERS",
    "Peer",
    "add_earlier",
    "cache_folder",
    "missing",
    "node_version",
    "version_of",
]

OURS = "antiphon"
EARLIER = "earlier"
HERE = Path(__file__).parent
INTERPRETER = sys.executable


def cache_folder() -> Path:
    """Say where ``setup.sh`` installs the peers."""
    if named := os.environ.get("ANTIPHON_BENCHMARKS_DIR"):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "antiphon-benchmarks"


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """A server or a client that is measured."""

    title: str
    folder: str = ""
    """Where in the cache it is installed; empty for what runs in our own environment."""
    stdio: tuple[str, ...] = ()
    """The command of a stdio server, or of a client; empty if it is none."""
    http: tuple[str, ...] = ()
    """The command of an HTTP server, to which a port is added."""
    modern: bool = True
    """Whether it speaks 2026-07-28."""
    asks_over_http: bool = True
    """Whether a legacy call over HTTP may ask for a sample; with JSON answers it cannot."""
    loading: tuple[str, ...] = ()
    """A command that prints the seconds it takes to load the library."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])
    limit: bool = False
    """Whether it is a bound and not an implementation."""
    late: bool = False
    """Whether the short form measures it in one round only."""
    full: bool = False
    """Whether only the full form measures it."""


def timed(statement: str) -> str:
    """Write a program that times a statement."""
    return f"import time; began = time.perf_counter(); {statement}; print(time.perf_counter() - began)"


def python(folder: str) -> str:
    """Name the interpreter of a Python peer."""
    return str(cache_folder() / folder / "bin" / "python")


def python_server(folder: str, title: str, statement: str) -> Peer:
    """Describe a Python peer with default settings."""
    command = (python(folder), str(HERE / f"{folder}_server.py"))
    loading = (python(folder), "-c", timed(statement))
    return Peer(title=title, folder=folder, stdio=(*command, "stdio"), http=(*command, "http"), loading=loading)


def python_json(folder: str, title: str) -> Peer:
    """Describe a Python peer that answers with JSON instead of an event stream."""
    command = (python(folder), str(HERE / f"{folder}_server.py"), "http")
    return Peer(title=title, folder=folder, http=command, env={"JSON": "1"}, asks_over_http=False)


def node_server(folder: str, title: str, module: str) -> Peer:
    """Describe a TypeScript peer with default settings."""
    command = ("node", str(HERE / f"{folder}_server.mjs"))
    timer = (
        'const load = require("node:module").createRequire(process.env.PEER + "/package.json");'
        f'const began = performance.now(); load("{module}"); console.log((performance.now() - began) / 1000)'
    )
    env = {"PEER": str(cache_folder() / folder)}
    return Peer(
        title=title,
        folder=folder,
        stdio=(*command, "stdio"),
        http=(*command, "http"),
        loading=("node", "-e", timer),
        env=env,
    )


def node_json(folder: str, title: str) -> Peer:
    """Describe a TypeScript peer that answers with JSON instead of an event stream."""
    env = {"PEER": str(cache_folder() / folder), "JSON": "1"}
    command = ("node", str(HERE / f"{folder}_server.mjs"), "http")
    return Peer(title=title, folder=folder, http=command, env=env, asks_over_http=False, full=True)


def limit(title: str, *, http: str = "", stdio: str = "") -> Peer:
    """Describe a bound, which runs in our own environment."""
    run = (INTERPRETER, "-m")
    loading = (INTERPRETER, "-c", timed("import asyncio, msgspec, uvloop"))
    return Peer(
        title=title,
        http=(*run, f"benchmarks.limits.{http}") if http else (),
        stdio=(*run, f"benchmarks.limits.{stdio}") if stdio else (),
        loading=loading if stdio else (),
        limit=True,
    )


def ours() -> Peer:
    """Describe ourselves."""
    command = (INTERPRETER, str(HERE.parent / "server.py"))
    loading = (INTERPRETER, "-c", timed("from antiphon import Server"))
    return Peer(title="Antiphon", stdio=(*command, "stdio"), http=(*command, "http"), loading=loading)


SERVERS: dict[str, Peer] = {
    OURS: ours(),
    "uvicorn": limit("limit: uvicorn + msgspec", http="asgi"),
    "bare": limit("limit: bare asyncio", http="bare_http", stdio="bare_stdio"),
    "python2": python_server("python2", "official Python SDK 2", "from mcp.server import MCPServer"),
    "python2-json": python_json("python2", "official Python SDK 2, JSON mode"),
    "python1": replace(
        python_server("python1", "official Python SDK 1", "from mcp.server.fastmcp import FastMCP"),
        modern=False,
        late=True,
    ),
    "python1-json": replace(python_json("python1", "official Python SDK 1, JSON mode"), modern=False, full=True),
    "fastmcp4": replace(python_server("fastmcp4", "FastMCP 4", "from fastmcp import FastMCP"), late=True),
    "ts1": replace(node_server("ts1", "TypeScript SDK 1", "@modelcontextprotocol/sdk/server/mcp.js"), modern=False),
    "ts1-json": replace(node_json("ts1", "TypeScript SDK 1, JSON mode"), modern=False),
    "ts2": node_server("ts2", "TypeScript SDK 2", "@modelcontextprotocol/server"),
    "ts2-json": node_json("ts2", "TypeScript SDK 2, JSON mode"),
}


def client(folder: str, title: str, *words: str) -> Peer:
    """Describe a Python peer's client."""
    command = (python(folder), str(HERE / f"{folder}_client.py"), *words)
    return Peer(title=title, folder=folder, stdio=command)


def node_client(folder: str, title: str) -> Peer:
    """Describe a TypeScript peer's client."""
    command = ("node", str(HERE / f"{folder}_client.mjs"))
    return Peer(title=title, folder=folder, stdio=command, env={"PEER": str(cache_folder() / folder)})


CLIENTS: dict[str, Peer] = {
    OURS: Peer(title="Antiphon", stdio=(INTERPRETER, str(HERE.parent / "client.py"))),
    "bare": Peer(title="limit: the load itself", stdio=(INTERPRETER, "-m", "benchmarks.limits.client"), limit=True),
    "python2": client("python2", "official Python SDK 2", "auto"),
    "python2-legacy": replace(client("python2", "official Python SDK 2, legacy", "legacy"), full=True),
    "python1": replace(client("python1", "official Python SDK 1"), late=True),
    "fastmcp4": replace(client("fastmcp4", "FastMCP 4"), late=True),
    "ts1": node_client("ts1", "TypeScript SDK 1"),
    "ts2": node_client("ts2", "TypeScript SDK 2"),
}


def add_earlier(checkout: Path) -> None:
    """Let another checkout of this repository take part, with its own ``.venv``: what we were before a change."""
    interpreter = checkout.resolve() / ".venv" / "bin" / "python"
    if not interpreter.is_file():
        raise FileNotFoundError(f"{interpreter} is missing; run make setup in {checkout}")
    program = checkout.resolve() / "benchmarks"
    command = (str(interpreter), str(program / "server.py"))
    loading = (str(interpreter), *SERVERS[OURS].loading[1:])
    SERVERS[EARLIER] = Peer(
        title="Antiphon before", stdio=(*command, "stdio"), http=(*command, "http"), loading=loading
    )
    CLIENTS[EARLIER] = Peer(title="Antiphon before", stdio=(str(interpreter), str(program / "client.py")))


def missing(peer: Peer) -> bool:
    """Say whether a peer is not installed."""
    return bool(peer.folder) and not (cache_folder() / peer.folder / "installed").is_file()


@cache
def version_of(folder: str) -> str:
    """Say which packages ``setup.sh`` installed there."""
    found = cache_folder() / folder / "installed"
    return found.read_text(encoding="utf-8").strip() if found.is_file() else ""


def node_version() -> str:
    """Ask Node for its version; empty without it."""
    if (node := shutil.which("node")) is None:
        return ""
    return subprocess.run([node, "--version"], capture_output=True, check=False, text=True).stdout.strip()
