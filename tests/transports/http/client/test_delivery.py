"""Messages that get no reply."""

from __future__ import annotations

import asyncio
import logging

import pytest
from aiohttp import web

from antiphon.transports.http.client.channel import HttpClientChannel
from antiphon.transports.http.client.failures import SessionGone
from tests.support.web import ask, legacy, opened, receive, serving, tell


async def test_an_answer_is_posted_again_when_the_connection_breaks():
    """The server waits for it; to receive it twice harms nobody."""
    tries = iter(range(9))

    async def answers(request, seen):
        if next(tries) == 0:
            request.transport.abort()
        return web.Response(status=202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(site.url)
        channel.send(type(ask(1))(b'{"jsonrpc":"2.0","id":3,"result":{}}'))
        await site.until(lambda _: len(site.seen) == 2)
        await channel.close()
    assert site.seen[0].body == site.seen[1].body


@pytest.mark.parametrize("status", [502, 503, 504])
async def test_an_answer_is_posted_again_when_its_server_dies(status):
    """A proxy says so; the next server takes it."""
    tries = iter(range(9))

    async def answers(request, seen):
        return web.Response(status=status if next(tries) == 0 else 202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(site.url)
        channel.send(type(ask(1))(b'{"jsonrpc":"2.0","id":3,"result":{}}'))
        await site.until(lambda _: len(site.seen) == 2)
        await channel.close()
    assert site.seen[0].body == site.seen[1].body


async def test_many_messages_without_a_reply_make_the_sender_wait():
    """A server that asks faster than it takes answers cannot make us hold them all."""
    go = asyncio.Event()

    async def answers(request, seen):
        await go.wait()
        return web.Response(status=202)

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(site.url)
        waits = [channel.send(tell("n")) for _ in range(70)]
        assert waits[0] is None
        assert waits[-1] is not None
        go.set()
        await waits[-1]
        await channel.close()


async def test_a_refused_notification_is_logged(caplog):
    """Nobody waits for it, but somebody may look for it."""

    async def answers(request, seen):
        return web.Response(status=500, text="broken")

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(site.url)
        with caplog.at_level(logging.WARNING):
            channel.send(tell("notifications/progress"))
            await channel.close()
    assert "notifications/progress" in caplog.text
    assert "500" in caplog.text


async def test_a_session_that_is_gone_shows_in_a_notification():
    """Whichever message meets the 404."""
    base = legacy()

    async def answers(request, seen):
        if seen.body and seen.body.get("method") == "notifications/roots/list_changed":
            return web.Response(status=404)
        return await base(request, seen)

    async with serving(answers) as site:
        channel = await opened(site)
        channel.send(tell("notifications/roots/list_changed"))
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        await channel.close()


async def test_notifications_make_no_frame():
    """Whatever comes back for them."""

    async def answers(request, seen):
        if "id" in seen.body:
            return web.json_response({"jsonrpc": "2.0", "id": 1, "result": {}})
        return web.json_response({"jsonrpc": "2.0", "method": "odd"})

    async with serving(answers) as site:
        channel = await HttpClientChannel.open(site.url)
        await asyncio.sleep(0)
        channel.send(tell("notifications/progress"))
        await site.until(lambda seen: "id" not in seen.body)
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()
