"""An answer that flows: bounded, masked, and never taken back."""

from __future__ import annotations

import pytest

from antiphon.host.checks.redact import mask
from antiphon.host.pipeline.flow import Flow


def test_second_attempt_does_not_flow():
    """What was handed on cannot be taken back, so that another attempt would mix two answers."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 1_000)
    flow.begin("a")
    flow.add("The first attempt says something of some length ")
    flow.begin("b")
    flow.add("The second attempt says something else entirely ")
    assert "".join(pieces).startswith("The first attempt")
    assert "second" not in "".join(pieces)


def test_attempt_of_which_nothing_flowed_is_forgotten():
    """Then there is nothing to take back."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 1_000)
    flow.begin("a")
    flow.add("short")
    flow.begin("b")
    flow.add("The second attempt says something else entirely ")
    assert "".join(pieces).startswith("The second")
    assert "short" not in "".join(pieces)


def test_flow_ends_where_the_bound_of_the_request_does():
    """A service that ignores the bound cannot fill a program's memory."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 64, masks=False)
    flow.begin(None)
    for _ in range(100):
        flow.add("word " * 4)
    assert len("".join(pieces)) <= 64


@pytest.mark.parametrize("piece", [500, 10**6])
def test_secret_in_long_data_without_blanks_is_masked(piece: int):
    """As in JSON without blanks, which is data as a whole, and may hold a key anywhere."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 10**6)
    flow.begin(None)
    key = "AKIA" + "Q3EGRIXZ7DJWPL2M"
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    data = f'{{"key":"{key}","rows":[{"1234567," * 3_500}0],"token":"{token}","more":[{"1234567," * 6_000}0]}}'
    for at in range(0, len(data), piece):
        flow.add(data[at : at + piece])
    flowed = "".join(pieces)
    assert len(flowed) > 40_000
    assert key not in flowed
    assert token not in flowed
    assert mask(data).startswith(flowed)


def test_long_data_without_blanks_passes_as_it_is():
    """No secret is that long; what passes is exactly what came."""
    pieces: list[str] = []
    flow = Flow(pieces.append, 10**6)
    flow.begin(None)
    data = "ab" * 30_000
    flow.add(data)
    assert data.startswith("".join(pieces))
    assert len("".join(pieces)) > 1_000
