"""One server in front of many: every pair of eras, every feature, and asks that the client could not answer."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest
from msgspec import structs

from antiphon import Client, Context, Host, Server
from antiphon.auth import Caller
from antiphon.channel import Channel
from antiphon.errors import ConfigError, InvalidParams, ResourceNotFound
from antiphon.gateway import Gateway, Proxy
from antiphon.host import Policy, Scripted
from antiphon.server.serving.network import server_app
from antiphon.testing import Script
from antiphon.wire.content import TextContent, UnknownContent
from antiphon.wire.tools import CallToolResult
from tests.support.asgi import running
from tests.support.authority import protected
from tests.support.behind_gateway import CELLS, ERAS, Offering, host, shop, upstreams_of
from tests.support.mounted import outcome
from tests.support.network import until
from tests.support.raw_client import raw_client

FAR = """
from antiphon import Context, Server

server = Server("far")

@server.tool
async def say(ctx: Context) -> str:
    return (await ctx.sample("say")).text

if __name__ == "__main__":
    server.run()
"""


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_every_feature_in_every_cell(client_era: str, server_era: str) -> None:
    """What the client sees is what the server behind it has, whatever revisions the two speak."""
    gateway = Gateway({"shop": shop(server_era)}, host())
    async with Client(gateway.server, revision=client_era) as client:
        assert [tool.name async for tool in client.tools()] == [
            "shop__describe", "shop__order", "shop__visit", "shop__count", "shop__echo",
        ]  # fmt: skip
        assert [prompt.name async for prompt in client.prompts()] == ["shop__ask"]
        assert [resource.uri async for resource in client.resources()] == ["shop://stock"]
        assert [one.uri_template async for one in client.resource_templates()] == ["shop://{kind}/price"]
        reports: list[Any] = []
        result = await client.call_tool("shop__count", progress=lambda *report: reports.append(report))
        assert result.structured_content == {"n": 3}
        assert reports == [(1, 3, "1"), (2, 3, "2"), (3, 3, "3")]
        assert (await client.call_tool("shop__echo", {"value": 1e300})).text == "1e+300"
        assert (await client.read_resource("shop://stock")).contents[0].text == "ten hats"
        assert (await client.read_resource("shop://hat/price")).contents[0].text == "hat: 10"
        assert (await client.get_prompt("shop__ask", {"topic": "hats"})).messages[0].content.text == "about hats"
        assert (await client.complete("shop__ask", "topic", "ha")).completion.values == ["ha!"]
        assert (await client.complete("shop://{kind}/price", "kind", "ha")).completion.values == ["ha?"]


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_the_host_answers_what_the_client_cannot(client_era: str, server_era: str) -> None:
    """Sampling, a form and an address, although the client offers none of them."""
    gateway = Gateway({"shop": shop(server_era)}, host("a fine hat"))
    async with Client(gateway.server, revision=client_era) as client:
        assert (await client.call_tool("shop__describe", {"product": "a hat"})).text == "a fine hat"
        assert (await client.call_tool("shop__order")).text == "accept: 3"
        assert (await client.call_tool("shop__visit")).text == "accept"


async def test_two_servers_with_the_same_tools() -> None:
    """Without a prefix, only names that are alone stay as they are."""
    extra = Server("extra")
    extra.tool(name="alone")(lambda: "here")
    second = shop(ERAS[1])
    second.name = "second"
    servers = {"one": shop(ERAS[0]), "two": second, "three": extra}
    async with Client(Gateway(servers, host("1", "2"), names="none").server) as client:
        names = {tool.name async for tool in client.tools()}
        assert {"one__count", "two__count", "alone"} < names
        assert (await client.call_tool("alone")).text == "here"
        assert (await client.call_tool("two__describe", {"product": "x"})).text == "1"


def test_two_servers_of_one_name_are_refused() -> None:
    """They would share identity, and with it definitions, grants and denials; one server may stand there twice."""
    with pytest.raises(ConfigError, match="'two': another server here has the same name"):
        Gateway({"one": Server("shop"), "two": Server("shop")}, host())
    server = Server("shop")
    assert len(Gateway({"one": server, "two": server}, host()).upstreams) == 0


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_change_behind_it_is_told_in_front(client_era: str, server_era: str) -> None:
    """A tool that is added later is announced, and can be called."""
    behind = shop(server_era)
    async with Client(Gateway({"shop": behind}, host()).server, revision=client_era) as client:
        await client.list_tools()
        async with client.listen(tools=True) as changes:
            behind.tool(name="late")(lambda: "here")
            async with asyncio.timeout(30):
                await anext(changes)
        assert (await client.call_tool("shop__late")).text == "here"


@pytest.mark.parametrize("client_era", ERAS)
async def test_a_broken_server_costs_nothing_but_itself(client_era: str) -> None:
    """The others are as before, and its state says why it is not there."""
    servers: dict[str, Any] = {"broken": [sys.executable, "-c", "raise SystemExit(3)"], "shop": shop(ERAS[0])}
    gateway = Gateway(servers, host())
    async with Client(gateway.server, revision=client_era) as client:
        assert "shop__count" in [tool.name async for tool in client.tools()]
        assert (await client.call_tool("shop__count")).structured_content == {"n": 3}
        broken = gateway.upstreams[0]
        assert broken.state == "failed"
        assert "3" in str(broken.error)
        with pytest.raises(
            InvalidParams, match=r"Unknown tool: broken__x; nothing is known yet of 'broken' \(failed\)"
        ):
            await client.call_tool("broken__x")


MORTAL = """
import os
from antiphon import Server
server = Server("mortal")

@server.tool
async def pid() -> int:
    return os.getpid()

@server.tool
async def die() -> str:
    os._exit(7)

server.run()
"""


@pytest.mark.parametrize("client_era", ERAS)
async def test_a_server_that_died_is_started_again(tmp_path: Path, client_era: str) -> None:
    """The call in which it died fails with the reason; a later one finds another process."""
    file = tmp_path / "mortal.py"
    file.write_text(MORTAL)
    gateway = Gateway({"mortal": str(file)}, host())
    async with Client(gateway.server, revision=client_era) as client:
        first = await client.call_tool("mortal__pid")
        died = await client.call_tool("mortal__die")
        assert died.is_error
        assert "it ended during the request, and may have done what it was asked" in died.text
        async with asyncio.timeout(60):
            while (again := await client.call_tool("mortal__pid")).is_error:
                assert "tried again in" in again.text
                await asyncio.sleep(0.1)
        assert again.text != first.text
        [mortal] = upstreams_of(gateway)
    assert mortal.state == "stopped"


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_text_that_cannot_be_read_is_named_and_its_call_may_have_run(client_era: str, server_era: str) -> None:
    """Nothing of such a result is passed on; a model that makes the call again must know that it ran."""
    behind = Server("shop", revisions=[server_era])

    @behind.tool
    async def pay() -> CallToolResult:
        return CallToolResult(content=[TextContent(text="paid"), UnknownContent("text", {"data": "AAAA"})])

    async with Client(Gateway({"shop": behind}, host()).server, revision=client_era) as client:
        result = await client.call_tool("shop__pay")
    assert result.is_error
    assert "may have done this" in result.text
    assert "Object missing required field `text` - at `$.content[1]`" in result.text


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_cancelling_goes_through(client_era: str, server_era: str) -> None:
    """A call that is withdrawn in front is withdrawn behind."""
    behind, began, ended = Server("slow", revisions=[server_era]), asyncio.Event(), asyncio.Event()

    @behind.tool
    async def wait() -> str:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        return ""

    async with Client(Gateway({"slow": behind}, host()).server, revision=client_era) as client:
        task = asyncio.create_task(client.call_tool("slow__wait"))
        await began.wait()
        task.cancel()
        async with asyncio.timeout(30):
            await ended.wait()


def test_a_gateway_without_servers_is_a_mistake() -> None:
    """Said at once."""
    with pytest.raises(ConfigError, match="at least one server"):
        Gateway({}, host())


@pytest.mark.parametrize("servers", [".mcp.json", ["shop.py"], {"mcpServers": {"shop": {"command": "shop"}}}])
def test_a_gateway_is_told_which_part_of_a_configuration_it_takes(servers: Any) -> None:
    """A whole file would be a server of the name ``mcpServers``, which fails once it is used."""
    with pytest.raises(ConfigError, match=r"maps names to targets, as json.loads\(text\)\['mcpServers'\] does"):
        Gateway(servers, host())


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("asks", "host, relay"),
        ("elicits_in", "auto, host, client"),
        ("names", "prefix, none"),
        ("starts", "first-use, eager"),
    ],
)
def test_a_word_that_an_option_does_not_have_is_refused(option: str, words: str) -> None:
    """Rather than taken for one of the others."""
    options: Any = {option: "Host"}
    with pytest.raises(ConfigError, match=rf"Gateway\({option}=\) is one of {words}, not 'Host'"):
        Gateway({"s": Server("s")}, host(), **options)


async def list_roots(ctx: Context) -> str:
    """Say where the client lets it work."""
    return str((await ctx.list_roots())[0].uri)


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_asks_are_relayed_to_the_client_that_made_the_call(client_era: str, server_era: str) -> None:
    """Sampling, forms and roots; the host answers none of them."""
    behind, user = shop(server_era), Offering()
    behind.tool(list_roots)
    gateway = Gateway({"shop": behind}, host(), asks="relay")
    offered: dict[str, Any] = {"sampling": user.sample, "elicitation": user.elicit, "roots": user.roots}
    async with Client(gateway.server, revision=client_era, **offered) as client:
        described = await client.call_tool("shop__describe", {"product": "a hat"})
        assert described.text == "[One line about a hat]"
        assert (await client.call_tool("shop__order")).text == "accept: 5"
        assert (await client.call_tool("shop__list_roots")).text == "file:///relayed"
    assert user.asked == ["One line about a hat", "How many?"]


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_server_is_told_exactly_what_the_client_offers(client_era: str, server_era: str) -> None:
    """Two clients of one gateway, each with its own capabilities: nobody is asked what they do not offer."""
    behind, user = shop(server_era), Offering()
    gateway = Gateway({"shop": behind}, host("never"), asks="relay")
    async with (
        Client(gateway.server, revision=client_era) as plain,
        Client(gateway.server, revision=client_era, sampling=user.sample) as able,
    ):
        refused = asyncio.gather(plain.call_tool("shop__describe", {"product": "x"}), return_exceptions=True)
        assert (await able.call_tool("shop__describe", {"product": "a hat"})).text == "[One line about a hat]"
        [outcome] = await refused
        assert "sampling" in str(outcome)
    assert user.asked == ["One line about a hat"]


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_of_many_calls_at_once_each_gets_its_own_answers(client_era: str, server_era: str) -> None:
    """An ask goes to the call that it belongs to, also where the server's revision does not say which that is."""
    user = Offering()
    gateway = Gateway({"shop": shop(server_era)}, host(), asks="relay")
    async with (
        Client(gateway.server, revision=client_era, sampling=user.sample) as one,
        Client(gateway.server, revision=client_era, sampling=user.sample) as two,
    ):
        clients = [one, two] * 8
        calls = [client.call_tool("shop__describe", {"product": str(n)}) for n, client in enumerate(clients)]
        assert [result.text for result in await asyncio.gather(*calls)] == [f"[One line about {n}]" for n in range(16)]


async def test_each_server_is_signed_in_to_by_itself() -> None:
    """With what is said for its name; no token of the client goes there, and the others are reached without one."""
    names: list[str] = []

    async def sign_in(name: str, principal: str | None) -> str | None:
        names.append(name)
        return "mine" if name == "remote" else None

    async with protected() as resource:
        resource.authority.tokens["mine"] = set()
        gateway = Gateway({"remote": resource.url, "shop": shop(ERAS[1])}, host(), sign_in=sign_in)
        async with Client(gateway.server) as client:
            assert (await client.call_tool("remote__echo")).text == "done"
            assert (await client.call_tool("shop__count")).structured_content == {"n": 3}
        assert set(resource.seen()) == {"Bearer mine"}
    assert sorted(names) == ["remote", "shop"]


class As:
    """A gateway as a client with a token of its own reaches it."""

    def __init__(self, gateway: Gateway, principal: str) -> None:
        self.gateway = gateway
        self.principal = principal

    async def serve(self, channel: Channel) -> None:
        """Serve the client."""
        await self.gateway.server.serve(channel, caller=Caller(self.principal))


async def test_a_server_is_signed_in_to_for_each_client_by_itself() -> None:
    """What one has access to is not lent to another, who may have no login there at all."""

    async def sign_in(name: str, principal: str | None) -> str | None:
        return {"ann": "token of ann", None: "token of nobody"}.get(principal, "none").replace(" ", "-")

    async with protected() as resource:
        resource.authority.tokens["token-of-ann"] = set()
        gateway = Gateway({"remote": resource.url}, host(), sign_in=sign_in)
        async with Client(As(gateway, "ann")) as ann, Client(As(gateway, "bob")) as bob:
            assert (await ann.call_tool("remote__echo")).text == "done"
            assert [tool async for tool in bob.tools()] == []
            seen = set(resource.seen())
        assert {"Bearer token-of-ann", "Bearer none"} <= seen


async def test_servers_are_not_started_for_nobody_where_clients_have_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever comes has the name of a token, so what had been started before would run for nobody, beside theirs."""
    server = Server("one")
    gateway = Gateway({"one": server}, host())
    monkeypatch.setattr(gateway.server, "run", lambda *_args, **_options: None)
    gateway.run("http", check_token=lambda _token: "token")
    async with Client(As(gateway, "token")) as client:
        assert [tool async for tool in client.tools()] == []
        assert len(gateway.upstreams) == 1


async def test_a_server_that_wants_a_login_says_so() -> None:
    """To whoever lists or calls, as its state."""
    async with protected() as resource:
        gateway = Gateway({"remote": resource.url}, host())
        async with Client(gateway.server) as client:
            assert [tool async for tool in client.tools()] == []
            [remote] = gateway.upstreams
            assert remote.state == "failed"
            assert "antiphon login" in str(remote.error)


async def test_a_change_of_one_principals_servers_is_told_to_that_principal() -> None:
    """And to nobody else; nor are definitions of tools those of another."""
    gateway = Gateway({"shop": shop(ERAS[1])}, host())
    async with raw_client(gateway.server, principal="a") as one, raw_client(gateway.server, principal="b") as other:
        for client in (one, other):
            await client.handshake()
            await client.reply(client.request("resources/subscribe", uri="shop://stock"))
            await client.reply(client.request("tools/list"))
        group = next(group for group in gateway._groups.values() if group.terms.principal == "a")
        assert gateway._tool("shop__count", "a") is group.catalogue.tool("shop__count")
        assert gateway._tool("shop__count", None) is None
        told = {one["method"] for one in other.notifications}
        group.renew("prompts")
        group.watches._told("shop://stock")
        while len({each["method"] for each in one.notifications} - told) < 2:
            await one.step()
        await other.reply(other.request("ping"))
        assert {each["method"] for each in other.notifications} == told


async def test_what_is_shown_can_change_while_it_runs() -> None:
    """Clients are told, and see the same as if the gateway had been made so; a mistake changes nothing."""
    gateway = Gateway({"shop": shop(ERAS[1])}, host())
    async with Client(gateway.server, revision=ERAS[1]) as client:
        await client.list_tools()
        async with client.listen(tools=True) as changes:
            gateway.expose(tools={"shop": ["*", "!o*"]}, prefixes={"shop": "s"}, rename={"shop": {"count": "three"}})
            async with asyncio.timeout(30):
                await anext(changes)
        assert [tool.name async for tool in client.tools()] == ["s__describe", "s__visit", "three", "s__echo"]
        assert [prompt.name async for prompt in client.prompts()] == ["s__ask"]
        assert (await client.call_tool("three")).structured_content == {"n": 3}
        with pytest.raises(ConfigError):
            gateway.expose(prefixes={"shop": "a__b"})
        assert len((await client.list_tools()).tools) == 4


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
async def test_what_runs_elsewhere_is_mounted_as_a_proxy(tmp_path: Path, revision: str) -> None:
    """A command line, a file, a URL: started at the first use, ended with the server."""
    program = tmp_path / "far.py"
    program.write_text(FAR)
    far = Server("web")
    far.tool(name="hello")(lambda: "hello")
    app = server_app(far._service, "http", {})
    async with running(app) as place:
        server = Server("outer")
        server.mount(Proxy([sys.executable, str(program)]), prefix="command")
        server.mount(Proxy(program), prefix="file")
        server.mount(Proxy(f"http://{place}/mcp"), prefix="url")
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
    server.mount(Proxy(["/nowhere/at-all"]), prefix="far")
    async with Client(server) as client:
        assert [tool.name async for tool in client.tools()] == ["own"]
        assert (await client.call_tool("own")).text == "own"
        with pytest.raises(InvalidParams, match="Unknown tool"):
            await client.call_tool("far__x")


def test_without_a_host_somebody_has_to_answer() -> None:
    """The error says what to do."""
    with pytest.raises(ConfigError, match='asks="relay"'):
        Gateway({"far": Server("far")}, None)
