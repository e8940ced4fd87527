"""A server on a network: both eras at one endpoint, its lifespan, its guards, mounted or by itself."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import socket
from collections.abc import AsyncIterator
from typing import Annotated, Any

import pytest
from msgspec import Meta

from antiphon import Client, ConfigError, Context, InsufficientScope, PeerError, Server
from antiphon.auth import Caller
from antiphon.errors import LocalProtocolError
from antiphon.server.serving.network import network_server, open_sockets, serve_network, server_app
from tests.support.asgi import running
from tests.support.raw_client import said
from tests.transports.http.server.driver import post
from tests.transports.http.server.fakes import modern, modern_headers

REVISIONS = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


class Shop:
    """A server that notes what happens to it."""

    def __init__(self) -> None:
        self.events: list[str] = []
        self.server = Server("shop", lifespan=self.lifespan)
        self.server.tool(self.describe)
        self.server.tool(self.whose)

    @contextlib.asynccontextmanager
    async def lifespan(self, _server: Server) -> AsyncIterator[None]:
        self.events.append("opened")
        yield
        self.events.append("closed")

    async def describe(self, product: str, ctx: Context) -> str:
        """Describe a product."""
        self.events.append(f"describe {product}")
        return (await ctx.sample(f"Describe {product}", max_tokens=9)).text

    async def whose(self, ctx: Context) -> str:
        """Say who asks."""
        self.events.append("whose")
        return str(ctx.request.principal)


async def sampler(_params: Any, _origin: Any) -> Any:
    """Answer as a model."""
    return said("Warm.")


async def first_status(place: str, **headers: str) -> int:
    """Make a tool call by hand and return its status."""
    import aiohttp

    meta = {"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whose", "_meta": meta}}
    sent = {
        "accept": "application/json, text/event-stream",
        "mcp-protocol-version": "2026-07-28",
        "mcp-method": "tools/call",
        "mcp-name": "whose",
        **headers,
    }
    async with aiohttp.ClientSession() as http, http.post(f"http://{place}/mcp", json=body, headers=sent) as response:
        return response.status


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_tool_that_asks_the_model_is_served_at_every_revision(revision: str) -> None:
    """At one endpoint."""
    shop = Shop()
    async with (
        running(shop.server.asgi()) as place,
        Client(f"http://{place}/mcp", revision=revision, sampling=sampler) as client,
    ):
        assert (await client.call_tool("describe", {"product": "hat"})).text == "Warm."


@pytest.mark.parametrize(("transport", "url"), [("sse", "http://{}/sse"), ("websocket", "ws://{}/ws")])
async def test_the_other_transports_carry_the_same(transport: str, url: str) -> None:
    """HTTP+SSE and WebSocket."""
    async with (
        running(server_app(Shop().server._service, transport, {})) as place,
        Client(url.format(place), sampling=sampler) as client,
    ):
        assert (await client.call_tool("describe", {"product": "hat"})).text == "Warm."


async def test_both_eras_at_once() -> None:
    """One client does not disturb the other."""
    async with running(Shop().server.asgi()) as place:
        url = f"http://{place}/mcp"
        async with (
            Client(url, revision="2025-06-18", sampling=sampler) as old,
            Client(url, revision="2026-07-28", sampling=sampler) as new,
        ):
            both = await asyncio.gather(*(each.call_tool("describe", {"product": "hat"}) for each in (old, new)))
    assert [result.text for result in both] == ["Warm.", "Warm."]


async def test_the_lifespan_is_entered_at_start_up_and_left_at_shutdown() -> None:
    """Once, however many clients come."""
    shop = Shop()
    async with running(shop.server.asgi()) as place:
        assert shop.events == ["opened"]
        for _ in range(2):
            async with Client(f"http://{place}/mcp") as client:
                await client.list_tools()
        assert shop.events == ["opened"]
    assert shop.events == ["opened", "closed"]


def without_lifespan(app: Any, prefix: str = "") -> Any:
    """Mount an application in one that keeps the lifespan to itself, as Starlette and FastAPI do."""

    async def outer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "lifespan":
            for step in ("startup", "shutdown"):
                await receive()
                await send({"type": f"lifespan.{step}.complete"})
        elif scope["path"].startswith(prefix):
            await app({**scope, "root_path": scope.get("root_path", "") + prefix}, receive, send)

    return outer


async def test_the_first_request_enters_the_lifespan_where_nobody_else_does() -> None:
    """Mounted under a prefix; ``close`` leaves it."""
    shop = Shop()
    app = shop.server.asgi()
    async with running(without_lifespan(app, "/shop")) as place:
        assert shop.events == []
        async with Client(f"http://{place}/shop/mcp") as client:
            assert (await client.call_tool("whose")).text == "None"
        await app.close()
    assert shop.events == ["opened", "whose", "closed"]


async def test_a_request_after_the_end_enters_no_lifespan_that_nobody_would_leave() -> None:
    """It is refused, and a second lifespan of the application says what to do."""
    shop = Shop()
    app = shop.server.asgi()
    async with running(app) as place, Client(f"http://{place}/mcp") as client:
        await client.list_tools()
    response = await post(app, modern("whose"), **modern_headers(name="whose"))
    assert (response.status, shop.events) == (503, ["opened", "closed"])
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    with pytest.raises(LocalProtocolError, match=r"server\.asgi\(\)"):
        await app({"type": "lifespan"}, receive, send)
    assert sent[0]["type"] == "lifespan.startup.failed"
    assert shop.events == ["opened", "closed"]


async def test_a_lifespan_that_fails_is_told_to_who_starts_it() -> None:
    """With its reason, by the ASGI lifespan protocol."""

    @contextlib.asynccontextmanager
    async def broken(_server: Server) -> AsyncIterator[None]:
        raise ValueError("no database")
        yield

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    app = Server("s", lifespan=broken).asgi()
    with pytest.raises(ValueError, match="no database"):
        await app({"type": "lifespan"}, receive, send)
    assert sent == [{"type": "lifespan.startup.failed", "message": "ValueError: no database"}]


async def test_a_start_that_is_interrupted_is_no_failure_to_log() -> None:
    """Ctrl-C cancels it: uvicorn logs a lifespan that ends without a message, with its traceback."""
    begun = asyncio.Event()

    @contextlib.asynccontextmanager
    async def slow(_server: Server) -> AsyncIterator[None]:
        begun.set()
        await asyncio.Event().wait()
        yield

    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        sent.append(message)

    starting = asyncio.create_task(Server("s", lifespan=slow).asgi()({"type": "lifespan"}, receive, send))
    await begun.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert sent == [{"type": "lifespan.startup.failed", "message": ""}]


@pytest.mark.parametrize("host", ["0.0.0.0", "::", ""])
async def test_who_serves_every_address_says_under_which_names(host: str) -> None:
    """Before anything listens."""
    with pytest.raises(ConfigError, match="allowed_hosts"):
        await serve_network(Server("s")._service, "http", host, 0, {})


@pytest.mark.parametrize(
    "headers", [{"host": "evil.example"}, {"origin": "http://evil.example"}, {"origin": "null"}], ids=str
)
async def test_a_foreign_page_never_reaches_a_handler(headers: dict[str, str]) -> None:
    """A foreign Host alone is refused, and a foreign Origin alone."""
    shop = Shop()
    async with running(shop.server.asgi()) as place:
        assert await first_status(place, **headers) == 403
        assert "whose" not in shop.events
        assert await first_status(place) == 200


async def test_a_name_that_was_allowed_is_served() -> None:
    """As the proxy in front of it calls it."""
    async with running(Shop().server.asgi(allowed_hosts=["shop.example"])) as place:
        assert await first_status(place, host="shop.example") == 200
        assert await first_status(place) == 403


async def test_a_token_says_who_asks() -> None:
    """The hook's answer is the principal; who has no good token is refused."""
    app = Shop().server.asgi(check_token={"t1": "ann"}.get)
    async with running(app) as place:
        url = f"http://{place}/mcp"
        async with Client(url, headers={"Authorization": "Bearer t1"}) as client:
            assert (await client.call_tool("whose")).text == "ann"
        with pytest.raises(PeerError, match="Unauthorized"):
            await Client(url, headers={"Authorization": "Bearer t2"}).connect()


@pytest.mark.parametrize(
    ("transport", "url"), [("http", "http://{}/mcp"), ("sse", "http://{}/sse"), ("websocket", "ws://{}/ws")]
)
async def test_fixed_tokens_have_scopes_without_an_issuer(transport: str, url: str) -> None:
    """A hook that returns callers is enough: tools check their scopes, and handlers see them."""
    server = Server("shop")

    @server.tool(scopes=["orders:read"])
    def read(ctx: Context) -> str:
        """Read."""
        return f"{ctx.request.principal} {sorted(ctx.request.scopes)} {dict(ctx.request.claims)}"

    tokens = {"t1": Caller("ann", frozenset({"orders:read"}), {"plan": "free"}), "t2": Caller("ben"), "t3": Caller("")}
    async with running(server_app(server._service, transport, {"check_token": tokens.get})) as place:
        address = url.format(place)
        async with Client(address, headers={"Authorization": "Bearer t1"}) as client:
            assert (await client.call_tool("read")).text == "ann ['orders:read'] {'plan': 'free'}"
        async with Client(address, headers={"Authorization": "Bearer t2"}) as client:
            with pytest.raises(InsufficientScope, match="orders:read"):
                await client.call_tool("read")
        with pytest.raises(PeerError, match=r"Unauthorized|401"):
            await Client(address, headers={"Authorization": "Bearer t3"}).connect()


@pytest.mark.parametrize("transport", ["http", "sse", "websocket"])
def test_an_unknown_option_is_named(transport: str) -> None:
    """Rather than ignored."""
    options: Any = {"colour": "red"}
    with pytest.raises(
        ConfigError, match=rf"^{transport}: .*nexpected keyword .*'colour'; HttpOptions lists the options"
    ):
        server_app(Server("s")._service, transport, options)


@pytest.mark.parametrize("port", [-1, 65_536, "80"])
def test_a_port_that_cannot_be_is_refused(port: Any) -> None:
    """Before anything is opened."""
    with pytest.raises(ConfigError, match=f"port= is a number from 0 to 65535, not {port!r}"):
        network_server(Server("s")._service, "http", "127.0.0.1", port, {})


def test_an_unknown_transport_lists_the_known_ones() -> None:
    """As ``run`` takes them."""
    with pytest.raises(ConfigError, match='"stdio", "http", "sse" or "websocket"'):
        server_app(Server("s")._service, "smoke", {})


async def test_an_argument_that_travels_in_a_header_too_is_compared() -> None:
    """A client that has not listed the tool learns it, and calls again; one that lies is refused."""
    server = Server("s")

    @server.tool
    def query(region: Annotated[str, Meta(extra_json_schema={"x-mcp-header": "Region"})]) -> str:
        """Ask a region."""
        return region

    async with running(server.asgi()) as place, Client(f"http://{place}/mcp") as client:
        assert (await client.call_tool("query", {"region": "eu"})).text == "eu"
        [tool] = (await client.list_tools()).tools
        assert tool.input_schema["properties"]["region"]["x-mcp-header"] == "Region"


@pytest.mark.parametrize("option", ["allowed_hosts", "allowed_origins"])
def test_names_are_a_list(option: str) -> None:
    """Of one text each letter would be a name, and a "*" in it would let everybody in."""
    wrong: Any = {option: "*.example.com"}
    with pytest.raises(ConfigError, match=rf"{option}= is a list, as in {option}=\['\*\.example\.com'\]"):
        Server("shop").asgi(**wrong)


async def test_an_address_that_cannot_be_served_is_named():
    """With the remedy, before anything is served: a port in use, and an address of another machine."""
    shop = Shop()
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(
            ConfigError, match=rf"cannot serve at 127\.0\.0\.1:{port}: the port is in use; .*choose another"
        ):
            await serve_network(shop.server._service, "http", "127.0.0.1", port, {})
    with pytest.raises(ConfigError, match="no address of this machine"):
        await serve_network(shop.server._service, "http", "192.0.2.1", 8000, {"allowed_hosts": ["x"]})
    with pytest.raises(ConfigError, match="there is no such address"):
        await serve_network(shop.server._service, "http", "no such host", 8000, {"allowed_hosts": ["x"]})
    assert shop.events == []


def test_streamable_http_is_a_name_of_its_transport():
    """As other frameworks call it."""
    assert type(server_app(Server("s")._service, "streamable-http", {})._endpoint) is type(
        server_app(Server("s")._service, "http", {})._endpoint
    )


# --- in a block of a program --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("transport", "path"), [("http", "/mcp"), ("sse", "/sse"), ("websocket", "/ws")])
async def test_a_program_serves_in_a_block(transport: str, path: str):
    """The URL is there as soon as clients can connect; afterwards the lifespan is over and the port is free."""
    shop = Shop()
    async with shop.server.listen(transport) as url:
        assert url.endswith(path)
        async with Client(url, sampling=sampler) as client:
            assert (await client.call_tool("describe", {"product": "hat"})).text == "Warm."
        assert shop.events[0] == "opened"
    assert shop.events[-1] == "closed"
    port = int(url.rpartition(":")[2].partition("/")[0])
    async with shop.server.listen(transport, port=port, path="/again") as again:
        assert again == url.removesuffix(path) + "/again"
        with pytest.raises(ConfigError, match="the port is in use"):
            await shop.server.listen(port=port).__aenter__()


def test_small_messages_are_not_held_back():
    """Asyncio sends them at once only on sockets that are named as TCP."""
    for each in open_sockets("127.0.0.1", 0):
        assert each.proto == socket.IPPROTO_TCP
        each.close()


async def test_a_block_is_not_entered_when_the_lifespan_fails():
    """Its own error says why, and nothing goes on listening."""

    @contextlib.asynccontextmanager
    async def lifespan(_server: Server) -> AsyncIterator[None]:
        raise LookupError("no database")
        yield

    ports: list[int] = []
    with pytest.raises(LookupError, match="no database"):
        await Server("shop", lifespan=lifespan).listen(on_listening=ports.append).__aenter__()
    assert ports == []


async def test_a_block_leaves_signals_to_its_program():
    """Ctrl-C ends the program as it would without a server."""
    before = signal.getsignal(signal.SIGINT)
    async with Server("shop").listen():
        assert signal.getsignal(signal.SIGINT) is before


async def test_a_block_ends_with_clients_that_stay():
    """Streams that are open do not hold it up."""
    server = Server("shop")
    server.resource("shop://hat")(lambda: "hat")
    async with contextlib.AsyncExitStack() as stack:
        async with server.listen() as url:
            client = await stack.enter_async_context(Client(url, revision="2025-11-25"))
            await client.list_resources()
        with pytest.raises(PeerError):
            await client.list_resources()


def test_a_token_in_place_of_its_check_is_refused() -> None:
    """Every request would fail with it."""
    wrong: Any = "secret"
    with pytest.raises(ConfigError, match="check_token= is a function that returns whose a token is") as caught:
        Server("shop").asgi(check_token=wrong)
    assert "secret" not in str(caught.value)
