"""Results that ask."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from antiphon.wire.envelope import decode, encode
from antiphon.wire.rounds import InputRequest, InputRequiredResult, result_type_of


def test_a_result_that_asks_says_so():
    """It writes its own ``resultType``."""
    asks = {"a": InputRequest(method="roots/list"), "b": InputRequest(method="m", params=Raw(b'{"x": 1}'))}
    data = encode(InputRequiredResult(input_requests=asks, request_state="s"))
    assert data == (
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},'
        b'"b":{"method":"m","params":{"x": 1}}},"requestState":"s"}'
    )
    back = decode(data, InputRequiredResult)
    assert back.result_type == "input_required"
    assert bytes((back.input_requests or {})["b"].params) == b'{"x": 1}'
    assert encode(back) == data


def test_another_result_is_not_taken_for_one_that_asks():
    """``complete`` is an error here."""
    with pytest.raises(msgspec.ValidationError, match="resultType"):
        decode(b'{"resultType":"complete"}', InputRequiredResult)


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (b'{"resultType":"input_required","x":[1]}', "input_required"),
        (b'{"content":[],"resultType":"complete"}', "complete"),
        (b'{"resultType":"odd"}', "odd"),
        (b'{"content":[{"resultType":"input_required"}]}', None),
        (b"{}", None),
    ],
)
def test_the_type_of_an_undecoded_result(data, found):
    """Only the member of the result itself counts."""
    assert result_type_of(data) == found
    assert result_type_of(Raw(data)) == found


@pytest.mark.parametrize("data", [b"[]", b'{"resultType":1}', b"null"])
def test_a_result_that_is_no_result(data):
    """It has to be an object whose type is text."""
    with pytest.raises(msgspec.ValidationError):
        result_type_of(data)
