"""Headers as handlers see them, and whole responses."""

from __future__ import annotations

import pytest

from antiphon.errors import InvalidRequest
from antiphon.protocol.http.rules import HttpRefusal
from antiphon.transports.http.server.asgi import Http, RequestHeaders, send_refusal, send_response, send_unavailable
from tests.transports.http.server.driver import Response, scope_of


def test_whitespace_around_a_value_is_no_part_of_it():
    """RFC 9110, section 5.5. HTTP servers leave it in what they hand over."""
    http = Http({**scope_of("POST", {}), "headers": [(b"mcp-session-id", b"s1 \t"), (b"x", b"a b")]}, None, None)
    assert http.headers == {b"mcp-session-id": b"s1", b"x": b"a b"}


def test_several_lines_of_accept_are_one_list():
    """RFC 9110, section 5.3. Clients in Java send one for each type."""
    lines = [(b"accept", b"application/json"), (b"x", b"a"), (b"accept", b"text/event-stream"), (b"x", b"b")]
    http = Http({**scope_of("POST", {}), "headers": lines}, None, None)
    assert http.headers == {b"accept": b"application/json, text/event-stream", b"x": b"b"}
    assert len(http.pairs) == len(lines)


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
    await send_refusal(http, HttpRefusal(400, InvalidRequest("no")))
    assert (response.status, response.json["error"]) == (400, {"code": -32600, "message": "no"})
    assert ("id" in response.json) is has_id
    assert response.headers["content-length"] == str(len(response.body))


async def test_unavailable_says_when_to_come_back():
    """503 with Retry-After."""
    response = Response()
    await send_unavailable(Http(scope_of("POST", {}), response.take, response.take), "busy")
    assert (response.status, response.headers["retry-after"]) == (503, "5")


async def test_an_empty_response_says_so():
    """So that the connection can be used again."""
    response = Response()
    await send_response(Http(scope_of("POST", {}), response.take, response.take), 202)
    assert (response.status, response.headers, response.body) == (202, {"content-length": "0"}, b"")


async def test_headers_that_were_added_are_in_the_response():
    """Whoever sends it."""
    response = Response()
    http = Http(scope_of("POST", {}), response.take, response.take)
    http.extra += ((b"vary", b"Origin"),)
    await send_response(http, 202)
    assert response.headers == {"content-length": "0", "vary": "Origin"}


@pytest.mark.parametrize(
    ("path", "root", "local"), [("/mcp", "", "/mcp"), ("/a/mcp", "/a", "/mcp"), ("/mcp", "/a", "/mcp")]
)
def test_a_path_is_that_below_the_mount(path, root, local):
    """ASGI leaves the prefix in the path; a proxy may have taken it away."""
    response = Response()
    assert Http(scope_of("GET", {}, path, root_path=root), response.take, response.take).local_path == local
