"""Requests find their handlers and replies their callers, whatever a handler does."""

from __future__ import annotations

import asyncio

import pytest
from msgspec import Raw

from antiphon.channel import Frame
from antiphon.engine.connection import LATER
from antiphon.errors import InternalError, InvalidParams, InvalidRequest, PeerError, Rejected, RemoteProtocolError
from antiphon.wire.content import AudioContent
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, LEGACY, REVISIONS
from antiphon.wire.tools import CallToolResult, ListToolsResult
from tests.support.linked import done, linked, settle
from tests.support.pair import decoded, frame


async def echo(request, _peer):
    """Return the tool's name."""
    return done(request.params.name)


# --- handlers and replies -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("revision", REVISIONS)
async def test_a_call_is_answered(revision):
    """In every revision."""
    async with linked(echo, revision=revision) as link:
        assert await link.call("hello") == "hello"
        link.check_empty()


async def test_a_handler_may_be_a_plain_function():
    """Where there is nothing to wait for."""
    async with linked({"tools/list": lambda _request, _peer: ListToolsResult(tools=[])}) as link:
        assert decoded(bytes(await link.client.request(link.open("tools/list")))) == {"tools": []}


@pytest.mark.parametrize("revision", [LATEST_LEGACY, LATEST])
async def test_a_result_may_come_encoded(revision):
    """As it will be sent, but for what the session adds."""
    async with linked(lambda _request, _peer: Raw(b'{"content":[]}'), revision=revision) as link:
        sent = decoded(bytes(await link.client.request(link.open())))
        assert sent["content"] == []
        assert ("resultType" in sent) is revision.modern


@pytest.mark.requirement("base.reply-same-id")
async def test_many_calls_at_once_get_each_its_own_reply():
    """In whatever order the handlers end."""
    turns = [asyncio.Event() for _ in range(100)]

    async def tool(request, _peer):
        await turns[int(request.params.name)].wait()
        return done(request.params.name)

    async with linked(tool) as link:
        calls = [link.started(str(number)) for number in range(100)]
        await settle()
        for turn in reversed(turns):
            turn.set()
        assert await asyncio.gather(*calls) == [str(number) for number in range(100)]
        link.check_empty()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("error", [InvalidParams("here", data=[1]), Rejected("no"), PeerError("own", code=1234)])
async def test_a_peer_error_of_a_handler_is_the_reply(error, waits):
    """Before and after it has waited."""

    async def tool(_request, _peer):
        await asyncio.sleep(0) if waits else None
        raise error

    async with linked(tool) as link:
        with pytest.raises(type(error)) as caught:
            await link.call()
        assert (caught.value.code, caught.value.message, caught.value.data) == (error.code, error.message, error.data)
        assert caught.value.remote


@pytest.mark.parametrize("waits", [False, True])
async def test_any_other_exception_is_an_internal_error(waits, errors):
    """The peer hears nothing of it, the log everything."""

    async def tool(_request, _peer):
        await asyncio.sleep(0) if waits else None
        raise ValueError("the password is 1234")

    async with linked(tool) as link:
        with pytest.raises(InternalError, match=r"^Internal error") as caught:
            await link.call()
        assert "1234" not in str(caught.value)
    assert "1234" in str(errors.records[0].exc_info)


async def test_a_method_without_a_handler_is_an_internal_error(errors):
    """The table and the capabilities of the server do not agree: our mistake, not the peer's."""
    async with linked({}) as link:
        with pytest.raises(InternalError):
            await link.call()
    assert len(errors.records) == 1


@pytest.mark.parametrize(
    "result",
    [
        CallToolResult(content=[], structured_content=object()),
        CallToolResult(content=[], structured_content={"a": object()}),
    ],
)
async def test_a_result_that_cannot_be_encoded_is_an_internal_error(result, errors):
    """The connection goes on."""

    async def tool(request, _peer):
        return result if request.params.name == "bad" else done()

    async with linked(tool) as link:
        with pytest.raises(InternalError):
            await link.call("bad")
        assert await link.call("good") == "done"
    assert len(errors.records) == 1


async def test_an_error_that_cannot_be_encoded_is_an_internal_error():
    """Also where a handler raises it."""

    async def tool(request, _peer):
        if request.params.name == "bad":
            raise InvalidParams("x", data=object())
        return done()

    async with linked(tool) as link:
        with pytest.raises(InternalError):
            await link.call("bad")
        assert await link.call("good") == "done"


async def test_a_result_the_revision_cannot_carry_is_an_error_that_says_so():
    """Audio is younger than the first revision."""

    async def tool(_request, _peer):
        return CallToolResult(content=[AudioContent(data="aGk=", mime_type="audio/wav")])

    async with linked(tool, revision=LEGACY[0]) as link:
        with pytest.raises(InternalError, match="Audio"):
            await link.call()


async def test_a_handler_that_returns_no_result_is_an_internal_error(errors):
    """None, or something that is not a wire type."""

    async def tool(_request, _peer):
        return object()

    async with linked(tool) as link:
        with pytest.raises(InternalError):
            await link.call()
    assert len(errors.records) == 1


async def test_a_handler_that_raises_cancelled_by_itself_is_answered():
    """Something it awaited was cancelled, but nobody has withdrawn the request."""

    async def tool(request, _peer):
        if request.params.name == "at once":
            raise asyncio.CancelledError
        future = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().call_soon(future.cancel)
        await future

    async with linked(tool) as link:
        for name in ("at once", "later"):
            with pytest.raises(InternalError, match="abandoned"):
                await link.call(name)
        link.check_empty()


# --- limits and bad input -------------------------------------------------------------------------------------------


async def test_more_requests_than_allowed_are_refused_and_reading_goes_on():
    """-32600 at once, so that the replies behind them are still heard."""
    go = asyncio.Event()

    async def tool(request, _peer):
        await go.wait()
        return done(request.params.name)

    async with linked(tool, server={"max_served": 5}) as link:
        served = [link.started(str(number)) for number in range(5)]
        await settle()
        for _ in range(3):
            with pytest.raises(InvalidRequest, match="Too many requests at once: 5"):
                await link.call("one more")
        go.set()
        assert len(await asyncio.gather(*served)) == 5
        assert await link.call("again") == "again"


async def test_handlers_that_clean_up_for_long_still_count():
    """A peer cannot pile up work by cancelling what it has begun."""
    go, running = asyncio.Event(), []

    async def tool(request, _peer):
        running.append(request.id)
        try:
            await asyncio.Event().wait()
        finally:
            await go.wait()

    async with linked(tool, server={"max_served": 4}) as link:
        for _ in range(4):
            call = link.started()
            await settle()
            call.cancel()
            await asyncio.wait([call])
        await settle()
        with pytest.raises(InvalidRequest, match="Too many"):
            await link.call()
        assert len(running) == 4
        go.set()


async def test_a_reply_that_cannot_be_read_fails_its_call_at_once():
    """Instead of leaving it to its deadline, or for ever."""

    def tool(request, peer):
        peer.channel.send(Frame(b'{"jsonrpc":"2.0","id":%d,"error":{"code":"x"}}' % request.id))
        return LATER

    async with linked(tool) as link:
        with pytest.raises(RemoteProtocolError, match="tools/call cannot be read"):
            await link.call()


async def test_what_has_no_effect_is_counted():
    """Late replies, unknown notifications."""
    async with linked(echo) as link:
        for data in (frame(id=99, result={}), frame(method="notifications/unknown"), frame(method="tools/list")):
            link.client.channel.send(Frame(data))
        await link.call()
        assert link.server.ignored == 3
