"""The stream for what belongs to no request of ours."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp import web

from antiphon.transports.http.client.failures import SessionGone
from tests.support.web import ask, event, legacy, opened, receive, serving, stream


async def test_what_comes_unasked_arrives_on_the_listening_stream():
    """It is open before the first request goes out, and goes on after its last event when it breaks."""
    poke = {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}

    async def get(request, seen):
        if "Last-Event-ID" in seen.headers:
            assert seen.headers["Last-Event-ID"] == "g1"
            await stream(request, event({**poke, "again": True}))
            await asyncio.Event().wait()
        return await stream(request, event(poke, id="g1", retry=1))

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        assert [seen.method for seen in site.seen] == ["POST", "POST", "GET"]
        assert await receive(channel, 2) == [poke, {**poke, "again": True}]
        await channel.close()


@pytest.mark.parametrize("status", [400, 404, 405, 500, 204])
async def test_a_server_without_a_listening_stream_is_fine(status):
    """It need not offer one, however it says so."""

    async def get(request, seen):
        return web.Response(status=status)

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        channel.send(ask(1))
        assert (await receive(channel))[0]["id"] == 1
        await channel.close()
    assert [seen.method for seen in site.seen].count("GET") == 1


async def test_a_session_that_is_gone_shows_on_the_listening_stream():
    """A restart of the server is noticed without a call."""
    gets = iter(range(9))

    async def get(request, seen):
        return web.Response(status=404) if next(gets) else await stream(request, event(None, retry=1))

    async with serving(legacy(get=get)) as site:
        channel = await opened(site)
        assert await channel.receive() == []
        assert isinstance(channel.closed_error(), SessionGone)
        await channel.close()
