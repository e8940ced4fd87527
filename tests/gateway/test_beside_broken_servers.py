"""Servers that hang, crash, are wrongly configured or were never listed cost the others behind a gateway nothing.

Real processes, over stdio.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import InvalidParams
from antiphon.gateway import Gateway, terms
from antiphon.gateway.offer import KeptLists
from antiphon.host import Host, Policy, Scripted
from antiphon.wire.common import LEFT_OUT
from tests.cli.program import COMMAND, SHOP, environment, in_process
from tests.support.network import until

HANGING = {"command": sys.executable, "args": ["-c", "import time; time.sleep(600)"]}
CRASHING = {"command": sys.executable, "args": ["-c", "raise SystemExit('secret of the crashing server')"]}
BROKEN = {"command": "x", "env": {"TOKEN": "${ANTIPHON_TEST_UNSET}"}}
BAD = {"hanging": HANGING, "crashing": CRASHING, "broken": BROKEN, "malformed": {"args": 5}, "bad": {"url": "x"}}


def configured(folder: Path, **servers: object) -> dict[str, Any]:
    """Write servers and settings; return the entry of a gateway that lists no unknown server within its time."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": servers}))
    (folder / "trust.py").write_text(
        "import sys; from pathlib import Path; from antiphon.host.config.toml_files import Trust\n"
        "Trust().add(Path('mcp.json'), Path('mcp.json').read_bytes())"
    )
    (folder / "antiphon.toml").write_text("[gateway]\nlist_timeout = 0\n")
    args = [*COMMAND[1:], "gateway", "--config", "mcp.json", "--config", "antiphon.toml", "--yes", "--provider", "echo"]
    env = environment(XDG_STATE_HOME=str(folder))
    return {"command": COMMAND[0], "args": args, "env": env, "cwd": str(folder)}


def allowing() -> Host:
    """Make a host that lets every call pass."""
    return Host(Scripted([]), policy=Policy(default="allow"))


async def test_the_tools_of_others_are_listed_at_once_over_stdio(tmp_path: Path):
    """With servers that hang, crash and are wrongly configured beside, and of one never listed as soon as it runs."""
    entry = configured(tmp_path, shop={"command": sys.executable, "args": [SHOP]}, **BAD)
    trusting = await asyncio.create_subprocess_exec(sys.executable, "trust.py", cwd=tmp_path, env=entry["env"])
    assert await trusting.wait() == 0
    async with Client(entry) as client, client.listen(tools=True) as changes:
        page = await client.list_tools()
        async with asyncio.timeout(60):
            while not page.tools:
                await anext(changes)
                page = await client.list_tools()
    assert {tool.name.partition("__")[0] for tool in page.tools} == {"shop"}
    assert sorted(page.meta[LEFT_OUT]) == sorted(BAD)
    # Now its lists are on disk, and there is nothing to wait for.
    async with Client(entry) as client:
        assert [tool.name async for tool in client.tools()] == [tool.name for tool in page.tools]


async def test_each_server_that_is_left_out_is_named_with_its_reason(caplog: pytest.LogCaptureFixture):
    """In the log, in ``upstreams``, in lists, and by an unknown tool, which quotes nothing of another server."""
    good = Server("good")
    good.tool(name="x")(lambda: "x")
    gateway = Gateway({"crashing": CRASHING, "file": Path("nope.py"), "good": good}, allowing())
    async with Client(gateway.server) as client:
        page = await client.list_tools()
        assert ([tool.name for tool in page.tools], page.meta[LEFT_OUT]) == (["good__x"], ["crashing", "file"])
        reasons = {one.name: str(one.error) for one in gateway.upstreams}
        assert reasons["file"] == "no such file: nope.py"
        assert "exit code 1" in reasons["crashing"]
        for text in ("file failed: no such file: nope.py", "crashing failed: "):
            assert text in caplog.text
        with pytest.raises(InvalidParams, match="nothing is known yet of 'crashing'") as caught:
            await client.call_tool("crashing__x")
    assert "secret" not in str(caught.value)


async def test_lists_wait_once_for_all_unknown_servers(tmp_path: Path):
    """And not again for one that was late, in this gateway or the next; it is listed when it comes."""
    server, opened = Server("slow"), asyncio.Event()
    server.tool(name="x")(lambda: "x")

    class Slow:
        name = "slow"

        async def serve(self, channel: Any) -> None:
            await opened.wait()
            await server.serve(channel)

    gateway = Gateway({"slow": Slow(), "other": HANGING}, allowing(), list_timeout=0.01, lists=tmp_path)
    async with Client(gateway.server) as client, client.listen(tools=True) as changes:
        assert (await client.list_tools()).tools == []
        opened.set()
        async with asyncio.timeout(60):
            await anext(changes)
        page = await client.list_tools()
        assert ([tool.name for tool in page.tools], page.meta[LEFT_OUT]) == (["slow__x"], ["other"])
    # The next gateway would wait for an hour, if it waited for a server that was late.
    again = Gateway({"other": HANGING}, allowing(), list_timeout=3600, lists=tmp_path)
    async with Client(again.server) as client, asyncio.timeout(60):
        assert (await client.list_tools()).tools == []


def test_a_server_that_was_late_is_noted_until_it_is_listed(tmp_path: Path):
    """On disk, in the place of its lists."""
    kept = KeptLists(tmp_path).of(HANGING, b"")
    assert kept is not None
    kept.save(None)
    again = KeptLists(tmp_path).of(HANGING, b"")
    assert again is not None
    assert (again.load(), again.was_late) == (None, True)


async def test_the_time_to_start_is_the_most_exact_one_given(monkeypatch: pytest.MonkeyPatch):
    """By the gateway's configuration, by the entry itself, or for all; a package runner gets more by itself."""
    monkeypatch.setattr(terms, "START_TIMEOUT", 0.01)
    # A runner by its name, which starts the same program.
    runner = {"command": "env", "args": ["npx", "x"]}
    gateway = Gateway({"usual": HANGING, "entry": HANGING | {"start_timeout": 0.02}}, allowing())
    async with Client(gateway.server) as client:
        await client.list_tools()
        await until(lambda: all(one.state == "failed" for one in gateway.upstreams), 60)
        assert [one.error for one in gateway.upstreams] == [
            "it did not open a session within 0.01 s",
            "it did not open a session within 0.02 s",
        ]
    made = terms.terms_of(allowing(), {"start_timeouts": {"a": 5.0}})
    assert made.time_to_start("a", terms.Command(argv=["npx", "x"], start_timeout=6.0)) == 5.0
    assert made.time_to_start("b", terms.Command(argv=["npx", "x"], start_timeout=6.0)) == 6.0
    for words in (["npx", "-y", "x"], ["/usr/bin/uvx", "x"], ["docker", "run", "x"], [runner["command"], "npx", "x"]):
        assert made.time_to_start("b", terms.Command(argv=words)) == terms.DOWNLOAD_TIMEOUT
    assert terms.terms_of(allowing(), {"start_timeout": 9.0}).time_to_start("b", terms.Command(argv=["npx"])) == 9.0


async def test_what_a_server_writes_while_it_starts_is_told_as_progress(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """A call that starts it hears of it."""
    monkeypatch.setattr("antiphon.gateway.served_requests._LOOK", 0.01)
    (tmp_path / "go").write_text("")
    program = (
        "import pathlib, sys, time\n"
        "print('fetching a package', file=sys.stderr, flush=True)\n"
        "while not pathlib.Path('go').exists(): time.sleep(0.01)\n"
        "from antiphon import Server; s = Server('s'); s.tool(name='x')(lambda: 'x'); s.run()\n"
    )
    entry = {"command": sys.executable, "args": ["-c", program], "cwd": str(tmp_path)}
    async with Client(Gateway({"s": entry}, allowing(), lists=tmp_path / "lists").server) as client:
        assert [tool.name async for tool in client.tools()] == ["s__x"]
    (tmp_path / "go").unlink()
    said: list[str | None] = []

    def hear(_done: float, _total: float | None, text: str | None) -> None:
        said.append(text)
        if text == "Starting s: fetching a package":
            (tmp_path / "go").write_text("")

    async with Client(Gateway({"s": entry}, allowing(), lists=tmp_path / "lists").server) as client:
        assert (await client.call_tool("s__x", progress=hear)).text == "x"
    assert "Starting s: fetching a package" in said


@pytest.mark.parametrize("command", ["tools", "resources", "prompts", "doctor"])
def test_a_command_names_the_servers_that_a_gateway_left_out(tmp_path: Path, command: str):
    """And its exit code says that something is missing."""
    entry = configured(tmp_path, crashing=CRASHING)
    gateway = shlex.join([sys.executable, *entry["args"]])
    done = in_process(command, gateway, cwd=tmp_path, env={"XDG_STATE_HOME": str(tmp_path)})
    assert done.code == 1
    assert "crashing" in (done.out if command == "doctor" else done.err)


def test_doctor_names_what_is_wrong_with_an_entry(tmp_path: Path):
    """The variable, the member or the address; the other entries are fine."""
    configured(tmp_path, shop={"command": "x"}, **BAD)
    done = in_process("doctor", "--config", "mcp.json", cwd=tmp_path)
    assert done.code == 1
    for text in ("broken: the environment has no variable ANTIPHON_TEST_UNSET", "mcpServers.malformed: Expected"):
        assert text in done.out
    assert "servers: shop, hanging" in done.out
