"""What a server tells without being asked."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from antiphon import Client
from antiphon.client.features.notifications import Change, Notices
from antiphon.wire.logging import LoggingMessageNotificationParams
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
    notices: Any = Notices(None)
    notices.remove(object())
    assert notices.uris == set()
    assert Change(kind="tools").uri is None
