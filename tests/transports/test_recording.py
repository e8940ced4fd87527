"""The channel that tells: everything passes as it is, and every message is told."""

from __future__ import annotations

from antiphon.channel import Frame, Oversized
from antiphon.transports.recording import RecordingChannel
from tests.support.recorded import CALL, Canned, heard


async def test_nothing_is_changed():
    """Frames, and everything else, go through as they are."""
    canned = Canned(CALL, b"nonsense")
    recorder = RecordingChannel(canned, lambda _: None)
    assert await recorder.receive() == [CALL, b"nonsense"]
    recorder.send(Frame(CALL, 3, final=True))
    assert canned.sent == [Frame(CALL, 3, final=True)]
    await recorder.close()
    assert canned.closed
    assert recorder.closed_error().message == "over"


async def test_a_reply_is_told_with_the_method_of_its_request():
    """Ids of the two directions are not mixed up."""
    reply, ask = b'{"jsonrpc":"2.0","id":1,"result":{"x":1}}', b'{"jsonrpc":"2.0","id":1,"method":"roots/list"}'
    told = await heard(ask, reply, sent=[CALL])
    assert [(message.direction, message.kind, message.method) for message in told] == [
        ("sent", "request", "tools/call"),
        ("received", "request", "roots/list"),
        ("received", "result", "tools/call"),
    ]


async def test_a_batch_is_several_messages():
    """As the oldest revision but one sends them."""
    told = await heard(b"[" + CALL + b"," + CALL + b"]")
    assert [message.method for message in told] == ["tools/call", "tools/call"]


async def test_deep_nonsense_is_no_failure():
    """A peer may send anything."""
    told = await heard(b"[" * 100_000, b"", b"null")
    assert {message.kind for message in told} == {"unreadable"}


async def test_what_was_too_large_is_told():
    """Its bytes are gone, its size is not."""
    [message] = await heard(Oversized(99))
    assert (message.kind, message.body) == ("unreadable", "99 bytes, too many to take")
