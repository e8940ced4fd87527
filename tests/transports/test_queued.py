"""Channels between two queues, without a peer: what is kept at an end, and why it ended."""

from __future__ import annotations

from antiphon.channel import Frame, Oversized
from antiphon.transports.queued import QueuedChannel


class Stub(QueuedChannel):
    """Two queues and no wire."""

    def arrive(self, data: bytes) -> None:
        """Put a frame where the session receives it."""
        self._inbox.put([data])

    def lose(self, reason: str) -> None:
        """Lose the peer."""
        self._lose(reason)

    def to_write(self) -> list[bytes]:
        """Take what waits to be written."""
        return list(iter(self._outbox.pop, None))

    @property
    def reason(self) -> str:
        """Why it ended."""
        return self._reason


async def test_frames_pass_in_both_directions():
    """Who writes is woken for each; who receives gets all there are."""
    woken: list[None] = []
    channel = Stub(lambda: woken.append(None))
    channel.send(Frame(b"out"))
    channel.arrive(b"in")
    assert (await channel.receive(), channel.to_write(), len(woken)) == ([b"in"], [b"out"], 1)


async def test_after_a_loss_what_came_is_received_and_nothing_is_sent():
    """The first reason is the one that is told."""
    channel = Stub(lambda: None)
    channel.arrive(b"in")
    channel.send(Frame(b"out"))
    channel.lose("gone")
    channel.end("closed", drop=False)
    assert (await channel.receive(), await channel.receive(), channel.to_write()) == ([b"in"], [], [])
    assert channel.reason == "gone"


async def test_closed_on_this_side_nothing_is_received():
    """What waits to be written can still be written."""
    channel = Stub(lambda: None)
    channel.arrive(b"in")
    channel.send(Frame(b"out"))
    channel.end("closed", drop=True)
    assert (await channel.receive(), channel.to_write()) == ([], [b"out"])


async def test_a_frame_is_offered_where_somebody_takes_it_at_once():
    """To the task that waits, before it runs."""
    channel = Stub(lambda: None)
    offered: list[bytes | Oversized] = []

    def take(frame: bytes | Oversized) -> bool:
        offered.append(frame)
        return True

    channel.offer_to(take)
    waiting = channel.receive()
    waiting.send(None)
    channel.arrive(b"in")
    assert offered == [b"in"]
    waiting.close()
