"""The protocol, message by message, at every revision: the same scripts over every channel we have."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from antiphon.client.connection.targets import locate_target, open_channel
from antiphon.server.serving.network import server_app
from antiphon.transports.queued import memory_pair
from antiphon.transports.stdio.client import StdioClientChannel
from tests.interop import our_server
from tests.scenarios.runner import NOT_OVER, SCRIPTS, Player, fit_for, read_script
from tests.scenarios.schema_check import SchemaCheck
from tests.support.asgi import running, taking_turns
from tests.support.three_replicas import three_replicas

URLS = {"http": "http://{}/mcp", "sse": "http://{}/sse", "websocket": "ws://{}/ws"}


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_server_keeps_to_the_script_in_memory(name: str):
    """What the client of the script sends is answered as the script says, and as the revision's schema says."""
    ours, theirs = memory_pair()
    serving = asyncio.create_task(our_server.server.serve(theirs))
    check = SchemaCheck(name)
    await Player(ours, check=check).play(read_script(name))
    await ours.close()
    await serving
    assert check.checked > 50


@pytest.mark.parametrize("name", SCRIPTS)
async def test_a_server_keeps_to_the_script_over_stdio(name: str):
    """The same, with the server in a process of its own."""
    channel = await StdioClientChannel.spawn([sys.executable, str(Path(our_server.__file__))])
    try:
        await Player(channel).play(read_script(name))
    finally:
        await channel.close()


@pytest.mark.parametrize(
    ("transport", "name"),
    [(transport, name) for transport in URLS for name in SCRIPTS if (transport, name) not in NOT_OVER],
)
async def test_a_server_keeps_to_the_script_over_a_network(transport: str, name: str):
    """The same, but for what the transport cannot carry, which the runner lists."""
    app = server_app(our_server.server._service, transport, {})
    async with running(app) as place:
        where = locate_target(URLS[transport].format(place))
        channel = (await open_channel(where, oldest=transport == "sse")).channel
        check = SchemaCheck(name)
        try:
            await Player(channel, check=check).play(fit_for(transport, read_script(name)))
        finally:
            await channel.close()
            await app.drain()
    assert check.checked > 40


WITH_SESSIONS = [name for name in SCRIPTS if ("http", name) not in NOT_OVER]


async def keeps_to(name: str, place: str) -> None:
    """Play a script against an address."""
    channel = (await open_channel(locate_target(f"http://{place}/mcp"))).channel
    check = SchemaCheck(name)
    try:
        await Player(channel, check=check).play(fit_for("http", read_script(name)))
    finally:
        await channel.close()
    assert check.checked > 40


@pytest.mark.parametrize("name", WITH_SESSIONS)
async def test_replicas_keep_to_the_script(name: str):
    """The same, with each request served by the next of three replicas."""
    async with taking_turns(our_server.ours) as place:
        await keeps_to(name, place)


@pytest.mark.nginx
async def test_replicas_behind_nginx_keep_to_all_scripts():
    """The same, with three processes that share a Redis."""
    with three_replicas([sys.executable, str(Path(our_server.__file__))]) as url:
        for name in WITH_SESSIONS:
            await keeps_to(name, url.removeprefix("http://").removesuffix("/mcp"))
