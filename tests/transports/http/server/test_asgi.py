"""Headers as handlers see them, and whole responses."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.http.rules import Refusal
from antiphon.transports.http.server.asgi import (
    AtOnce,
    Http,
    RequestHeaders,
    refuse,
    send_empty,
    send_json,
    unavailable,
)
from tests.transports.http.server.driver import Response, scope_of


def test_headers_are_found_in_any_case():
    """As HTTP has it."""
    headers = RequestHeaders({b"x-request-id": b"caf\xe9"})
    assert headers["X-Request-ID"] == "café"
    assert dict(headers) == {"x-request-id": "café"}
    assert len(headers) == 1
    assert headers.get("\u4e2d") is None
    with pytest.raises(KeyError):
        headers["other"]


@pytest.mark.parametrize(("version", "has_id"), [("2025-11-25", False), ("2025-06-18", True)])
async def test_a_refusal_is_a_json_rpc_error(version, has_id):
    """Without an id, or with null, as the revision wants."""
    response = Response()
    http = Http(scope_of("POST", {"mcp-protocol-version": version}), response.take, response.take)
    await refuse(http, Refusal(400, InvalidRequest("no")))
    assert (response.status, response.json["error"]) == (400, {"code": -32600, "message": "no"})
    assert ("id" in response.json) is has_id
    assert response.headers["content-length"] == str(len(response.body))


async def test_unavailable_says_when_to_come_back():
    """503 with Retry-After."""
    response = Response()
    await unavailable(Http(scope_of("POST", {}), response.take, response.take), "busy")
    assert (response.status, response.headers["retry-after"]) == (503, "5")


async def test_an_empty_response_says_so():
    """So that the connection can be used again."""
    response = Response()
    await send_empty(Http(scope_of("POST", {}), response.take, response.take), 202)
    assert (response.status, response.headers, response.body) == (202, {"content-length": "0"}, b"")


class Server(AtOnce):
    """Sends whole responses in one step, if it can."""

    def __init__(self, *, can):
        self.can = can
        self.sent = []
        self.messages = []

    async def send(self, message):
        self.messages.append(message["type"])

    def respond(self, status, headers, body):
        if self.can:
            self.sent.append((status, headers, body))
        return self.can


async def test_a_server_that_can_is_given_the_whole_response():
    """In one step, and not as messages as well."""
    server = Server(can=True)
    await send_json(Http(scope_of("POST", {}), server.send, server.send, server), 200, b"{}", ((b"a", b"b"),))
    assert server.sent == [(200, ((b"content-type", b"application/json"), (b"a", b"b")), b"{}")]
    assert not server.messages


@pytest.mark.parametrize("is_wrapped", [False, True])
async def test_what_cannot_be_sent_at_once_goes_in_messages(is_wrapped):
    """Because the server is busy, or because somebody wants to see every message."""
    server = Server(can=is_wrapped)
    http = Http(scope_of("POST", {}), server.send, server.send, server)
    if is_wrapped:
        http.answer_through(server.send)
    await send_empty(http, 202)
    assert not server.sent
    assert server.messages == ["http.response.start", "http.response.body"]


def test_another_server_can_do_nothing_at_once():
    """Plain ASGI is enough."""
    response = Response()
    nothing = Http(scope_of("POST", {}), response.take, response.take).at_once
    assert nothing.take_body(10) is None
    assert (nothing.respond(200, (), b""), nothing.begin(200, ()), nothing.write(b"", last=True)) == (False,) * 3
