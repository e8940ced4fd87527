"""Homes of users who have one host each: its configuration, its environment, and its programs run there.

Owns how the hosts from npm are told of their servers and of a model on loopback, and that they reach nothing else.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import tomlkit

from antiphon.gateway.hosts.installation import KNOWN, place_of
from tests.interop.peers import PATIENCE, Peers

__all__ = ["ANTIPHON", "HOSTS", "OFFLINE", "Home", "HostProgram"]

ANTIPHON = [sys.executable, "-m", "antiphon"]
OFFLINE = "http://127.0.0.1:9"
"""Nobody listens there."""
LOOPBACK = "127.0.0.1,localhost"

Entries = Mapping[str, Mapping[str, Any]]
"""Servers by name, each with ``command``, ``args`` and perhaps ``env``."""


class HostProgram(NamedTuple):
    """How a host is used without a person at its terminal."""

    settings: Callable[[Entries, str], str]
    """Writes its configuration: with these servers, and the model at this address."""
    environ: Callable[[str], Mapping[str, str]]
    """Returns the variables that point it to the model at this address, and keep it from the network."""
    ask: Sequence[str]
    """The command line that asks it one question."""
    rewrites: str = ""
    """What it writes into the file with its servers while it runs, if it does."""


class Home:
    """A user of one host, who has nothing but it.

    Args:
        folder: the home folder, which is empty.
        peers: the installed programs.
        environ: further variables.
    """

    def __init__(self, folder: Path, peers: Peers, environ: Mapping[str, str] = {}) -> None:
        self.folder = folder
        node = Path(peers.node).parent
        self.environ = {
            "HOME": str(folder),
            "PATH": f"{peers.hosts}:{node}:{os.environ['PATH']}",
            "LANG": "C.UTF-8",
            "NO_COLOR": "1",
            **{name: OFFLINE for proxy in ("http_proxy", "https_proxy") for name in (proxy, proxy.upper())},
            "NO_PROXY": LOOPBACK,
            "no_proxy": LOOPBACK,
            "BROWSER": "",
            "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
            "DISABLE_AUTOUPDATER": "1",
            # Else Gemini CLI starts no servers in a folder that nobody has said to trust.
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
            "PYTHON_KEYRING_BACKEND": "keyring.backends.fail.Keyring",
            **environ,
        }

    @asynccontextmanager
    async def started(self, *words: str, within: float = PATIENCE) -> AsyncIterator[asyncio.subprocess.Process]:
        """Start a program, whose output is read by the caller; its process group ends with the block."""
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=self.folder,
            env=self.environ,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            async with asyncio.timeout(within):
                yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.communicate()

    async def run(self, *words: str) -> str:
        """Run a program, and return what it prints."""
        async with self.started(*words) as process:
            said, _ = await process.communicate()
        text = said.decode()
        assert process.returncode == 0, text
        return text

    async def antiphon(self, *words: str) -> str:
        """Run our command."""
        return await self.run(*ANTIPHON, *words)

    def file(self, host: str) -> Path:
        """Where a host keeps its servers."""
        return place_of(KNOWN[host], {"HOME": str(self.folder)})

    def write(self, path: Path, text: str) -> None:
        """Write a file, in folders that need not exist."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def _json(value: object, *, comment: bool = True) -> str:
    """Write JSON, with a comment where the host allows one."""
    text = json.dumps(value, indent=2)
    return text.replace("{\n", "{\n  // mine, do not touch\n", 1) + "\n" if comment else text + "\n"


def _typed(entries: Entries, **members: Any) -> dict[str, Any]:
    return {name: {**members, **entry} for name, entry in entries.items()}


def _claude_code(entries: Entries, _url: str) -> str:
    return _json({"mcpServers": _typed(entries, type="stdio"), "numStartups": 3}, comment=False)


def _codex(entries: Entries, url: str) -> str:
    document = tomlkit.document()
    document.add(tomlkit.comment("mine, do not touch"))
    provider = {"name": "here", "base_url": f"{url}/v1", "wire_api": "responses"}
    document.update({"model": "scripted", "model_provider": "here", "check_for_update_on_startup": False})
    document.update({"model_providers": {"here": provider}, "mcp_servers": dict(entries)})
    return tomlkit.dumps(document)


def _gemini(entries: Entries, _url: str) -> str:
    settings = {
        "security": {"auth": {"selectedType": "gemini-api-key"}},
        "privacy": {"usageStatisticsEnabled": False},
        "telemetry": {"enabled": False},
        # After 30 calls it would ask the model whether it goes in circles.
        "model": {"disableLoopDetection": True},
        "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
    }
    return _json({"mcpServers": entries, **settings})


def _copilot(entries: Entries, _url: str) -> str:
    return _json({"mcpServers": _typed(entries, type="local", tools=["*"])}, comment=False)


def _opencode(entries: Entries, url: str) -> str:
    def entry(said: Mapping[str, Any]) -> dict[str, Any]:
        env = {name: text.replace("${", "{env:") for name, text in said.get("env", {}).items()}
        return {"type": "local", "command": [said["command"], *said["args"]], "environment": env}

    provider = {
        "npm": "@ai-sdk/openai-compatible",
        "options": {"baseURL": f"{url}/v1", "apiKey": "none"},
        "models": {"scripted": {}},
    }
    return _json(
        {
            # It adds this member where it is missing.
            "$schema": "https://opencode.ai/config.json",
            "model": "here/scripted",
            "small_model": "here/scripted",
            "autoupdate": False,
            "share": "disabled",
            # It would wait thirty seconds for a server to start.
            "experimental": {"mcp_timeout": 90_000},
            "provider": {"here": provider},
            "mcp": {name: entry(said) for name, said in entries.items()},
        }
    )


HOSTS = {
    "claude-code": HostProgram(
        _claude_code,
        lambda url: {
            "ANTHROPIC_BASE_URL": url,
            "ANTHROPIC_API_KEY": "none",
            # It would ask the model before it has the tools, and show them to a search of its own.
            "MCP_CONNECTION_NONBLOCKING": "false",
            "MCP_TIMEOUT": "60000",
            # It would wait five seconds for its servers, and connect to twenty at the same time.
            "MCP_CONNECT_TIMEOUT_MS": "120000",
            "MCP_REMOTE_SERVER_CONNECTION_BATCH_SIZE": "4",
            "ENABLE_TOOL_SEARCH": "false",
        },
        ["claude", "--debug-file", "debug.log", "-p", "Go.", "--allowedTools", "mcp__antiphon"],
        rewrites="counts of starts, and which notices were seen",
    ),
    "codex": HostProgram(
        _codex,
        lambda url: {},
        # It would ask the model before it has the tools of a server that is not required.
        [
            *("codex", "exec", "--skip-git-repo-check", "--dangerously-bypass-approvals-and-sandbox"),
            *("-c", "mcp_servers.antiphon.required=true", "-c", "mcp_servers.antiphon.startup_timeout_sec=60", "Go."),
        ],
    ),
    "gemini": HostProgram(
        _gemini,
        lambda url: {"GOOGLE_GEMINI_BASE_URL": url, "GEMINI_API_KEY": "none"},
        ["gemini", "-p", "Go.", "-m", "gemini-2.5-pro", "--yolo", "-o", "text"],
    ),
    "copilot": HostProgram(
        _copilot,
        lambda url: {
            "COPILOT_OFFLINE": "true",
            "COPILOT_PROVIDER_BASE_URL": f"{url}/v1",
            "COPILOT_PROVIDER_API_KEY": "none",
            "COPILOT_MODEL": "scripted",
        },
        ["copilot", "-p", "Go.", "--allow-all-tools", "-s", "--no-auto-update"],
    ),
    "opencode": HostProgram(
        _opencode,
        lambda url: {
            "OPENCODE_DISABLE_MODELS_FETCH": "1",
            "OPENCODE_DISABLE_AUTOUPDATE": "1",
            "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
            "OPENCODE_DISABLE_DEFAULT_PLUGINS": "1",
        },
        ["opencode", "run", "--auto", "Go."],
    ),
}
"""The hosts whose command line comes from npm, by their names on ours."""
