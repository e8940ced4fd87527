"""The official suite and ``antiphon check`` on the same servers: what fails there has a finding here, and else none.

Only scenarios that need no fixture are played, at the newest revision that has them. A scenario about what a server
does not declare, such as logging, says nothing: a check tries only what is declared.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from antiphon import Client
from antiphon.check.checkup import check_server
from antiphon.errors import AntiphonError
from tests.conformance.run import SUITE, suite
from tests.conformance.verdicts import judge
from tests.interop.peers import HERE, PROGRAMS, Peers
from tests.support.ports import free_port

LEGACY, MODERN = "2025-11-25", "2026-07-28"
SCENARIOS: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "server-initialize": (LEGACY, "", ("handshake.",)),
    "server-session-lifecycle": (LEGACY, "", ("http.session-", "http.delete")),
    "ping": (LEGACY, "", ("ping.answer",)),
    "tools-list": (LEGACY, "tools", ("list.refused", "list.shape", "tools.shape")),
    "resources-list": (LEGACY, "resources", ("list.refused", "list.shape", "resources.shape")),
    "prompts-list": (LEGACY, "prompts", ("list.refused", "list.shape", "prompts.shape")),
    "logging-set-level": (LEGACY, "logging", ("logging.level",)),
    "dns-rebinding-protection": (LEGACY, "", ("http.origin", "http.host")),
    "caching": (MODERN, "resources", ("result.cache",)),
    "sep-2164-resource-not-found": (MODERN, "resources", ("resources.unknown",)),
}
"""A revision, what a server must declare, and the rules (or their beginnings) that are about the same."""


@asynccontextmanager
async def serve_program(command: Sequence[str], port: int, **env: str) -> AsyncGenerator[str]:
    """Run a server that listens at a port, for as long as the context lasts; gives its URL."""
    quiet = asyncio.subprocess.DEVNULL
    variables = {**os.environ, **env, "PORT": str(port)}
    process = await asyncio.create_subprocess_exec(*command, env=variables, stdout=quiet, stderr=quiet)
    try:
        async with asyncio.timeout(60):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                except OSError:
                    await asyncio.sleep(0.05)
                else:
                    writer.close()
                    break
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


def make_command(name: str, peers: Peers, port: int) -> list[str]:
    """Return the command line of a server that listens at a port."""
    commands = {
        "ours": [sys.executable, str(HERE / "our_server.py"), str(port)],
        "fastmcp": [str(peers.root / "fastmcp" / "bin" / "python"), str(PROGRAMS / "fastmcp_server.py"), str(port)],
        "ts2": [*peers.ts2_server, str(port)],
        "everything": [*peers.everything[:-1], "streamableHttp"],
    }
    return commands[name]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", ["ours", "fastmcp", "ts2", "everything"])
async def test_the_suite_and_the_check_agree(name: str, peers: Peers, tmp_path: Path):
    """Each scenario passes where the check has no finding by its rules, and fails where it has one."""
    assert SUITE.exists(), "run tests/conformance/setup.sh"
    port = free_port()
    async with serve_program(make_command(name, peers, port), port, ANTIPHON_INTEROP_DIR=str(peers.root)) as url:
        report = await check_server(url, timeout=60.0)
        assert report.problem == ""
        differing: dict[str, object] = {}
        for scenario, (revision, needs, rules) in SCENARIOS.items():
            if revision not in report.revisions or not await declares(url, revision, needs):
                continue
            folder, at = tmp_path / scenario, ("--spec-version", revision)
            await asyncio.to_thread(suite, "server", "--url", url, "--scenario", scenario, *at, "-o", str(folder))
            verdict = judge(revision, "server", scenario, folder)
            found = [one for one in report.findings if one.rule.id.startswith(rules) and revision in one.revisions]
            if verdict.passed == bool(found):
                differing[scenario] = (verdict.reasons, [(one.rule.id, one.place, one.seen) for one in found])
    assert differing == {}


async def declares(url: str, revision: str, capability: str) -> bool:
    """Return whether a server declares a capability on a revision."""
    if not capability:
        return True
    try:
        async with Client(url, revision=revision) as client:
            return getattr(client.server_capabilities, capability) is not None
    except AntiphonError:
        return False
