"""Changes of single resources: told to who subscribes, in every pair of eras; ended when nobody does any more."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.errors import InvalidRequest, PeerError, ResourceNotFound
from antiphon.gateway import Gateway
from antiphon.server import CallNext, ServerRequest
from tests.support.behind_gateway import CELLS, ERAS, host
from tests.support.network import until
from tests.support.raw_server import RawServer


def watched(revision: str) -> Server:
    """Make a server with two resources and a template."""
    server = Server("watched", revisions=[revision])
    server.add_resource("x://1", "one")
    server.add_resource("x://2", "two")
    server.resource("x://{n}/more")(lambda n: n)
    return server


async def next_uri(changes: Any) -> str:
    """Wait for the next change; return what has changed."""
    async with asyncio.timeout(30):
        return (await anext(changes)).uri


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_change_is_told_to_those_who_subscribe(client_era: str, server_era: str):
    """Of each resource to its subscribers; once the last has left, its server is told so."""
    behind = watched(server_era)
    gateway = Gateway({"in": behind}, host())
    async with Client(gateway.server, revision=client_era) as one, Client(gateway.server, revision=client_era) as two:
        async with one.listen(uris=["x://1"]) as ones:
            async with two.listen(uris=["x://1", "x://7/more"]) as both:
                assert behind.subscribed == {"x://1", "x://7/more"}
                behind.resource_updated("x://2")
                behind.resource_updated("x://7/more")
                behind.resource_updated("x://1")
                assert {await next_uri(both), await next_uri(both)} == {"x://7/more", "x://1"}
                assert await next_uri(ones) == "x://1"
            await until(lambda: behind.subscribed == {"x://1"})
            behind.resource_updated("x://1")
            assert await next_uri(ones) == "x://1"
        await until(lambda: behind.subscribed == set())


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_client_that_leaves_ends_its_subscriptions(client_era: str, server_era: str):
    """Also without a word."""
    behind = watched(server_era)
    gateway = Gateway({"in": behind}, host())
    async with Client(gateway.server) as staying:
        await staying.list_tools()
        leaving = Client(gateway.server, revision=client_era)
        await leaving.connect()
        await leaving.listen(uris=["x://1"]).__aenter__()
        assert behind.subscribed == {"x://1"}
        await leaving.close()
        await until(lambda: behind.subscribed == set())


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_client_that_gives_up_while_it_subscribes_leaves_nothing(client_era: str, server_era: str):
    """The gateway subscribes at the server for it, and ends that, too; else a thousand would leave no room."""
    behind, arrived, go_on = watched(server_era), asyncio.Event(), asyncio.Event()

    @behind.middleware
    async def delay(request: ServerRequest, call_next: CallNext) -> Any:
        if "x://1" in str(request.params):
            arrived.set()
            await go_on.wait()
        return await call_next(request)

    gateway = Gateway({"in": behind}, host())
    async with Client(gateway.server, revision=client_era) as client:
        listening = asyncio.create_task(client.listen(uris=["x://1"]).__aenter__())
        await arrived.wait()
        listening.cancel()
        # Answered once the gateway knows that the client has given up.
        await client.ping()
        go_on.set()
        await until(lambda: not any(group.watches._watches for group in gateway._groups.values()))


@pytest.mark.parametrize("server_era", ERAS)
async def test_what_cannot_be_subscribed_to_is_refused(server_era: str):
    """What nobody has is not found; a client of 2026-07-28 is not acknowledged it."""
    gateway = Gateway({"in": watched(server_era)}, host())
    async with Client(gateway.server, revision=ERAS[0]) as client:
        with pytest.raises(ResourceNotFound):
            await client.listen(uris=["y://1"]).__aenter__()
    async with Client(gateway.server, revision=ERAS[1]) as client, client.listen(uris=["y://1", "x://1"]) as changes:
        assert changes.honoured.resource_subscriptions == ["x://1"]


async def test_the_refusal_of_a_server_is_passed_on():
    """As it was."""

    def refuse(message: dict[str, Any]) -> None:
        behind.send({"id": message["id"], "error": {"code": 4711, "message": "not this one"}})

    lists = {kind: (lambda _message, kind=kind: {kind: []}) for kind in ("tools", "prompts")}
    behind = RawServer(
        server_discover=refuse,
        resources_subscribe=refuse,
        resources_list=lambda _: {"resources": [{"uri": "x://1", "name": "x"}]},
        resources_templates_list=lambda _: {"resourceTemplates": []},
        **{f"{kind}_list": reply for kind, reply in lists.items()},
    )
    gateway = Gateway({"in": behind}, host())
    async with Client(gateway.server, revision=ERAS[0]) as client:
        with pytest.raises(PeerError, match="not this one"):
            await client.listen(uris=["x://1"]).__aenter__()


async def test_subscriptions_of_all_clients_together_are_bounded(monkeypatch: pytest.MonkeyPatch):
    """What is subscribed to already costs nothing more."""
    monkeypatch.setattr("antiphon.gateway.group.MAX_WATCHED", 1)
    behind = watched(ERAS[1])
    gateway = Gateway({"in": behind}, host())
    async with (
        Client(gateway.server, revision=ERAS[0]) as one,
        Client(gateway.server, revision=ERAS[0]) as two,
        one.listen(uris=["x://1"]),
        two.listen(uris=["x://1"]),
    ):
        with pytest.raises(InvalidRequest, match="Too many subscriptions"):
            await two.listen(uris=["x://2"]).__aenter__()


async def test_subscriptions_are_bounded_while_their_servers_start(monkeypatch: pytest.MonkeyPatch):
    """All of them wait for the lists then, and begin at once."""
    monkeypatch.setattr("antiphon.gateway.group.MAX_WATCHED", 1)
    gateway = Gateway({"in": watched(ERAS[0])}, host())
    async with Client(gateway.server, revision=ERAS[0]) as client:
        listening = [client.listen(uris=[f"x://{at}/more"]) for at in range(4)]
        begun = await asyncio.gather(*(each.__aenter__() for each in listening), return_exceptions=True)
        assert sum(isinstance(each, InvalidRequest) for each in begun) == 3
        assert [len(group.watches._watches) for group in gateway._groups.values()] == [1]
