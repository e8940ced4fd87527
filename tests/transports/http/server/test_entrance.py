"""What a gate says to a request, as HTTP; the whole of it is in ``tests/auth/server``."""

from __future__ import annotations

import asyncio
import time

import pytest

from antiphon.protocol.caller import Caller
from antiphon.transports.http.server.entrance import expiry
from tests.auth.server.protected import protected
from tests.support.network import until


async def test_what_ends_with_a_token_is_called_then():
    """At once for one that has ended already, and never for one of which nobody knows when."""
    called = []
    assert expiry(None, called.append) is None
    assert expiry(Caller("ann"), called.append) is None
    expiry(Caller("ann", expires=time.time() - 1), lambda: called.append("over"))
    late = expiry(Caller("ann", expires=1e18), lambda: called.append("late"))
    await until(lambda: called)
    assert late is not None
    assert called == ["over"]
    assert late.when() - asyncio.get_running_loop().time() < 32 * 86_400
    late.cancel()


@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
async def test_a_document_is_only_read(method):
    """With the method that is allowed."""
    async with protected() as server:
        url = f"{server.origin}/.well-known/oauth-protected-resource"
        answer = await server.send(method, url, {"host": "localhost"})
    assert (answer.status, answer.headers["allow"]) == (405, "GET")
