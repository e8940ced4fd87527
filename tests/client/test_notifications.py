"""What a server tells without being asked, and hearing of changes in both eras."""

from __future__ import annotations

import asyncio
import gc
import logging
from typing import Any

import pytest

from antiphon import Client, Server
from antiphon.client import notifications
from antiphon.client.client_middleware import ClientNext, ClientRequest
from antiphon.client.notifications import MAX_ENTRIES, Cache, Change, ClientNotices
from antiphon.errors import CallTimeout, InvalidRequest, LocalProtocolError, MethodNotFound, Rejected
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.tools import ListToolsResult
from tests.support.network import until
from tests.support.raw_server import RawServer

LOG = {"method": "notifications/message", "params": {"level": "error", "data": {"a": 1}, "logger": "l"}}
FOREVER = {"resultType": "complete", "ttlMs": 3_600_000, "cacheScope": "private"}


async def told(**options: Any) -> None:
    """Let a server say something, and wait until it was heard."""
    server = RawServer()
    async with Client(server, revision="2025-11-25", **options) as client:
        server.send(LOG)
        await client.ping()


async def test_log_messages_go_to_on_log() -> None:
    """As they came."""
    logs: list[LoggingMessageNotificationParams] = []
    await told(on_log=logs.append)
    assert [(one.level, one.data, one.logger) for one in logs] == [("error", {"a": 1}, "l")]


async def test_on_log_may_be_a_coroutine_function() -> None:
    """It is awaited."""
    heard = asyncio.Event()

    async def listen(params: LoggingMessageNotificationParams) -> None:
        await asyncio.sleep(0)
        heard.set()

    server = RawServer()
    async with Client(server, revision="2025-11-25", on_log=listen):
        server.send(LOG)
        async with asyncio.timeout(30):
            await heard.wait()
    assert heard.is_set()


async def test_an_on_log_that_fails_is_logged_here(caplog: pytest.LogCaptureFixture) -> None:
    """And the connection goes on."""

    def broken(_params: Any) -> None:
        raise ValueError("my mistake")

    with caplog.at_level(logging.ERROR):
        await told(on_log=broken)
    assert any("callback" in record.message for record in caplog.records)


async def test_without_on_log_only_the_fact_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """What a server says may be secret, or meant to mislead whoever reads our log."""
    with caplog.at_level(logging.DEBUG, logger="antiphon.client"):
        await told()
    messages = [record.getMessage() for record in caplog.records if record.name == "antiphon.client"]
    assert messages == ["server log [error] l"]


class Counting(RawServer):
    """A server whose lists and resources may be kept for an hour, and that counts how often they are read."""

    def __init__(self) -> None:
        super().__init__()
        entries = {"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources",
                   "resources/templates/list": "resourceTemplates", "resources/read": "contents"}  # fmt: skip
        self.reads: list[str] = []
        for method, member in entries.items():
            self.replies[method] = lambda _, method=method, member=member: self.count(method, member)

    def count(self, method: str, member: str) -> dict[str, Any]:
        self.reads.append(method)
        return {**FOREVER, member: []}


async def read_all(client: Client) -> None:
    """Read all there is to keep."""
    await client.list_tools()
    await client.list_prompts()
    await client.list_resources()
    await client.list_resource_templates()
    await client.read_resource("s://a")
    await client.read_resource("s://b")


@pytest.mark.parametrize(
    ("method", "params", "again"),
    [
        ("notifications/tools/list_changed", {}, ["tools/list"]),
        ("notifications/prompts/list_changed", {}, ["prompts/list"]),
        ("notifications/resources/list_changed", {}, ["resources/list", "resources/templates/list"]),
        ("notifications/resources/updated", {"uri": "s://a"}, ["resources/read"]),
    ],
)
async def test_what_has_changed_is_read_again(method: str, params: Any, again: list[str]) -> None:
    """And nothing else is."""
    server = Counting()
    async with Client(server, revision="2026-07-28") as client:
        await read_all(client)
        await read_all(client)
        assert len(server.reads) == 6
        server.send({"method": method, "params": params})
        await client.ping()
        server.reads.clear()
        await read_all(client)
    assert server.reads == again


async def test_notices_nobody_wants_are_dropped() -> None:
    """Unknown ones too."""
    server = RawServer()
    async with Client(server, revision="2025-11-25") as client:
        for method in ("notifications/tools/list_changed", "notifications/novel", "notifications/resources/updated"):
            server.send({"method": method, "params": {"uri": "s://x"}})
        await client.ping()
        assert client.revision == "2025-11-25"


def test_a_listener_that_never_came_may_leave() -> None:
    """Removing is idempotent."""
    notices: Any = ClientNotices(None)
    notices.remove(object())
    assert notices.uris == set()
    assert Change(kind="tools").uri is None


ERAS = ["2025-11-25", "2026-07-28"]


def shop() -> Server:
    """Make a server with one of each."""
    server = Server("shop")
    server.tool(name="buy")(lambda: "x")
    server.prompt(name="haggle")(lambda: "x")
    server.resource("shop://hat")(lambda: "a hat")
    return server


async def next_of(changes: Any) -> Change:
    """Wait for one change."""
    async with asyncio.timeout(30):
        return await anext(changes)


@pytest.mark.parametrize("revision", ERAS)
async def test_a_listener_hears_what_it_asked_for(revision: str) -> None:
    """Lists and resources, in order."""
    server = shop()
    async with (
        Client(server, revision=revision) as client,
        client.listen(tools=True, prompts=True, resources=True, uris=["shop://hat"]) as changes,
    ):
        seen: list[Change] = []
        server.tools.remove("buy")
        seen.append(await next_of(changes))
        server.resource_updated("shop://hat")
        seen.append(await next_of(changes))
        server.prompts.remove("haggle")
        seen.append(await next_of(changes))
        server.resources.remove("shop://hat")
        seen.append(await next_of(changes))
    assert [(one.kind, one.uri) for one in seen] == [
        ("tools", None),
        ("resource", "shop://hat"),
        ("prompts", None),
        ("resources", None),
    ]


@pytest.mark.parametrize("revision", ERAS)
async def test_two_listeners_hear_each_their_own(revision: str) -> None:
    """Of one client."""
    server = shop()
    async with (
        Client(server, revision=revision) as client,
        client.listen(tools=True) as tools,
        client.listen(prompts=True) as prompts,
    ):
        server.prompts.remove("haggle")
        assert (await next_of(prompts)).kind == "prompts"
        server.tools.remove("buy")
        assert (await next_of(tools)).kind == "tools"


@pytest.mark.parametrize("revision", ERAS)
async def test_a_listener_that_leaves_takes_nothing_from_the_others(revision: str) -> None:
    """Two may want the same resource."""
    server = shop()
    async with Client(server, revision=revision) as client, client.listen(uris=["shop://hat"]) as staying:
        async with client.listen(uris=["shop://hat"]):
            pass
        server.resource_updated("shop://hat")
        assert (await next_of(staying)).uri == "shop://hat"


@pytest.mark.parametrize("revision", ERAS)
async def test_the_last_listener_unsubscribes(revision: str) -> None:
    """The server tells nothing to nobody."""
    server = shop()
    async with Client(server, revision=revision) as client:
        async with client.listen(uris=["shop://hat"]):
            pass
        await client.ping()
        assert server._service.subscriptions.count[1] == 0
        assert all(not uris for uris in server._service.subscriptions._peers.values())


async def test_a_listener_that_is_refused_leaves_no_half_of_its_subscriptions() -> None:
    """What it had subscribed to before is taken back, but for what others listen to."""

    async def refuse(request: ClientRequest, call_next: ClientNext) -> Any:
        if request.method == "resources/subscribe" and request.params.uri == "shop://refused":
            raise Rejected("no")
        return await call_next(request)

    server, both = shop(), ["shop://hat", "shop://refused"]
    async with Client(server, revision="2025-11-25", middleware=[refuse]) as client:
        with pytest.raises(Rejected, match="no"):
            await client.listen(uris=both).__aenter__()
        assert all(not uris for uris in server._service.subscriptions._peers.values())
        async with client.listen(uris=["shop://hat"]):
            with pytest.raises(Rejected, match="no"):
                await client.listen(uris=both).__aenter__()
            assert any(uris for uris in server._service.subscriptions._peers.values())


def subscribing(*, slow: str = "") -> tuple[RawServer, set[str]]:
    """Make a server that keeps its subscriptions in a set, and does not reply to one of ``slow``."""
    kept: set[str] = set()

    def add(message: dict[str, Any]) -> dict[str, Any] | None:
        kept.add(message["params"]["uri"])
        return None if message["params"]["uri"] == slow else {}

    def drop(message: dict[str, Any]) -> dict[str, Any]:
        kept.discard(message["params"]["uri"])
        return {}

    return RawServer(resources_subscribe=add, resources_unsubscribe=drop), kept


async def test_an_entering_that_is_cancelled_leaves_no_subscription_behind() -> None:
    """Not even the one that was being made, but those that others listen to."""
    server, kept = subscribing(slow="s://3")
    async with Client(server, revision="2025-11-25") as client, client.listen(uris=["s://1"]):
        entering = asyncio.create_task(client.listen(uris=["s://1", "s://2", "s://3"]).__aenter__())
        await until(lambda: "s://3" in kept)
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await until(lambda: kept == {"s://1"})


async def test_a_listener_that_is_cancelled_while_it_leaves_leaves_nevertheless() -> None:
    """All its subscriptions end."""
    server, kept = subscribing()
    ending = server.replies["resources/unsubscribe"]
    server.replies["resources/unsubscribe"] = lambda _: None
    async with Client(server, revision="2025-11-25") as client:
        listening = client.listen(uris=["s://1", "s://2"])
        await listening.__aenter__()
        leaving = asyncio.create_task(listening.__aexit__())
        request = await server.request("resources/unsubscribe")
        leaving.cancel()
        with pytest.raises(asyncio.CancelledError):
            await leaving
        server.replies["resources/unsubscribe"] = ending
        server.send({"id": request["id"], "result": ending(request)})
        await until(lambda: not kept)


async def test_a_listener_leaves_although_the_server_ends_no_subscription() -> None:
    """There is nothing that its caller could do about it."""
    server, _ = subscribing()
    del server.replies["resources/unsubscribe"]
    async with Client(server, revision="2025-11-25") as client:
        async with client.listen(uris=["s://1", "s://2"]):
            pass
        asked = [each["params"]["uri"] for each in server.received if each.get("method") == "resources/unsubscribe"]
        assert asked == ["s://1", "s://2"]


def test_a_subscription_on_another_event_loop_is_refused() -> None:
    """Entering and leaving both end, and say what to do."""

    async def enter(client: Client) -> None:
        await client.listen(uris=["s://1"]).__aenter__()

    server, _ = subscribing()
    client = Client(server, revision="2025-11-25")
    loop = asyncio.new_event_loop()
    loop.run_until_complete(client.connect())
    listening = client.listen(uris=["s://2"])
    loop.run_until_complete(listening.__aenter__())
    with pytest.raises(LocalProtocolError, match="another event loop"):
        asyncio.run(asyncio.wait_for(enter(client), 10))
    asyncio.run(asyncio.wait_for(listening.__aexit__(), 10))
    loop.run_until_complete(client.close())
    loop.close()


async def test_a_client_that_is_closed_meanwhile_cancels_no_listener_that_leaves() -> None:
    """Only its connection ends."""
    server, _ = subscribing()
    server.replies["resources/unsubscribe"] = lambda _: None
    async with Client(server, revision="2025-11-25") as client:
        listening = client.listen(uris=["s://1"])
        await listening.__aenter__()
        leaving = asyncio.create_task(listening.__aexit__())
        await server.request("resources/unsubscribe")
        await client.close()
        await leaving


@pytest.mark.parametrize("revision", ERAS)
async def test_a_client_that_closes_ends_the_iteration(revision: str) -> None:
    """What came before can still be read."""
    server = shop()
    client = Client(server, revision=revision)
    await client.connect()
    async with client.listen(tools=True) as changes:
        server.tools.remove("buy")
        await client.ping()
        # The change is told in the next pass of the server's loop, and so after the reply to the first.
        await client.ping()
        await client.close()
        async with asyncio.timeout(30):
            assert [change.kind async for change in changes] == ["tools"]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_server_that_closes_ends_the_iteration(revision: str, caplog: pytest.LogCaptureFixture) -> None:
    """Without an error, and without a complaint about a task nobody looked at."""
    server = RawServer(subscriptions_listen=lambda _: None)

    def acknowledge(message: dict[str, Any]) -> None:
        acknowledgement = {"_meta": {"io.modelcontextprotocol/subscriptionId": message["id"]},
                           "notifications": message["params"]["notifications"]}  # fmt: skip
        server.send({"method": "notifications/subscriptions/acknowledged", "params": acknowledgement})

    server.replies["subscriptions/listen"] = acknowledge
    async with Client(server, revision=revision) as client, client.listen(tools=True) as changes:
        server.ending.set()
        async with asyncio.timeout(30):
            assert [change async for change in changes] == []
    gc.collect()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []


async def test_a_graceful_end_ends_the_iteration() -> None:
    """The server gives the stream its result."""
    server = shop()
    async with Client(server, revision="2026-07-28") as client, client.listen(tools=True) as changes:
        (peer,) = server._service.subscriptions._peers
        server._service.subscriptions.close(peer)
        async with asyncio.timeout(30):
            assert [change async for change in changes] == []
        await client.ping()


@pytest.mark.parametrize("revision", ERAS)
async def test_a_reader_that_is_slow_loses_the_oldest(revision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A change only says: look again."""
    monkeypatch.setattr(notifications, "MAX_WAITING", 3)
    server = shop()
    uris = [f"shop://{number}" for number in range(5)]
    async with Client(server, revision=revision) as client, client.listen(uris=uris) as changes:
        for uri in uris:
            server.resource_updated(uri)
        await client.ping()
        seen = [(await next_of(changes)).uri for _ in range(3)]
    assert seen == uris[2:]


@pytest.mark.parametrize("revision", ERAS)
async def test_a_subscription_is_used_once(revision: str) -> None:
    """The second time is a mistake, and is told."""
    async with Client(shop(), revision=revision) as client:
        listening = client.listen(tools=True)
        async with listening:
            with pytest.raises(LocalProtocolError, match="used already"):
                await listening.__aenter__()
        with pytest.raises(LocalProtocolError, match="used already"):
            await listening.__aenter__()


async def test_the_server_says_what_it_honours() -> None:
    """Which may be less than was asked for."""
    server = RawServer(subscriptions_listen=lambda _: None)

    def some(message: dict[str, Any]) -> None:
        meta = {"io.modelcontextprotocol/subscriptionId": message["id"]}
        params = {"_meta": meta, "notifications": {"toolsListChanged": True}}
        server.send({"method": "notifications/subscriptions/acknowledged", "params": params})

    server.replies["subscriptions/listen"] = some
    async with Client(server, revision="2026-07-28") as client:
        async with client.listen(tools=True, prompts=True) as changes:
            assert (changes.honoured.tools_list_changed, changes.honoured.prompts_list_changed) == (True, None)
        id = (await server.request("subscriptions/listen"))["id"]
        cancelled = await server.request("notifications/cancelled")
    assert cancelled["params"]["requestId"] == id


async def test_a_refused_subscription_raises_its_reason() -> None:
    """The server's own words."""
    server = RawServer(subscriptions_listen=lambda _: None)

    def refuse(message: dict[str, Any]) -> None:
        server.send({"id": message["id"], "error": {"code": -32600, "message": "Too many subscriptions"}})

    server.replies["subscriptions/listen"] = refuse
    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(InvalidRequest, match="Too many subscriptions"):
            await client.listen(tools=True).__aenter__()


async def test_a_server_that_never_acknowledges_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The stream is given up."""
    monkeypatch.setattr(notifications, "_ACKNOWLEDGE", 0.01)
    server = RawServer(subscriptions_listen=lambda _: None)
    async with Client(server, revision="2026-07-28") as client:
        with pytest.raises(CallTimeout, match="did not acknowledge"):
            await client.listen(tools=True).__aenter__()
        await server.request("notifications/cancelled")


async def test_an_entering_that_is_cancelled_leaves_no_stream_behind() -> None:
    """The server is told that nobody listens."""
    server = RawServer(subscriptions_listen=lambda _: None)
    async with Client(server, revision="2026-07-28") as client:
        entering = asyncio.create_task(client.listen(tools=True).__aenter__())
        await server.request("subscriptions/listen")
        entering.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entering
        await server.request("notifications/cancelled")
    assert server.received[-1]["method"] == "notifications/cancelled"


async def test_a_legacy_server_without_resources_cannot_be_subscribed_to() -> None:
    """It is told before anything is sent."""
    server = Server("s")
    server.tool(name="t")(lambda: "x")
    async with Client(server, revision="2025-11-25") as client:
        with pytest.raises(MethodNotFound):
            await client.listen(uris=["s://hat"]).__aenter__()


async def test_a_stranger_cannot_end_up_in_our_stream() -> None:
    """A message that carries another subscription's id is not for us."""
    server = RawServer(subscriptions_listen=lambda _: None)
    tag = "io.modelcontextprotocol/subscriptionId"

    def acknowledge(message: dict[str, Any]) -> None:
        meta = {tag: message["id"]}
        changed = {"method": "notifications/tools/list_changed"}
        server.send({**changed, "params": {"_meta": {tag: "another"}}})
        wanted = message["params"]["notifications"]
        server.send(
            {"method": "notifications/subscriptions/acknowledged", "params": {"_meta": meta, "notifications": wanted}}
        )
        server.send({**changed, "params": {"_meta": meta}})

    server.replies["subscriptions/listen"] = acknowledge
    async with Client(server, revision="2026-07-28") as client, client.listen(tools=True) as changes:
        assert (await next_of(changes)).kind == "tools"
        await client.ping()
        assert len(changes._changes) == 0


@pytest.mark.parametrize(("wanted", "why"), [({}, "say what to hear of"), ({"uris": "shop://hat"}, "uris= is a list")])
async def test_what_would_hear_nothing_is_an_error_at_once(wanted: Any, why: str) -> None:
    """Instead of a wait that never ends."""
    async with Client(shop()) as client:
        with pytest.raises(LocalProtocolError, match=why):
            client.listen(**wanted)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def page(ttl: int | None) -> ListToolsResult:
    """Make a result that may be kept for ``ttl`` milliseconds."""
    return ListToolsResult(tools=[], ttl_ms=ttl)


def test_a_result_is_kept_for_its_time() -> None:
    """At its end it is gone."""
    clock = Clock()
    cache, kept = Cache(clock), page(1_000)
    cache.put("tools/list", "", kept)
    clock.now = 0.999
    assert cache.get("tools/list", "") is kept
    clock.now = 1.0
    assert cache.get("tools/list", "") is None


def test_nothing_is_kept_without_leave() -> None:
    """No time, zero, or a nonsensical one: every request is made."""
    cache = Cache(Clock())
    for ttl in (None, 0, -5):
        cache.put("tools/list", "", page(ttl))
        assert cache.get("tools/list", "") is None


def test_no_result_is_kept_for_more_than_a_day() -> None:
    """Whatever the server says."""
    clock = Clock()
    cache = Cache(clock)
    cache.put("tools/list", "", page(10**15))
    clock.now = 86_399.0
    assert cache.get("tools/list", "") is not None
    clock.now = 86_400.0
    assert cache.get("tools/list", "") is None


def test_subjects_are_apart() -> None:
    """Another page is another result."""
    cache = Cache(Clock())
    cache.put("tools/list", "a", page(1_000))
    assert cache.get("tools/list", "b") is None


def test_a_change_clears_its_kind() -> None:
    """All pages of a list go, or one subject only."""
    cache = Cache(Clock())
    for method, subject in (("tools/list", ""), ("tools/list", "2"), ("resources/read", "a"), ("resources/read", "b")):
        cache.put(method, subject, page(1_000))
    cache.drop("tools/list")
    cache.drop("resources/read", subject="a")
    assert cache.get("tools/list", "") is None
    assert cache.get("tools/list", "2") is None
    assert cache.get("resources/read", "a") is None
    assert cache.get("resources/read", "b") is not None


def test_the_oldest_makes_room() -> None:
    """A server with many resources does not fill the memory."""
    cache = Cache(Clock())
    for number in range(MAX_ENTRIES + 1):
        cache.put("resources/read", str(number), page(1_000))
    assert cache.get("resources/read", "0") is None
    assert cache.get("resources/read", "1") is not None
