"""Cancellations that came before their requests."""

from __future__ import annotations

import pytest

from antiphon.transports.http.server.early_cancellations import EarlyCancellations, cancelled_by
from antiphon.wire.envelope import decode_envelope


async def test_one_holds_for_one_request():
    """After that its id is free."""
    early = EarlyCancellations()
    assert not early.meet(1)
    early.note(1)
    assert not early.meet("1")
    assert early.meet(1)
    assert not early.meet(1)


async def test_the_oldest_makes_room():
    """A client that cancels what it never sends fills nothing."""
    early = EarlyCancellations()
    for id in range(1_001):
        early.note(id)
    early.note("x" * 129)
    assert [early.meet(id) for id in (0, 1, 1_000, "x" * 129)] == [False, True, True, False]


@pytest.mark.parametrize(
    ("said", "id"),
    [
        ('"method":"notifications/cancelled","params":{"requestId":7}', 7),
        ('"method":"notifications/cancelled","params":{"requestId":"a"}', "a"),
        ('"method":"notifications/cancelled","params":{"requestId":[1]}', None),
        ('"method":"notifications/cancelled"', None),
        ('"method":"notifications/progress","params":{"requestId":7}', None),
    ],
)
def test_a_message_says_which_request_it_cancels(said: str, id: int | str | None):
    """If it can be read."""
    assert cancelled_by(decode_envelope(f'{{"jsonrpc":"2.0",{said}}}'.encode())) == id
