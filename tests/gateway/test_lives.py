"""How long servers behind a gateway live, with real processes: from their first use until nobody wants them."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from antiphon import Client
from antiphon.gateway import Gateway
from antiphon.gateway import gateway as module
from antiphon.host import Host, Policy, Scripted
from tests.support import hiding, plain_server
from tests.support.behind_gateway import upstreams_of
from tests.support.network import until
from tests.support.processes import lives


class Caller:
    """The gateway, as a principal reaches it."""

    def __init__(self, gateway: Gateway, principal: str) -> None:
        self.gateway = gateway
        self.principal = principal

    async def serve(self, channel: Any) -> None:
        """Serve one client of this principal."""
        await self.gateway.server.serve(channel, principal=self.principal)


def servers(*names: str) -> dict[str, list[str]]:
    """Return a program under several names."""
    return {name: [sys.executable, plain_server.__file__, name] for name in names}


def made(targets: dict[str, list[str]], **options: Any) -> Gateway:
    """Make a gateway whose calls are all allowed, and whose lists wait for servers that start on a busy machine."""
    host = Host(Scripted([]), policy=Policy(default="allow"))
    return Gateway(targets, host, **{"list_timeout": 30.0, **options})


async def pid(client: Client, name: str) -> int:
    """Call a server, which says what process it is."""
    result = await client.call_tool(f"{name}__look")
    assert not result.is_error, result.text
    return json.loads(result.text)["process"]


async def test_what_was_listed_once_is_listed_before_anything_runs(tmp_path: Path):
    """And starts when it is wanted, by itself."""
    targets = servers("one", "two")
    async with Client(made(targets, lists=tmp_path / "lists").server) as client:
        assert [tool.name async for tool in client.tools()] == ["one__look", "two__look"]
    gateway = made(targets, lists=tmp_path / "lists")
    async with Client(gateway.server) as client:
        assert [tool.name async for tool in client.tools()] == ["one__look", "two__look"]
        assert [one.state for one in gateway.upstreams] == ["stopped", "stopped"]
        await pid(client, "two")
        assert [one.state for one in gateway.upstreams] == ["stopped", "running"]
    eager = made(targets, lists=tmp_path / "lists", starts="eager")
    async with Client(eager.server) as client:
        assert [tool.name async for tool in client.tools()] == ["one__look", "two__look"]
        await until(lambda: [one.state for one in eager.upstreams] == ["running", "running"])


async def test_no_principal_has_a_process_of_anothers(tmp_path: Path):
    """Nor a list that was kept for another; each has its own again at its next call."""
    gateway = made(servers("one"), lists=tmp_path / "lists")
    async with Client(Caller(gateway, "ann")) as ann, Client(Caller(gateway, "ben")) as ben:
        hers, his = await pid(ann, "one"), await pid(ben, "one")
        assert hers != his
        assert (await pid(ann, "one"), await pid(ben, "one")) == (hers, his)
        async with Client(Caller(gateway, "ann")) as again:
            assert await pid(again, "one") == hers
    assert len(list((tmp_path / "lists").iterdir())) >= 2
    assert not lives(hers)


async def test_of_too_many_principals_the_longest_unused_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """With its processes; but none that uses one now."""
    monkeypatch.setattr(module, "MAX_GROUPS", 1)
    gateway = made(servers("one"))
    async with Client(Caller(gateway, "ann")) as ann, Client(Caller(gateway, "ben")) as ben:
        hers = await pid(ann, "one")
        [upstream] = [one for one in upstreams_of(gateway) if one.process == hers]
        async with upstream.running():
            assert "try again later" in str(await asyncio.gather(ben.ping(), pid(ben, "one"), return_exceptions=True))
        await pid(ben, "one")
        await until(lambda: not lives(hers))
        assert await pid(ann, "one") != hers


async def test_there_are_never_more_processes_than_the_limit(tmp_path: Path):
    """Whoever wants another one has the longest unused stopped, at first to list all of them."""
    names = ["a", "b", "c", "d", "e"]
    gateway = made(servers(*names), max_processes=2)
    most = 0

    async def look() -> None:
        nonlocal most
        while True:
            most = max(most, sum(one.process is not None and lives(one.process) for one in upstreams_of(gateway)))
            await asyncio.sleep(0.005)

    async with Client(gateway.server) as client:
        looking = asyncio.create_task(look())
        assert len([tool async for tool in client.tools()]) == 5
        pids = [await pid(client, name) for name in names]
        looking.cancel()
        assert len(set(pids)) == 5
        assert (most, gateway._terms.processes.running) == (2, 2)


async def test_servers_are_exchanged_while_it_runs(tmp_path: Path):
    """One is taken out, one comes, one is another program now; the fourth does not notice."""
    targets = servers("same", "other", "gone")
    gateway = made(targets)
    async with Client(gateway.server) as client, client.listen(tools=True) as changes:
        same, other, gone = [await pid(client, name) for name in targets]
        await gateway.configure({**servers("same", "new"), "other": [*targets["other"], "again"]})
        async with asyncio.timeout(30):
            await anext(changes)
        assert [tool.name async for tool in client.tools()] == ["same__look", "new__look", "other__look"]
        assert await pid(client, "same") == same
        assert await pid(client, "other") != other
        assert not lives(gone)


async def test_what_it_is_given_anew_is_taken_up(tmp_path: Path):
    """By whatever yields it."""
    given = asyncio.Queue[dict[str, list[str]]]()

    async def reloads() -> Any:
        while True:
            yield await given.get()

    gateway = made(servers("one"), reloads=reloads)
    async with Client(gateway.server) as client, client.listen(tools=True) as changes:
        assert [tool.name async for tool in client.tools()] == ["one__look"]
        given.put_nowait(servers("two"))
        async with asyncio.timeout(30):
            await anext(changes)
        assert [tool.name async for tool in client.tools()] == ["two__look"]


async def test_what_ends_the_reloads_is_logged(caplog: pytest.LogCaptureFixture):
    """The servers stay as they are, and whoever changes the configuration finds out why nothing happens."""

    async def reloads() -> Any:
        yield servers("two")
        raise OSError("the disk is gone")

    gateway = made(servers("one"), reloads=reloads)
    async with Client(gateway.server) as client:
        await until(lambda: "not taken up any more" in caplog.text)
        assert "the disk is gone" in caplog.text
        assert [tool.name async for tool in client.tools()] == ["two__look"]


SERVES = """
import sys
from antiphon.gateway import Gateway
from antiphon.host import Host, Policy, Scripted

Gateway({"s": [sys.executable, *sys.argv[1:]]}, Host(Scripted([]), policy=Policy(default="allow"))).run()
"""


@pytest.mark.parametrize("how", ["program", "command"])
async def test_a_server_that_hides_a_process_leaves_none_behind_a_killed_gateway(tmp_path: Path, how: str):
    """Out of the group, the session and the environment: it is found as a descendant."""
    note, config = tmp_path / "note", tmp_path / "servers.json"
    hides = ["-IS", hiding.__file__, str(note)]
    config.write_text(json.dumps({"mcpServers": {"s": {"command": sys.executable, "args": hides}}}))
    commands = {
        "program": [sys.executable, "-c", SERVES, *hides],
        "command": [sys.executable, "-m", "antiphon", "gateway", "--config", str(config)],
    }
    gateway = await asyncio.to_thread(
        subprocess.Popen,
        commands[how],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "HOME": str(tmp_path), "XDG_STATE_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)},
        start_new_session=True,
    )
    try:
        await until(lambda: note.exists() and note.read_text().endswith("\n"), 60)
        hidden = int(note.read_text())
        assert lives(hidden)
    finally:
        os.killpg(gateway.pid, signal.SIGKILL)
        # Its output ends with it: the process that adopts does not hold it open.
        await asyncio.to_thread(gateway.communicate)
    await until(lambda: not lives(hidden), 60)
