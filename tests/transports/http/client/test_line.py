"""What the requests of one channel say of the session."""

from __future__ import annotations

import pytest
from aiohttp import ClientSession
from yarl import URL

from antiphon.errors import LocalProtocolError
from antiphon.transports.http.client.failures import HttpFailure
from antiphon.transports.http.client.http_request import Web
from antiphon.transports.http.client.line import Line
from antiphon.transports.http.client.message import Outgoing


@pytest.fixture
async def line():
    """A line to nowhere: nothing is sent."""
    async with ClientSession() as session:
        yield Line(Web(URL("http://localhost/mcp"), session), max_frame=1000, on_gone=lambda: None)


async def test_the_era_is_that_of_the_last_message_that_says_it(line):
    """A notification names no revision; the handshake ends the modern era."""
    assert not line.notice(Outgoing(id=1, method="tools/list"))
    assert line.notice(Outgoing(id=1, method="tools/list", version="2026-07-28"))
    assert line.notice(Outgoing(method="notifications/progress"))
    headers = line.post_headers(Outgoing(method="notifications/progress"))
    assert (headers["Mcp-Method"], headers["MCP-Protocol-Version"]) == ("notifications/progress", "2026-07-28")
    assert not line.notice(Outgoing(id=2, method="initialize"))
    assert "Mcp-Method" not in line.post_headers(Outgoing(id=3, method="tools/list"))


@pytest.mark.parametrize("version", ["2025-06-18\\r\\nX: y", " ", "ä"])
async def test_a_revision_that_fits_no_header_is_not_named(line, version):
    """The session refuses it anyway."""
    line.agreed(b'{"id":1,"result":{"protocolVersion":"%b"}}' % version.encode())
    assert line.session_headers() == {}


async def test_a_mirrored_argument_that_does_not_fit_fails_its_call(line):
    """As invalid params."""

    def compute(tool, arguments):
        raise LocalProtocolError("too large")

    line.param_headers = compute
    message = Outgoing(id=1, method="tools/call", version="2026-07-28", name="t")
    line.notice(message)
    with pytest.raises(HttpFailure, match="too large") as failed:
        line.post_headers(message)
    assert failed.value.code == -32602


async def test_losing_the_session_is_said_once(line):
    """Several requests meet the same 404."""
    said = []
    line._on_gone = lambda: said.append(1)
    line.lose_session()
    line.lose_session()
    assert said == [1] and line.is_gone
