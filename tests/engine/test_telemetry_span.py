"""How a request that is told of has ended."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec import Raw

from antiphon import CallToolResult
from antiphon.engine.telemetry import watch
from antiphon.engine.telemetry_span import Told
from antiphon.errors import CallTimeout, PeerError
from antiphon.wire.rounds import InputRequiredResult
from tests.support.telemetry import listening

FAILED = CallToolResult(content=[], is_error=True)


def begun(method: str = "tools/call") -> Told:
    """Begin to tell of a request."""
    told = watch(object())
    assert told is not None
    return told._begin("server", method, None, None, None)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (PeerError("x", code=-5), "-5"),
        (CallTimeout("x"), "timeout"),
        (asyncio.CancelledError(), "cancelled"),
        (ValueError("a secret"), "ValueError"),
    ],
)
def test_an_error_is_told_by_its_kind(error: BaseException, kind: str):
    """A code, a word, or the name of its class; never its text."""
    with listening() as heard:
        begun().failed(error)
    span = heard.span("tools/call")
    assert dict(span.attributes or {})["error.type"] == kind
    assert "secret" not in span.to_json()


@pytest.mark.parametrize("result", [FAILED, (FAILED, 2), Raw(b'{"content":[],"isError":true}')])
def test_a_tool_that_failed_says_so_in_its_result(result: Any):
    """Decoded, encoded, or with the number of rounds it took."""
    with listening() as heard:
        begun().ended(result)
    assert dict(heard.span("tools/call").attributes or {})["error.type"] == "tool_error"


def test_a_round_is_told_with_the_number_of_its_asks():
    """It is no error."""
    with listening() as heard:
        begun().ended(InputRequiredResult(input_requests={}, request_state="x"))
    attributes = dict(heard.span("tools/call").attributes or {})
    assert attributes["antiphon.asks"] == 0
    assert "error.type" not in attributes


async def test_a_handler_that_is_cancelled_is_told_at_once():
    """There may be no reply to tell of."""

    async def handler() -> None:
        raise asyncio.CancelledError

    with listening() as heard:
        told = begun()
        with pytest.raises(asyncio.CancelledError):
            await told.served(handler())
    assert dict(heard.span("tools/call").attributes or {})["error.type"] == "cancelled"
