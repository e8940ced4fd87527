"""The one look at a message that HTTP needs."""

from __future__ import annotations

import json

import pytest
from aiohttp import web

from antiphon import Client, ConnectionClosed, PeerError, Unauthorized
from antiphon.transports.http.client.error_replies import Dial, http_status
from antiphon.transports.http.client.message import (
    OutgoingMessage,
    RefusedRequest,
    error_of,
    find_agreed_version,
    look_at,
    replies_to,
)
from antiphon.transports.sse.client import SseClientChannel
from antiphon.wire.envelope import ErrorObject
from tests.support.web import serving

META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', OutgoingMessage(id=1, method="ping")),
        (
            b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":{"x":1},%b}}' % META,
            OutgoingMessage(id="a", method="tools/call", version="2026-07-28", name="t", arguments=b'{"x":1}'),
        ),
        (
            b'{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"u","name":"n"}}',
            OutgoingMessage(id=2, method="resources/read", name="u"),
        ),
        (
            b'{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{"name":"n","arguments":{}}}',
            OutgoingMessage(id=2, method="prompts/list"),
        ),
        (
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
            OutgoingMessage(method="notifications/cancelled", cancels=7),
        ),
        (
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}',
            OutgoingMessage(id=1, method="tools/call"),
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}', OutgoingMessage(id=1, method="x")),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', OutgoingMessage()),
        (b'[{"jsonrpc":"2.0","id":1,"result":{}}]', OutgoingMessage()),
    ],
)
def test_what_goes_out_is_looked_at_once(data, seen):
    """Id, method, era, name, arguments, and what a cancel is about."""
    assert look_at(data) == seen


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b'{"id":7,"result":{}}', True),
        (b'{"id":7,"error":{}}', True),
        (b' [{"id":1,"result":{}},{"id":7,"result":{}}]', True),
        (b'{"id":"7","result":{}}', True),
        (b'{"id":7,"method":"ping"}', False),
        (b'{"method":"x"}', False),
        (b"[1]", False),
        (b"nonsense", False),
        (b'{"id":7', False),
        (b"\xff", False),
    ],
)
def test_a_reply_is_recognised_by_its_id(data, answer):
    """A request of the server's with the same id is none; what cannot be read is none."""
    assert replies_to(data, 7) is answer


def test_the_agreed_revision_is_read_from_the_reply():
    """Or it is unknown."""
    assert find_agreed_version(b'{"id":1,"result":{"protocolVersion":"2025-06-18","x":1}}') == "2025-06-18"
    assert find_agreed_version(b'{"id":1,"result":{"protocolVersion":5}}') is None
    assert find_agreed_version(b'{"id":1,"error":{"code":1,"message":""}}') is None


def test_the_body_of_a_refusal_may_be_an_error():
    """Only what has its form is one."""
    found = error_of(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"a":1}}}')
    assert found is not None and (found.code, found.data) == (-32022, {"a": 1})
    assert error_of(b'{"error":"invalid_token"}') is None
    assert error_of(b"") is None


def refusal(status, error=None, **members):
    """A refusal as it was read."""
    return RefusedRequest(where="http://h/mcp", status=status, reason="No", said="said", error=error, **members)


ERROR = ErrorObject(code=-32001, message="token \x1bexpired\nTraceback", data={"a": 1})


@pytest.mark.parametrize("status", [400, 404, 405, 409, 500])
def test_an_error_in_the_body_says_more_than_most_statuses(status):
    """It is the reply."""
    reply = json.loads(refusal(status, ERROR).reply(7))
    assert (reply["id"], reply["error"]["code"], reply["error"]["data"]) == (7, -32001, {"a": 1})


@pytest.mark.parametrize("status", [401, 403, 407])
def test_a_status_that_does_not_let_us_in_says_more_than_its_body(status):
    """Status, address and remedy; of the body what can be shown."""
    error = json.loads(refusal(status, ERROR).reply(7))["error"]
    assert error["code"] == error["data"]["httpStatus"] == status
    assert error["message"].startswith(f"http://h/mcp answered HTTP {status} No: token expired (")
    assert "Traceback" not in error["message"]


@pytest.mark.parametrize("status", [429, 503])
def test_a_refusal_says_when_the_server_takes_the_request_again(status):
    """A program reads it from the data, a person from the message."""
    refused = RefusedRequest(where="x", status=status, reason="No", said="slow", error=None, retry_after="30")
    error = json.loads(refused.reply(7))["error"]
    assert error["message"] == f"x answered HTTP {status} No: slow (Retry-After: 30)"
    assert error["data"] == {"httpStatus": status, "retryAfter": "30"}


def test_a_session_that_is_gone_outweighs_the_body():
    """It can be opened anew."""
    error = json.loads(refusal(404, ERROR, has_session=True).reply(7))["error"]
    assert (error["code"], error["data"]["sessionGone"]) == (404, True)


@pytest.mark.parametrize("revision", ["auto", "2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(
    ("status", "hint"), [(401, "Authorization: Bearer ..., with --header or headers="), (403, "headers=")]
)
async def test_whoever_connects_is_told_what_to_pass(revision, status, hint):
    """Over every ladder, at once, though a JSON-RPC error came with the status."""

    async def answers(request, seen):
        error = {"code": -32001, "message": "who are you?"}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=status)

    async with serving(answers) as site:
        with pytest.raises(PeerError) as raised:
            await Client(site.url, revision=revision).connect()
    assert http_status(raised.value) == status
    assert all(part in str(raised.value) for part in (site.url, f"HTTP {status}", "who are you?", hint))
    assert len(site.seen) == 1


async def test_the_oldest_transport_says_the_same():
    """When its stream is refused."""

    async def answers(request, seen):
        error = {"code": -32001, "message": "who are you?"}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=401)

    async with serving(answers) as site:
        with pytest.raises(Unauthorized, match=r"HTTP 401 Unauthorized: who are you\?.*Authorization"):
            await SseClientChannel.open(Dial(url=site.url))


@pytest.mark.parametrize(("status", "error"), [(401, Unauthorized), (403, ConnectionClosed)])
async def test_a_websocket_says_the_same(status, error):
    """When its handshake is refused; only 401 is always about who comes."""

    async def answers(request, seen):
        return web.Response(status=status)

    async with serving(answers) as site:
        with pytest.raises(error, match=f"HTTP {status}.*headers="):
            await Client(site.url.replace("http", "ws", 1)).connect()
