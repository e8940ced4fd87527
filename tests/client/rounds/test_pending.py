"""A round as a value: what it holds, that it can be kept, and what it does not show."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw, structs

from antiphon.client.rounds.loop import RoundLimits
from antiphon.client.rounds.pending import Ask, PendingRound
from antiphon.errors import LocalProtocolError
from antiphon.wire.common import RequestParams
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageRequestParams
from antiphon.wire.tools import CallToolRequestParams, CallToolResult

SAMPLE = Raw(b'{"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":5}')
FORM = Raw(b'{"message":"name?","requestedSchema":{"type":"object","properties":{}}}')
PENDING: PendingRound[CallToolResult] = PendingRound(
    method="tools/call",
    params=Raw(b'{"name":"t","arguments":{"x":1}}'),
    asks={
        "a": Ask(method="sampling/createMessage", raw=SAMPLE),
        "b": Ask(method="elicitation/create", raw=FORM),
        "c": Ask(method="roots/list"),
    },
    request_state="SECRET-STATE",
    number=2,
    asked=5,
    limits=RoundLimits(rounds=7, asks=9, at_once=2),
    remaining=12.5,
    call="3-abcd",
    identity="command:0",
    meta={"example.org/x": 1},
)


def test_the_asks_are_decoded_when_they_are_looked_at() -> None:
    """Each into the type of its method."""
    assert isinstance(PENDING.asks["a"].params, CreateMessageRequestParams)
    assert isinstance(PENDING.asks["b"].params, ElicitRequestParams)
    assert isinstance(PENDING.asks["c"].params, RequestParams)
    assert PENDING.asks["a"].params.messages[0].text == "hi"


def test_the_call_is_known() -> None:
    """Its params, decoded, with neither answers nor state."""
    params = PENDING.round_params
    assert isinstance(params, CallToolRequestParams)
    assert (params.name, bytes(params.arguments), params.request_state) == ("t", b'{"x":1}', None)


def test_it_survives_being_kept() -> None:
    """Everything comes back as it was, with its type or without."""
    kept = msgspec.json.encode(PENDING)
    assert msgspec.json.decode(kept, type=PendingRound[CallToolResult]) == PENDING
    back: PendingRound[CallToolResult] = msgspec.json.decode(kept, type=PendingRound)
    assert back == PENDING


@pytest.mark.parametrize("broken", [b"{}", b'{"method":3}', b"not json"])
def test_a_file_that_is_no_round_is_an_error(broken: bytes) -> None:
    """It says what is missing."""
    with pytest.raises(msgspec.DecodeError):
        msgspec.json.decode(broken, type=PendingRound)


def test_the_state_is_not_shown() -> None:
    """Whoever has it can go on with the call, so a log must not hold it."""
    assert "SECRET" not in repr(PENDING)
    assert "SECRET" not in f"{PENDING}"
    assert "12 characters" in repr(PENDING)
    assert "request_state=None" in repr(structs.replace(PENDING, request_state=None))


def test_only_some_methods_have_rounds() -> None:
    """A value that no client has made is refused when it is used."""
    with pytest.raises(LocalProtocolError, match="tools/list has no rounds"):
        _ = structs.replace(PENDING, method="tools/list").round_params
