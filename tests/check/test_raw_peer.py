"""Messages as they come: whatever a server sends is examined, bounded, and never raises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from antiphon.check.raw_peer import MAX_DEPTH, MAX_MESSAGES, RawPeer
from antiphon.wire.revisions import LATEST_LEGACY


def take_messages(*frames: bytes) -> tuple[RawPeer, list[str]]:
    """Let a peer without a transport take frames; return it with the rules that they break."""
    found: list[str] = []
    peer = RawPeer(
        revision=LATEST_LEGACY, note=lambda rule, _place, _seen: found.append(rule), wait=1, declares={}, info={}
    )
    for frame in frames:
        peer.take(frame)
    return peer, found


@pytest.mark.parametrize(
    ("frame", "rules"),
    [
        (b'{"jsonrpc":"2.0","method":"notifications/x"}', []),
        (b"\xff", ["rpc.encoding"]),
        (b"{", ["rpc.rubbish"]),
        (b"7", ["rpc.message"]),
        (b"[]", ["rpc.message"]),
        (b"[" * 100_000 + b"]" * 100_000, ["safety.oversized"]),
        (b"[" * (MAX_DEPTH + 1) + b"]" * (MAX_DEPTH + 1), ["safety.oversized"]),
        (b'{"jsonrpc":"2.0","id":true,"result":{}}', []),
        (b'{"jsonrpc":"2.0","id":7,"result":{}}', ["rpc.id"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_message_is_examined_by_itself(frame: bytes, rules: list[str]):
    """A message that answers nothing, or is none, has the finding of its fault."""
    assert take_messages(frame)[1] == rules


def test_a_flood_ends_the_connection():
    """Whatever comes after the bound is not examined."""
    peer, found = take_messages(*[b'{"jsonrpc":"2.0","method":"x"}'] * (MAX_MESSAGES + 1))
    assert found == ["safety.flood"]
    assert peer.ended


@given(st.binary(max_size=200))
def test_any_bytes_are_taken_without_an_error(data: bytes):
    """No frame raises."""
    take_messages(data)
