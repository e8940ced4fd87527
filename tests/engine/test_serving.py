"""The peer's requests as a part of its own; what a connection does with it is in ``test_handlers``."""

from __future__ import annotations

import asyncio

import pytest

from antiphon.engine.serving import LATER
from antiphon.errors import InternalError
from antiphon.protocol.events import Request
from tests.support.linked import done, linked, settle


async def test_it_is_busy_as_long_as_a_reply_is_to_come():
    """And idle once it was given, by whomever."""
    held: list[Request] = []

    def tool(request, _peer):
        held.append(request)
        return LATER

    async with linked(tool) as link:
        call = link.started()
        await settle()
        assert link.server.serving.is_busy()
        waiting = asyncio.ensure_future(link.server.serving.wait_idle())
        await settle()
        assert not waiting.done()
        link.server.reply(held[0], done())
        await waiting
        assert await call == "done"


async def test_without_requests_nobody_waits_for_it_to_be_idle():
    """It is idle already."""
    async with linked(lambda _request, _peer: done()) as link:
        await link.server.serving.wait_idle()
        assert not link.server.serving.is_busy()


class Aside(BaseException):
    """No ``Exception``: what test runners raise to get past those who catch all of them."""


@pytest.mark.parametrize("kind", [Aside, GeneratorExit])
@pytest.mark.parametrize("waits", [False, True])
async def test_whatever_a_handler_raises_the_peer_is_answered(kind: type[BaseException], waits: bool):
    """And the connection goes on: the next request is served."""
    raised: list[bool] = []

    async def tool(_request, _peer):
        if waits:
            await asyncio.sleep(0)
        if not raised:
            raised.append(True)
            raise kind
        return done()

    async with linked(tool) as link:
        with pytest.raises(InternalError, match="Internal error"):
            await link.started()
        assert await link.started() == "done"
