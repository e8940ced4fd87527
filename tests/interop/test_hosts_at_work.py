"""Whole sessions of real hosts behind the gateway, driven by a scripted model on loopback, each in a home of its own.

Installed by our command, a host calls a tool whose server samples, one that a person refuses, and one that sends a
form; then it is as it was before. Beside the server that does so are four that are of no use. What cannot be driven
stands in ``HOSTS`` and at ``SCRIPT``, with the reason.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted
from antiphon.types import ElicitResult
from tests.cli.program import SERVERS, SHOP
from tests.interop.host_homes import ANTIPHON, HOSTS, Home
from tests.interop.peers import HERE, PATIENCE, Peers
from tests.interop.scripted_model import LAST_WORDS, ScriptedModel, ToolUse
from tests.support.behind_gateway import Person
from tests.support.network import listening

USELESS = {
    "hanging": {"command": sys.executable, "args": [str(SERVERS / "silent.py")]},
    "crashing": {"command": sys.executable, "args": [str(SERVERS / "dying.py")]},
    "unset": {"command": sys.executable, "args": [SHOP], "env": {"TOKEN": "${ANTIPHON_TESTS_UNSET}"}},
    "unlisted": {"command": sys.executable, "args": [str(HERE / "unlisted_server.py")]},
}
"""Servers that never answer, end at once, need a variable that is not set, or greet and list nothing."""
SHOPPING = {"shop": {"command": sys.executable, "args": [SHOP]}}

SCRIPT = [
    ToolUse("shop__describe", {"product": "hats"}),
    ToolUse("shop__price", {"product": "hats", "pieces": 2}),
    ToolUse("shop__wrap"),
]
"""No host shows a form without a person at its terminal: Claude Code cancels it, Codex and Copilot CLI decline it,
Gemini CLI and opencode do not offer it. So each form is answered in the review."""
SETTINGS = """\
[defaults]
model = "parrot"
[models.parrot]
provider = "echo"
model = "echo"
# For a busy machine.
[gateway]
quick_cancel = 30
[gateway.servers.shop]
start_timeout = 90
[policy]
default = "ask"
[[policy.rules]]
effect = "allow"
kind = "sampling"
[[policy.rules]]
effect = "allow"
kind = "tool"
name = "describe"
[[policy.rules]]
effect = "allow"
kind = "tool"
name = "wrap"
"""


# Hosts take up to 15 seconds alone, and much longer beside other work.
@pytest.mark.timeout(2 * PATIENCE)
@pytest.mark.parametrize("host", HOSTS)
async def test_a_host_works_behind_the_gateway(host: str, tmp_path: Path, peers: Peers):
    """It calls, is refused and has a form filled in beside servers of no use, and gets its file back."""
    program = HOSTS[host]
    async with ScriptedModel(SCRIPT) as model:
        home = Home(tmp_path, peers, program.environ(model.url))
        home.write(tmp_path / ".config" / "antiphon" / "antiphon.toml", SETTINGS)
        file = home.file(host)
        home.write(file, program.settings({**USELESS, **SHOPPING}, model.url))
        before = file.read_bytes()
        if program.rewrites:
            await install(home, host)
            await home.antiphon("uninstall", host)
            assert file.read_bytes() == before
        await install(home, host)
        installed = file.read_bytes()
        await list_once(home, "--config", str(tmp_path / ".config" / "antiphon" / "hosts" / f"{host}.json"))

        async with person(home) as decided:
            said = await home.run(*program.ask)
        assert LAST_WORDS in said
        assert_served(model, decided)

        left = file.read_bytes()
        await home.antiphon("uninstall", host)
        if program.rewrites:
            assert {**json.loads(left), "mcpServers": json.loads(before)["mcpServers"]} == json.loads(file.read_bytes())
        else:
            assert left == installed
            assert file.read_bytes() == before


async def test_servers_of_no_use_hold_up_no_others(tmp_path: Path, peers: Peers):
    """The gateway waits less than three seconds for them before it lists the tools of a server that it knows from disk.

    Time in which its process works, or is ready to on a busy machine, is not counted as waiting.
    """
    home = Home(tmp_path, peers)
    home.write(tmp_path / ".config" / "antiphon" / "servers.json", json.dumps({"mcpServers": {**USELESS, **SHOPPING}}))

    async def seconds(*options: str) -> float:
        started = time.monotonic()
        async with behind(home, *options) as client:
            assert "shop__describe" in [tool.name async for tool in client.tools()]
            return time.monotonic() - started - read_busy_seconds(int((tmp_path / "gateway").read_text()))

    await list_once(home, "--only", "shop")
    alone = await seconds("--only", "shop")
    assert max([await seconds() for _ in range(2)]) - alone < 3


class Reviewer(Person):
    """Fills in the form, and lets all else pass."""

    async def elicit(self, item: Any) -> ElicitResult:
        """Accept."""
        return ElicitResult(action="accept", content={"colour": "green", "ribbon": False})


async def test_claude_code_takes_rounds_and_its_cancel_leads_to_the_review(tmp_path: Path, peers: Peers):
    """Over HTTP at 2026-07-28: a completion, and a form that it cancels by itself, are asked for in rounds."""
    host = Host(Scripted(["A hat."]), policy=Policy(default="allow"), reviewer=Reviewer())
    gateway = Gateway({"shop": [sys.executable, SHOP]}, host, quick_cancel=30)
    program = HOSTS["claude-code"]
    async with ScriptedModel([SCRIPT[0], SCRIPT[2]]) as model, listening(gateway.server) as network:
        home = Home(tmp_path, peers, {**program.environ(model.url), "MCP_PROTOCOL_NEGOTIATION": "auto"})
        entry = {"type": "http", "url": f"http://{network.place}/mcp"}
        home.write(home.file("claude-code"), json.dumps({"mcpServers": {"antiphon": entry}}))
        assert LAST_WORDS in await home.run(*program.ask)
    described, wrapped = model.results
    assert "A hat." in described
    assert "accept: Wrapping(colour='green', ribbon=False)" in wrapped
    noted = (tmp_path / "debug.log").read_text()
    assert '"negotiatedProtocolVersion":"2026-07-28"' in noted
    assert "Elicitation request received in print mode" in noted


def assert_served(model: ScriptedModel, decided: list[str]) -> None:
    """Check that the host had the tools, and passed on what became of each call."""
    assert any(name.endswith("shop__describe") for name in model.offered)
    described, refused, wrapped = model.results
    assert "echo: [echo] Describe hats" in described
    assert "The call was refused" in refused
    assert "accept: Wrapping(colour='green', ribbon=False)" in wrapped
    assert decided == ["tool", "elicitation"]


async def install(home: Home, host: str) -> None:
    """Put the gateway before the servers, all of which are moved."""
    said = await home.antiphon("install", host)
    assert f"Served by the gateway: {', '.join([*USELESS, *SHOPPING])}." in said


async def list_once(home: Home, *options: str) -> None:
    """Have the lists of the servers kept on disk, as an earlier session leaves them."""
    async with asyncio.timeout(PATIENCE), behind(home, *options) as client, client.listen(tools=True) as changes:
        # On a busy machine the server may have started after the first list.
        while "shop__describe" not in [tool.name async for tool in client.tools()]:
            await anext(changes)


def behind(home: Home, *options: str) -> Client:
    """Make a client of a gateway with the servers of this home, where it notes the number of its process."""
    command = [*ANTIPHON, "gateway", *options]
    noting = f'echo $$ > {shlex.quote(str(home.folder / "gateway"))}; exec "$@"'
    return Client({"command": "sh", "args": ["-c", noting, "sh", *command], "env": home.environ})


def read_busy_seconds(process: int) -> float:
    """Return the seconds for which a process has worked, or was ready to and had no processor."""
    worked, ready, _ = Path(f"/proc/{process}/schedstat").read_text().split()
    return (int(worked) + int(ready)) / 1e9


@asynccontextmanager
async def person(home: Home) -> AsyncIterator[list[str]]:
    """Refuse each call and fill in each form that waits in the review; the value has the kinds of these questions."""
    decided: list[str] = []
    async with home.started(*ANTIPHON, "review", "list", "--watch", "--json") as watching, asyncio.TaskGroup() as group:
        deciding = group.create_task(_decide(home, watching, decided))
        yield decided
        deciding.cancel()


async def _decide(home: Home, watching: asyncio.subprocess.Process, decided: list[str]) -> None:
    assert watching.stdout is not None
    async for line in watching.stdout:
        question: dict[str, Any] = json.loads(line)
        if question["state"] != "pending":
            continue
        decided.append(question["kind"])
        exactly = f"{question['id']}:{question['hash']}"
        if question["kind"] == "tool":
            await home.antiphon("review", "deny", exactly)
        else:
            await home.antiphon("review", "answer", exactly, "colour=green", "ribbon:=false")
