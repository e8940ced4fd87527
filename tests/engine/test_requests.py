"""Our own requests as a part of its own; what a connection does with it is in ``test_asks`` and ``test_connection``."""

from __future__ import annotations

import pytest

from antiphon.errors import ConnectionClosed, LocalProtocolError
from antiphon.protocol.events import Request
from tests.support.linked import done, linked, settle


async def test_a_request_after_the_end_is_not_sent():
    """And is in no table."""
    async with linked(lambda _request, _peer: done()) as link:
        outgoing = link.open()
        await link.client.close()
        with pytest.raises(ConnectionClosed):
            await link.client.asking.request(outgoing, None, None)
        link.check_empty()


async def test_a_request_that_is_given_up_fails_with_the_reason():
    """The peer is told to stop, as well."""
    stopped: list[Request] = []

    async def tool(request, _peer):
        stopped.append(request)
        await settle(200)
        return done()

    async with linked(tool) as link:
        call = link.started()
        await settle()
        link.client.asking.abandon(next(iter(link.client.session.outgoing)), LocalProtocolError("enough"))
        with pytest.raises(LocalProtocolError, match="enough"):
            await call
        await settle()
        assert stopped[0].cancelled
