"""The one look at a message that HTTP needs."""

from __future__ import annotations

import pytest

from antiphon.transports.http.client.message import Outgoing, agreed_version, error_of, look_at, replies_to

META = b'"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}'


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (b'{"jsonrpc":"2.0","id":1,"method":"ping"}', Outgoing(id=1, method="ping")),
        (
            b'{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"t","arguments":{"x":1},%b}}' % META,
            Outgoing(id="a", method="tools/call", version="2026-07-28", name="t", arguments=b'{"x":1}'),
        ),
        (
            b'{"jsonrpc":"2.0","id":2,"method":"resources/read","params":{"uri":"u","name":"n"}}',
            Outgoing(id=2, method="resources/read", name="u"),
        ),
        (
            b'{"jsonrpc":"2.0","id":2,"method":"prompts/list","params":{"name":"n","arguments":{}}}',
            Outgoing(id=2, method="prompts/list"),
        ),
        (
            b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":7}}',
            Outgoing(method="notifications/cancelled", cancels=7),
        ),
        (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":5}}', Outgoing(id=1, method="tools/call")),
        (b'{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}', Outgoing(id=1, method="x")),
        (b'{"jsonrpc":"2.0","id":1,"result":{}}', Outgoing()),
        (b'[{"jsonrpc":"2.0","id":1,"result":{}}]', Outgoing()),
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
        (b'{"id":"7","result":{}}', False),
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
    assert agreed_version(b'{"id":1,"result":{"protocolVersion":"2025-06-18","x":1}}') == "2025-06-18"
    assert agreed_version(b'{"id":1,"result":{"protocolVersion":5}}') is None
    assert agreed_version(b'{"id":1,"error":{"code":1,"message":""}}') is None


def test_the_body_of_a_refusal_may_be_an_error():
    """Only what has its form is one."""
    found = error_of(b'{"jsonrpc":"2.0","id":null,"error":{"code":-32022,"message":"m","data":{"a":1}}}')
    assert found is not None and (found.code, found.data) == (-32022, {"a": 1})
    assert error_of(b'{"error":"invalid_token"}') is None
    assert error_of(b"") is None
