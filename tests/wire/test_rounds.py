"""Results that ask."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw

from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.rounds import InputRequest, InputRequiredResult


def test_a_result_that_asks_says_so():
    """It writes its own ``resultType``."""
    asks = {"a": InputRequest(method="roots/list"), "b": InputRequest(method="m", params=Raw(b'{"x": 1}'))}
    data = encode_value(InputRequiredResult(input_requests=asks, request_state="s"))
    assert data == (
        b'{"resultType":"input_required","inputRequests":{"a":{"method":"roots/list"},'
        b'"b":{"method":"m","params":{"x": 1}}},"requestState":"s"}'
    )
    back = decode_wire(data, InputRequiredResult)
    assert back.result_type == "input_required"
    assert bytes((back.input_requests or {})["b"].params) == b'{"x": 1}'
    assert encode_value(back) == data


def test_another_result_is_not_taken_for_one_that_asks():
    """``complete`` is an error here."""
    with pytest.raises(msgspec.ValidationError, match="resultType"):
        decode_wire(b'{"resultType":"complete"}', InputRequiredResult)
