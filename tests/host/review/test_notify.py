"""The webhook: it says that something waits, never what; it is bounded, and its failures are nobody else's."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from antiphon.host import Host, MemoryStore, Queue, Scripted
from antiphon.host.review.notify import MIN_PAUSE, Webhook
from tests.host.asks import origin, request
from tests.support.linked import settle

URL = "https://hooks.example/T0/SECRET"


class Sent:
    """Takes what is sent, when it may."""

    def __init__(self, fault: Exception | None = None) -> None:
        self.bodies: list[dict[str, object]] = []
        self.news = asyncio.Event()
        self.free = asyncio.Event()
        self.free.set()
        self._fault = fault

    async def __call__(self, url: str, body: bytes) -> None:
        assert url == URL
        self.bodies.append(json.loads(body))
        self.news.set()
        await self.free.wait()
        if self._fault is not None:
            raise self._fault

    async def next(self) -> dict[str, object]:
        await self.news.wait()
        self.news.clear()
        return self.bodies[-1]


class Clock:
    """Time that passes by itself, so that nothing has to be waited for."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        self.now += MIN_PAUSE
        return self.now


async def test_it_says_that_something_waits_and_never_what():
    """Words and figures of our own; nothing of the prompt, the server, its call or its arguments."""
    sent, store = Sent(), MemoryStore()
    queue = Queue(store, notify=Webhook(URL, send=sent, clock=Clock()))
    host = Host(Scripted(["ok"]), reviewer=queue, store=store)
    asked = asyncio.create_task(host(request("Describe SWEATER", system_prompt="PROMPT"), origin()))
    said = await sent.next()
    [question] = await queue.pending()
    assert said == {
        "text": "Antiphon: a server asks for a completion",
        "event": "review",
        "kind": "request",
        "id": question.id,
        "count": 1,
    }
    asked.cancel()
    await asyncio.wait([asked])


async def test_one_request_at_a_time_and_one_more_for_all_that_came_meanwhile():
    """A thousand questions are two notices."""
    sent = Sent()
    sent.free.clear()
    webhook = Webhook(URL, send=sent, clock=Clock())
    webhook("request", "first")
    await sent.next()
    for number in range(1_000):
        webhook("elicitation", str(number))
    sent.free.set()
    said = await sent.next()
    assert (said["count"], said["id"], said["text"]) == (
        1_000,
        "999",
        "Antiphon: a server asks you something (1000 questions)",
    )
    assert len(sent.bodies) == 2
    await webhook.aclose()


async def test_a_failure_is_logged_without_the_address(caplog: pytest.LogCaptureFixture):
    """The address is a secret as often as not; the next notice is tried all the same."""
    sent = Sent(OSError(f"cannot reach {URL}"))
    webhook = Webhook(URL, send=sent, clock=Clock())
    with caplog.at_level(logging.WARNING, "antiphon.host"):
        webhook("request", "1")
        await sent.next()
        webhook("request", "2")
        await sent.next()
    await webhook.aclose()
    assert "OSError" in caplog.text
    assert "SECRET" not in caplog.text


async def test_what_was_not_sent_is_given_up_at_the_end():
    """A slow address holds nobody up."""
    sent = Sent()
    sent.free.clear()
    webhook = Webhook(URL, send=sent, clock=Clock())
    webhook("tool", "1")
    await sent.next()
    webhook("tool", "2")
    await webhook.aclose()
    await webhook.aclose()
    sent.free.set()
    await settle()
    assert len(sent.bodies) == 1


@pytest.mark.parametrize(
    ("status", "faults"), [("204 No Content", 0), ("302 Found\r\nLocation: /else", 1), ("500 No", 1)]
)
async def test_it_is_posted_over_http(status: str, faults: int, caplog: pytest.LogCaptureFixture):
    """As JSON, to the address and nowhere else: a redirect is not followed."""
    heard: list[bytes] = []
    done = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        heard.append(head + await reader.readexactly(length))
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n".encode())
        await writer.drain()
        writer.close()
        done.set()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        webhook = Webhook(f"http://127.0.0.1:{port}/hook", clock=Clock())
        with caplog.at_level(logging.WARNING, "antiphon.host"):
            webhook("response", "7")
            await done.wait()
            task = webhook._task
            assert task is not None
            await task
    assert len(heard) == 1
    assert heard[0].startswith(b"POST /hook HTTP/1.1")
    assert json.loads(heard[0].partition(b"\r\n\r\n")[2])["id"] == "7"
    assert len(caplog.records) == faults
