"""What a proxy costs: the same calls to one server directly and through proxies, in turns, in one run.

    python -m benchmarks.proxies [--seconds N] [--rounds N] [--fastmcp PYTHON] [--mcp-proxy FILE] [--litellm FILE]

The page goes to standard output. The server is ``benchmarks/server.py`` over stdio, the client Antiphon's, and every
proxy starts the server itself. ``--fastmcp`` names the interpreter of an environment with FastMCP, ``--mcp-proxy`` and
``--litellm`` the program of these proxies, which serve over HTTP; without them their lines stay out. Antiphon's gateway
decides every call by a rule and records it, once in memory and once in a SQLite file as ``antiphon gateway`` does by
default; the others check nothing. On a machine that has other work as well, the processor time of a call, in all
processes together, is the figure to compare.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import platform
import secrets
import statistics
import sys
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import uvloop

from antiphon import Client
from benchmarks.gateway_start import SERVER as TOOLS_ONLY
from benchmarks.processes import Cores, cpu_of, environment, family, start, stop
from tests.support.ports import free_port

HERE = Path(__file__).parent
SERVER = [sys.executable, str(HERE / "server.py"), "stdio"]
WIDTH = 16
"""Calls at once, where throughput is measured."""
GROWTH = (1, 20, 200)
"""Servers behind the gateway; one of them is called."""
IDLE = [sys.executable, "-S", "-c", TOOLS_ONLY, "1"]
"""The others: they only list a tool, and are started in milliseconds, so that 200 of them fit on a small machine."""

GATEWAY = """
import json, os, sys
from antiphon.gateway import Gateway
from antiphon.host import Host, Limits, Policy, Scripted, open_store

count, place, idle, command = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), sys.argv[4:]
options = dict(policy=Policy(default="allow"), limits=Limits(per_minute=None, concurrent=None), reviewer=None)
if place != "memory":
    options["store"] = open_store(place)
servers = {f"s{number}": idle if number else command for number in range(count)}
port = int(os.environ.get("PORT", "0"))
gateway = Gateway(servers, Host(Scripted([]), **options), max_processes=1000, list_timeout=60)
gateway.run("http", port=port) if port else gateway.run()
"""
FASTMCP = """
import sys
from fastmcp.server import create_proxy
create_proxy({"mcpServers": {"s0": {"command": sys.argv[1], "args": sys.argv[2:]}}}).run(show_banner=False)
"""


LITELLM_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_ENABLE_MCP_STDIO": "true"}
READY = 180.0
"""Seconds a proxy has to listen: LiteLLM takes 20 on a quiet machine."""

Figures = tuple[float, float, float]


class Served(NamedTuple):
    """What is measured over HTTP."""

    command: list[str]
    environment: dict[str, str]
    url: str
    tool: str
    key: str | None = None
    revision: str = "2025-11-25"


async def measured(client: Client, tool: str, seconds: float) -> Figures:
    """Return three figures.

    The median of one call after another, in milliseconds; the processor time of such a call in all processes; and
    calls a second with ``WIDTH`` at once.
    """
    times: list[float] = []
    until = time.perf_counter() + seconds

    async def call() -> None:
        result = await client.call_tool(tool, {"text": "hello"}, timeout=60)
        if result.is_error or result.text != "hello":
            raise SystemExit(f"wrong answer: {result.text[:200]!r}")

    processes = family(os.getpid())
    before = cpu_of(processes)
    while time.perf_counter() < until or len(times) < 5:
        began = time.perf_counter()
        await call()
        times.append(time.perf_counter() - began)
    spent = (cpu_of(processes) - before) / len(times)
    done = 0
    began = time.perf_counter()

    async def calls() -> None:
        nonlocal done
        while time.perf_counter() < began + seconds:
            await call()
            done += 1

    await asyncio.gather(*(calls() for _ in range(WIDTH)))
    return statistics.median(times) * 1000, spent * 1000, done / (time.perf_counter() - began)


def in_turns(
    clients: dict[str, tuple[Client, str]], rounds: int, seconds: float
) -> Callable[[], Awaitable[dict[str, list[Figures]]]]:
    """Measure all clients, round by round."""

    async def run() -> dict[str, list[Figures]]:
        found: dict[str, list[Figures]] = {name: [] for name in clients}
        for _ in range(rounds):
            for name, (client, tool) in clients.items():
                found[name].append(await measured(client, tool, seconds))
        return found

    return run


def row(name: str, found: list[Figures], direct: list[Figures]) -> str:
    """Write one line: medians over the rounds, and the median of each round's ratio to the direct calls."""
    middle = [statistics.median(figures) for figures in zip(*found, strict=True)]
    pairs = [[mine / base for mine, base in zip(*both, strict=True)] for both in zip(found, direct, strict=True)]
    ratio = [statistics.median(ratios) for ratios in zip(*pairs, strict=True)]
    return (
        f"| {name} | {middle[0]:.3f} | {ratio[0]:.1f} | {middle[1]:.3f} | {ratio[1]:.1f} "
        f"| {middle[2]:,.0f} | {ratio[2]:.2f} |"
    )


def gateway(count: int, place: str) -> list[str]:
    """Return the command of a gateway in front of so many servers."""
    return [sys.executable, "-c", GATEWAY, str(count), place, json.dumps(IDLE), *SERVER]


def at(command: Callable[[str], list[str]], tool: str, path: str = "/mcp", **more: Any) -> Served:
    """Choose a port for a command."""
    port = str(free_port())
    environment = {"PORT": port, **more.pop("environment", {})}
    return Served(command(port), environment, f"http://127.0.0.1:{port}{path}", tool, **more)


def modern(folder: Path) -> dict[str, Served]:
    """Return what serves revision 2026-07-28 over HTTP."""
    file = f"sqlite:///{folder}/modern.db"
    commands: dict[str, tuple[Callable[[str], list[str]], str]] = {
        "directly": (lambda port: [*SERVER[:-1], "http", port], "echo"),
        "Antiphon, records in memory": (lambda _port: gateway(1, "memory"), "s0__echo"),
        "Antiphon, records in a file": (lambda _port: gateway(1, file), "s0__echo"),
    }
    return {name: at(command, tool, revision="2026-07-28") for name, (command, tool) in commands.items()}


def over_http(options: argparse.Namespace, folder: Path) -> dict[str, Served]:
    """Return what serves over HTTP, each at a port of its own."""
    found = {
        "directly": at(lambda port: [*SERVER[:-1], "http", port], "echo"),
        "Antiphon": at(lambda _port: gateway(1, "memory"), "s0__echo"),
    }
    if options.mcp_proxy:
        flags = ["--log-level", "ERROR", "--pass-environment", "--"]
        found["mcp-proxy"] = at(lambda port: [options.mcp_proxy, "--port", port, *flags, *SERVER], "echo")
    if options.litellm:
        key = f"sk-{secrets.token_hex(24)}"
        server = {"transport": "stdio", "command": SERVER[0], "args": SERVER[1:], "allow_all_keys": True}
        settings = {"model_list": [], "general_settings": {"master_key": key}, "mcp_servers": {"s0": server}}
        config = folder / "litellm.yaml"
        config.write_text(json.dumps(settings))
        found["LiteLLM"] = at(
            lambda port: [options.litellm, "--config", str(config), "--host", "127.0.0.1", "--port", port],
            "s0-echo", "/mcp/", key=key, environment=LITELLM_ENVIRONMENT,
        )  # fmt: skip
    return found


@asynccontextmanager
async def served(one: Served, cores: Cores) -> AsyncGenerator[Client]:
    """Start one of them on the core of servers, and yield a client of it once it listens."""
    env = environment(one.environment)
    process = start(one.command, cores, env=env, pipes=False)
    try:
        async with asyncio.timeout(READY):
            await listening(urlsplit(one.url).port or 0)
        async with Client(one.url, revision=one.revision, auth=one.key, timeout=60) as client:
            yield client
    finally:
        stop(process)


async def listening(port: int) -> None:
    """Return once somebody listens at a port."""
    while True:
        try:
            _, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
        else:
            writer.close()
            return


async def run(options: argparse.Namespace, folder: Path) -> None:
    """Measure everything, and print the page."""
    commands: dict[str, tuple[list[str], str]] = {
        "directly": (SERVER, "echo"),
        "Antiphon, records in memory": (gateway(1, "memory"), "s0__echo"),
        "Antiphon, records in a file": (gateway(1, f"sqlite:///{folder}/host.db"), "s0__echo"),
    }
    if options.fastmcp:
        commands["FastMCP"] = ([options.fastmcp, "-c", FASTMCP, *SERVER], "echo")
    columns = ["", "p50 ms", "ratio", "CPU ms a call", "ratio", f"calls/s, {WIDTH} at once", "ratio"]
    head = f"| {' | '.join(columns)} |\n|---|{'---:|' * 6}"
    about = f"{platform.python_implementation()} {platform.python_version()}, {os.cpu_count()} cores"
    print(f"# What a proxy costs\n\n{about}; load when begun {os.getloadavg()[0]:.1f}.")
    print(f"Ratios count, not times, since other work may have run on the machine.\n\n{head}")
    async with AsyncExitStack() as stack:
        clients: dict[str, tuple[Client, str]] = {}
        for name, (command, tool) in commands.items():
            clients[name] = (await stack.enter_async_context(Client(command, revision="2025-11-25")), tool)
        found = await in_turns(clients, options.rounds, options.seconds)()
    for name, values in found.items():
        print(row(name, values, found["directly"]), flush=True)
    cores = Cores()
    for title, services in (
        ("Over HTTP, with the server over stdio behind it", over_http(options, folder)),
        ("Over HTTP at 2026-07-28", modern(folder)),
    ):
        print(f"\n## {title}\n\n{head}")
        async with AsyncExitStack() as stack:
            stack.enter_context(cores.on(cores.load))
            clients = {}
            for name, one in services.items():
                clients[name] = (await stack.enter_async_context(served(one, cores)), one.tool)
            found = await in_turns(clients, options.rounds, options.seconds)()
        for name, values in found.items():
            print(row(name, values, found["directly"]), flush=True)
    print(f"\n## With more servers behind it\n\n{head}")
    async with AsyncExitStack() as stack:
        clients = {"1": (await stack.enter_async_context(Client(gateway(1, "memory"))), "s0__echo")}
        for count in options.growth:
            client = Client(gateway(count, "memory"), timeout=300)
            clients[str(count)] = (await stack.enter_async_context(client), "s0__echo")
        found = await in_turns(clients, options.rounds, options.seconds)()
    for name, values in found.items():
        print(row("1 server" if name == "1" else f"{name} servers", values, found["1"]), flush=True)


def main() -> None:
    """Read the command line and run."""
    parser = argparse.ArgumentParser(description="Measure proxies.")
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--fastmcp", default="")
    parser.add_argument("--mcp-proxy", default="")
    parser.add_argument("--litellm", default="")
    parser.add_argument("--growth", type=int, nargs="*", default=[count for count in GROWTH if count > 1])
    with TemporaryDirectory() as folder:
        uvloop.run(run(parser.parse_args(), Path(folder)))


if __name__ == "__main__":
    main()
