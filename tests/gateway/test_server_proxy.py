"""One server elsewhere, mounted on a server of this process."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon import Client, Context, Host, Server
from antiphon.errors import ConfigError, InvalidParams, ResourceNotFound
from antiphon.gateway import Gateway, Proxy
from antiphon.host import Policy, Scripted
from antiphon.server.serving.network import server_app
from antiphon.testing import Script
from tests.support.asgi import running
from tests.support.behind_gateway import CELLS, ERAS, shop
from tests.support.mounted import outcome
from tests.support.network import until

FAR = """
from antiphon import Context, Server

server = Server("far")

@server.tool
async def say(ctx: Context) -> str:
    return (await ctx.sample("say")).text

if __name__ == "__main__":
    server.run()
"""


async def form(_params: Any, _origin: Any) -> Any:
    """Fill in any form."""
    return {"value": 3}


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_mounted_proxy_offers_what_its_server_has(client_era: str, server_era: str) -> None:
    """Lists, calls, errors, resources, prompts and completions, and every ask is answered by the client that called."""
    server = Server("outer")
    server.tool(name="own")(lambda: "own")
    server.mount(Proxy(shop(server_era)), prefix="far")
    async with (
        Client(shop(server_era), revision=server_era, sampling=Script(["a hat"]), elicitation=form) as direct,
        Client(server, revision=client_era, sampling=Script(["a hat"]), elicitation=form) as client,
    ):
        names = [tool.name async for tool in direct.tools()]
        assert [tool.name async for tool in client.tools()] == ["own", *(f"far__{name}" for name in names)]
        assert [one.uri async for one in client.resources()] == [one.uri async for one in direct.resources()]
        assert [one.name async for one in client.prompts()] == [f"far__{one.name}" async for one in direct.prompts()]
        for call in (
            lambda one, at: one.call_tool(at + "echo", {"value": 1.5}),
            lambda one, at: one.call_tool(at + "count"),
            lambda one, at: one.call_tool(at + "describe", {"product": "x"}),
            lambda one, at: one.call_tool(at + "order"),
            lambda one, _: one.read_resource("shop://stock"),
            lambda one, _: one.read_resource("shop://hat/price"),
            lambda one, at: one.get_prompt(at + "ask", {"topic": "hats"}),
            lambda one, at: one.complete(at + "ask", "topic", "ha"),
            lambda one, _: one.complete("shop://{kind}/price", "kind", "ha"),
        ):
            assert without_meta(await outcome(call(client, "far__"))) == without_meta(await outcome(call(direct, "")))
        assert (await client.call_tool("own")).text == "own"
        with pytest.raises(InvalidParams):
            await client.call_tool("far__x")
        with pytest.raises(ResourceNotFound):
            await client.read_resource("x://y")


def without_meta(result: Any) -> object:
    """Leave out what a result says of the connection it came over, and what only one era has."""
    if isinstance(result, tuple):
        return result
    left_out = {"meta", "result_type", "ttl_ms", "cache_scope"} & set(result.__struct_fields__)
    return structs.replace(result, **dict.fromkeys(left_out))


@pytest.mark.parametrize("revision", ERAS)
async def test_a_target_is_mounted_as_a_proxy(tmp_path: Path, revision: str) -> None:
    """A command line, a file, a URL: started at the first use, ended with the server."""
    program = tmp_path / "far.py"
    program.write_text(FAR)
    far = Server("web")
    far.tool(name="hello")(lambda: "hello")
    app = server_app(far._service, "http", {})
    async with running(app) as place:
        server = Server("outer")
        server.mount([sys.executable, str(program)], prefix="command")
        server.mount(program, prefix="file")
        server.mount(f"http://{place}/mcp", prefix="url")
        async with Client(server, revision=revision, sampling=Script(["hi", "ho"])) as client:
            assert [tool.name async for tool in client.tools()] == ["command__say", "file__say", "url__hello"]
            assert (await client.call_tool("command__say")).text == "hi"
            assert (await client.call_tool("file__say")).text == "ho"
            assert (await client.call_tool("url__hello")).text == "hello"
        await app.drain()


async def test_a_host_answers_where_there_is_one() -> None:
    """And decides about the calls, as behind a gateway."""
    server = Server("outer")
    far = Server("far")

    @far.tool
    async def say(ctx: Context) -> str:
        return (await ctx.sample("say")).text

    server.mount(Proxy(far, host=Host(Scripted(["the host's"]), policy=Policy(default="allow"))), prefix="far")
    async with Client(server) as client:
        assert (await client.call_tool("far__say")).text == "the host's"


async def test_what_changes_elsewhere_is_told() -> None:
    """The clients of the outer server hear of it."""
    far, server = shop(ERAS[1]), Server("outer")
    server.mount(Proxy(far), prefix="far")
    async with Client(server) as client, client.listen(tools=True) as changes:
        before = [tool.name async for tool in client.tools()]
        far.tool(name="new")(lambda: "new")
        async with asyncio.timeout(30):
            while [tool.name async for tool in client.tools()] == before:
                assert (await anext(changes)).kind == "tools"
        assert (await client.call_tool("far__new")).text == "new"


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_changes_of_single_resources_are_told(client_era: str, server_era: str) -> None:
    """Each proxy subscribes to what is its own, as long as anybody does."""
    first, second, server = shop(server_era), Server("second", revisions=[server_era]), Server("outer")
    second.add_resource("second://x", "x")
    server.mount(Proxy(first), prefix="first")
    server.mount(Proxy(second), prefix="second")
    async with Client(server, revision=client_era) as client:
        async with client.listen(uris=["second://x", "shop://stock"]) as changes:
            assert (first.subscribed, second.subscribed) == ({"shop://stock"}, {"second://x"})
            for told, uri in ((first, "shop://stock"), (second, "second://x")):
                told.resource_updated(uri)
                async with asyncio.timeout(30):
                    assert (await anext(changes)).uri == uri
        await until(lambda: not first.subscribed and not second.subscribed)


async def test_a_server_that_is_not_there_costs_nothing_else() -> None:
    """An error that says so; the rest goes on."""
    server = Server("outer")
    server.tool(name="own")(lambda: "own")
    server.mount(["/nowhere/at-all"], prefix="far")
    async with Client(server) as client:
        assert [tool.name async for tool in client.tools()] == ["own"]
        assert (await client.call_tool("own")).text == "own"
        with pytest.raises(InvalidParams, match="Unknown tool"):
            await client.call_tool("far__x")


def test_without_a_host_somebody_has_to_answer() -> None:
    """The error says what to do."""
    with pytest.raises(ConfigError, match='asks="relay"'):
        Gateway({"far": Server("far")}, None)
