"""What is read of a message that does not fit."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from antiphon.protocol.salvage import read_list, read_remains, recover_id, salvage_reply


@pytest.mark.parametrize(
    ("body", "id"),
    [
        (b'{"jsonrpc":"2.0","id":7,"error":"not an object"}', 7),
        (b'{"id":"x","result":{}}', "x"),
        (b'{"id":7,"method":"x","result":{}}', None),
        (b'{"id":7}', 7),
        (b"{}", ""),
        (b'{"id":[],"result":{}}', ""),
        (b'{"id":7,"result":{"a":NaN}}', 7),
        (b'{"jsonrpc":"2.0","id":"x","result":{"a', "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"a","par', None),
        (b"{", None),
    ],
)
def test_a_reply_that_cannot_be_read_is_an_error_to_whoever_waits(body, id):
    """Else an ask would wait for it forever."""
    salvaged = salvage_reply(body)
    assert (salvaged.id if salvaged else None) == id
    assert salvaged is None or salvaged.error.code == -32600


@pytest.mark.parametrize(
    ("data", "request_id", "is_reply"),
    [
        (b'{"id":7,"result":3}', 7, True),
        (b'{"id":"x","error":null}', "x", True),
        (b'{"id":1.5,"error":null}', None, True),
        (b'{"id":true,"result":{}}', None, True),
        (b'{"id":7,"method":3,"result":{}}', 7, False),
        (b'{"id":7}', 7, False),
        (b"[]", None, False),
    ],
)
def test_whose_it_is_and_whether_it_is_a_reply(data, request_id, is_reply):
    """Whatever else is wrong with it."""
    remains = read_remains(data)
    assert (remains.request, remains.is_reply) == (request_id, is_reply)


def test_what_is_no_json_has_no_remains():
    """The caller says so to the peer."""
    with pytest.raises(msgspec.DecodeError):
        read_remains(b"{")


def test_a_long_list_is_not_mended():
    """Each text of it would cost a call in Python, and a hostile server can send 16 MB of them."""
    entries = b",".join([b'{"name":"a"}'] * 50_000)
    assert read_list(b'{"jsonrpc":"2.0","id":1,"result":{"tools":[' + entries + b",NaN]}}") is None


@pytest.mark.parametrize(
    ("data", "id"),
    [
        (b'{"id":1,"method":3}', 1),
        (b'{"method":[],"id":"a"}', "a"),
        (b'{"id":null}', None),
        (b'{"id":true}', None),
        (b'{"id":1', None),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":NaN}}', 7),
        (b'{"method":"m","params":{"a":"\t"},"id":"x"}', "x"),
        (b'{"jsonrpc":"2.0","id":7,"method":"m","par', None),
        (b"[1]", None),
        (b'{"id":5,"params":' + b"[" * 200 + b"]" * 200 + b"}", 5),
        (b'{"id":5,"params":' + b"[" * 100_000, None),
    ],
)
def test_the_id_of_a_bad_message(data, id):
    """It is found where the frame is JSON at all, so that the error reply reaches who waits for it."""
    assert recover_id(data) == id


@settings(deadline=None)
@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:\\ud801 null', max_size=200).map(str.encode))
def test_no_bytes_raise_when_their_id_is_looked_for(data):
    """Frames come from strangers."""
    assert recover_id(data) is None or isinstance(recover_id(data), int | str)
