"""Messages of extensions through a gateway: nobody here knows them, and they arrive as they were sent."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw, json

from antiphon import Client
from antiphon.errors import InvalidParams, MethodNotFound
from antiphon.gateway import Gateway
from antiphon.gateway.group import choose_server, list_addressed_servers
from antiphon.gateway.offer import UpstreamOffer
from antiphon.gateway.server_catalogue import Exposure, ServerCatalogue
from antiphon.types import Tool
from antiphon.wire.common import RequestParams
from antiphon.wire.lossless import Received
from antiphon.wire.task import TASKS
from tests.support.behind_gateway import CELLS, ERAS, host
from tests.support.raw_client import RawClient, raw_client
from tests.support.raw_server import CAPABILITIES, RawServer

MAPS = "com.example/maps"
SETTINGS = {"zoom": [1, 2.0], "deep": {"x": None}}
OF_CONNECTION = "io.modelcontextprotocol/odd"


class Extended(RawServer):
    """Speaks one era, and an extension of its own."""

    def __init__(self, era: str, extension: str = MAPS) -> None:
        modern = {"resultType": "complete"} if era == ERAS[1] else {}
        super().__init__(
            maps_find=lambda message: {"found": message["params"]["place"], "x": 1.0, **modern},
            tools_list=lambda _: {"tools": [{"name": "where", "inputSchema": {"type": "object"}}], **modern},
            prompts_list=lambda _: {"prompts": [], **modern},
            resources_list=lambda _: {"resources": [], **modern},
            resources_templates_list=lambda _: {"resourceTemplates": [], **modern},
            tools_call=self.call,
        )
        self.era = era
        self.calling: list[Any] = []
        self._declared = {**CAPABILITIES, "extensions": {extension: SETTINGS}, "experimental": {"x-odd": {"a": 1}}}
        if era == ERAS[0]:
            self.replies["server/discover"] = self.refuse

    def refuse(self, message: dict[str, Any]) -> None:
        """Know no discovery."""
        self.send({"id": message["id"], "error": {"code": -32601, "message": "no"}})

    def call(self, message: dict[str, Any]) -> None:
        """Say something odd in the middle of a call, which is not answered before ``done``."""
        self.calling.append(message["id"])
        self.send({"method": "notifications/maps/moved", "params": {"to": [1.5], "_meta": {"k": 1, OF_CONNECTION: 2}}})
        if self.era == ERAS[0]:
            self.ask("odd-1", "maps/look", at=[2.5])

    def done(self) -> None:
        """Answer the call."""
        kind = {"resultType": "complete"} if self.era == ERAS[1] else {}
        self.send({"id": self.calling.pop(), "result": {"content": [], **kind}})

    def _initialize(self, message: dict[str, Any]) -> dict[str, Any]:
        return {**super()._initialize(message), "capabilities": self._declared}

    def _server_discover(self, message: dict[str, Any]) -> dict[str, Any]:
        return {**super()._server_discover(message), "capabilities": self._declared}


SPEAKS = {"extensions": {MAPS: {"mine": 1}}, "experimental": {"x-mine": {}}}


async def opened(client: RawClient, era: str) -> dict[str, Any]:
    """Open a session in the way of an era; return the capabilities of the server."""
    if era == ERAS[0]:
        return (await client.handshake(capabilities=SPEAKS))["capabilities"]
    return (await client.reply(client.modern("server/discover", capabilities=SPEAKS)))["result"]["capabilities"]


def request(client: RawClient, era: str, method: str, **params: Any) -> int:
    """Make a request in the way of an era."""
    if era == ERAS[1]:
        meta = {"k": 1, OF_CONNECTION: 1}
        return client.modern(method, capabilities=SPEAKS, meta=meta, **params)
    return client.request(method, _meta={"k": 1, OF_CONNECTION: 1}, **params)


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_a_request_of_an_extension_goes_to_the_server_that_declares_it(client_era: str, server_era: str) -> None:
    """And its result comes back: both with every member, but for what belongs to one connection; recorded."""
    behind, keeper = Extended(server_era), host()
    async with raw_client(Gateway({"maps": behind}, keeper).server) as client:
        await opened(client, client_era)
        reply = await client.reply(request(client, client_era, "maps/find", place={"name": [1.0, None]}))
        assert reply["result"]["found"] == {"name": [1.0, None]}
        assert reply["result"]["x"] == 1.0
        params = (await behind.request("maps/find"))["params"]
        assert params["place"] == {"name": [1.0, None]}
        assert params["_meta"]["k"] == 1
        assert OF_CONNECTION not in params["_meta"]
        assert (await client.reply(request(client, client_era, "tasks/list")))["error"]["code"] == -32601
        unknown = await client.reply(request(client, client_era, "maps/lose"))
        assert unknown["error"] == {"code": -32601, "message": "no"}
    noted = [(record.method, record.outcome) for record in keeper.audit.records()]
    assert noted[0] == ("maps/find", "passed-on")


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_capabilities_are_declared_as_they_were_sent(client_era: str, server_era: str) -> None:
    """Those of the server to the client; and where asks are relayed, or with each request, the client's to it."""
    behind = Extended(server_era)
    gateway = Gateway({"maps": behind}, host(), asks="relay", starts="eager")
    async with raw_client(gateway.server) as first, raw_client(gateway.server) as second:
        await opened(first, client_era)
        await first.reply(request(first, client_era, "tools/list"))
        said = await opened(second, client_era)
        assert said["extensions"][MAPS] == SETTINGS
        assert said["experimental"] == {"x-odd": {"a": 1}}
        await second.reply(request(second, client_era, "maps/find", place=1))
    if server_era == ERAS[0]:
        heard = (await behind.request("initialize"))["params"]["capabilities"]
    else:
        heard = (await behind.request("maps/find"))["params"]["_meta"]["io.modelcontextprotocol/clientCapabilities"]
    assert heard["extensions"] == {MAPS: {"mine": 1}}
    assert heard["experimental"] == {"x-mine": {}}


@pytest.mark.parametrize(("client_era", "server_era"), CELLS)
async def test_what_a_server_says_during_a_call_reaches_its_client(client_era: str, server_era: str) -> None:
    """Notifications, and up to 2025-11-25 requests, of methods that no revision has."""
    behind = Extended(server_era)
    async with raw_client(Gateway({"maps": behind}, host()).server) as client:
        await opened(client, client_era)
        called = request(client, client_era, "tools/call", name="maps__where")
        while not client.notifications:
            await client.step()
        (told,) = client.notifications
        assert told["method"] == "notifications/maps/moved"
        assert told["params"] == {"to": [1.5], "_meta": {"k": 1}}
        if server_era == ERAS[0]:
            if client_era == ERAS[0]:
                asked = await client.asked()
                assert (asked["method"], asked["params"]["at"]) == ("maps/look", [2.5])
                client.send({"id": asked["id"], "result": {"seen": 2.0}})
                assert (await behind.answer("odd-1"))["result"] == {"seen": 2.0}
            else:
                assert (await behind.answer("odd-1"))["error"]["code"] == -32601
        behind.done()
        assert (await client.reply(called))["result"]["content"] == []


@pytest.mark.parametrize("client_era", ERAS)
async def test_what_a_client_says_reaches_the_server(client_era: str) -> None:
    """Notifications of methods that no revision has, of a client that has used the server."""
    behind = Extended(ERAS[0])
    async with raw_client(Gateway({"maps": behind}, host()).server) as client:
        await opened(client, client_era)
        await client.reply(request(client, client_era, "maps/find", place=1))
        client.send({"method": "notifications/maps/moved", "params": {"to": 1.0}})
        assert (await behind.request("notifications/maps/moved"))["params"] == {"to": 1.0}


async def test_what_a_server_says_outside_of_calls_reaches_all_clients_that_can_be_told() -> None:
    """Log messages, the end of a visit, and notifications of extensions: those up to 2025-11-25."""
    behind = Extended(ERAS[0])
    async with raw_client(Gateway({"maps": behind}, host()).server) as client:
        await opened(client, ERAS[0])
        await client.reply(request(client, ERAS[0], "maps/find", place=1))
        sent = {
            "notifications/message": {"level": "error", "data": {"x": 1.0}, "x-odd": 1},
            "notifications/elicitation/complete": {"elicitationId": "e-1", "x-odd": 1},
            "notifications/maps/moved": {"to": 2.0},
        }
        for method, params in sent.items():
            behind.send({"method": method, "params": params})
        while len(client.notifications) < len(sent):
            await client.step()
    assert {one["method"]: one["params"] for one in client.notifications} == sent


@pytest.mark.parametrize("behind_it", ERAS)
async def test_changed_roots_are_told_to_servers_that_have_them(behind_it: str) -> None:
    """Up to 2025-11-25: the server then asks for them, outside of any call, and gets those of that client."""
    behind = Extended(ERAS[0])
    newer = Extended(behind_it)
    newer.name = "newer"
    gateway = Gateway({"maps": behind, "other": newer}, host(), asks="relay")
    async with raw_client(gateway.server) as client:
        await client.handshake(capabilities={"roots": {"listChanged": True}})
        await client.reply(request(client, ERAS[0], "tools/list"))
        client.send({"method": "notifications/roots/list_changed"})
        await behind.request("notifications/roots/list_changed")
        behind.ask("r-1", "roots/list")
        asked = await client.asked()
        client.send({"id": asked["id"], "result": {"roots": [{"uri": "file:///new", "x-root": 1}]}})
        assert (await behind.answer("r-1"))["result"]["roots"] == [{"uri": "file:///new", "x-root": 1}]
        if behind_it == ERAS[0]:
            await newer.request("notifications/roots/list_changed")
    assert behind_it == ERAS[0] or all("roots" not in one["method"] for one in newer.received)


# --- which server ----------------------------------------------------------------------------------------------------

CATALOGUE = ServerCatalogue(
    {name: UpstreamOffer(tools=(Tool(name="find", input_schema={}),)) for name in ("one", "two", "three")}, Exposure()
)
SPOKEN = {"one": [MAPS], "two": [MAPS, "x-odd"], "three": ["com.example/music"]}


@pytest.mark.parametrize(
    ("method", "expected"),
    [
        ("maps/find", ["one", "two"]),
        ("notifications/maps/moved", ["one", "two"]),
        ("com.example/music/play", ["three"]),
        ("music.play", ["three"]),
        ("mapsfind", ["one", "two", "three"]),
    ],
)
def test_a_method_belongs_to_the_extension_whose_name_it_has(method: str, expected: list[str]) -> None:
    """One that has the name of none may be anybody's who declares an extension."""
    assert list_addressed_servers(method, SPOKEN) == expected


def test_of_several_servers_a_name_in_the_params_chooses() -> None:
    """The name is then written as that server knows it; without one, the error names the servers."""
    server, params = choose_server("maps/find", Raw(b'{"name":"two__find","x":1.0}'), SPOKEN, CATALOGUE)
    assert (server, json.decode(params)) == ("two", {"name": "find", "x": 1.0})
    for unclear in (b"{}", b'{"name":"three__find"}', b'{"name":3}'):
        with pytest.raises(InvalidParams, match="'one' and 'two'"):
            choose_server("maps/find", Raw(unclear), SPOKEN, CATALOGUE)


def test_without_an_extension_there_is_no_such_method() -> None:
    """As on any server."""
    with pytest.raises(MethodNotFound, match="maps/find"):
        choose_server("maps/find", Raw(b"{}"), {}, CATALOGUE)


async def test_servers_without_extensions_get_nothing() -> None:
    """A method that nobody declares is unknown, and so is one with an endless name; tasks are no such extension."""
    behind = Extended(ERAS[0], extension=TASKS)
    behind._declared = CAPABILITIES
    async with Client(Gateway({"maps": behind}, host()).server) as client:
        for method in ("maps/find", "m" * 300):
            with pytest.raises(MethodNotFound):
                await client.forward(method, RequestParams(), Received.of(RequestParams()))
    assert not [one for one in behind.received if one["method"] == "maps/find"]
