"""The interface between transports and the engine: where frames come from and go to.

A channel carries whole frames (the bytes of one JSON-RPC message, or of one batch) without looking inside.
``transports`` implements this interface, ``engine`` uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from antiphon.errors import ConnectionClosed
from antiphon.protocol.call_record import CallRecord
from antiphon.protocol.caller import Caller
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Envelope

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame accepted, in bytes: holds a 12 MiB image in base64, and bounds the memory one peer can occupy."""


class Frame(Struct, frozen=True, gc=False):
    """Bytes to send, with what a transport needs to know to route them."""

    data: bytes
    """One JSON-RPC message (or batch), UTF-8 JSON without a trailing newline."""
    related_to: int | str | None = None
    """Id of the peer's request that this frame belongs to. Transports with one stream per request route by it."""
    final: bool = False
    """Whether this is the reply to ``related_to``, after which nothing follows for that request."""
    code: int | None = None
    """The JSON-RPC error code if this is an error reply; HTTP chooses the status by it."""


class Oversized(NamedTuple):
    """Takes the place of a received frame that was larger than the limit; its bytes were read and dropped."""

    size: int
    """Number of bytes dropped."""


class Related(bytes):
    """A received frame that came on the stream of one of our requests, where the transport has such streams."""

    related_to: int | str
    """Id of that request."""

    @classmethod
    def of(cls, data: bytes, related_to: int | str) -> Related:
        """Mark a frame with the request whose stream it came on."""
        frame = cls(data)
        frame.related_to = related_to
        return frame


class Vouched(bytes):
    """A received frame with its sender, from a transport where each frame may come with a different token."""

    caller: Caller
    """Who sent it."""

    @classmethod
    def by(cls, data: bytes, caller: Caller) -> Vouched:
        """Mark a frame with its sender."""
        frame = cls(data)
        frame.caller = caller
        return frame


class Channel(Protocol):
    """A two-way stream of frames: one task receives; any task of the event loop may send."""

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Wait for at least one frame and return all that have arrived, in order.

        Returns an empty sequence once the peer has ended; ``closed_error`` then says why. Cancelling a ``receive``
        loses no frame.
        """
        ...

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Queue one frame, in order, without blocking. After the end of the channel it is dropped silently.

        Args:
            frame: what to send.

        Returns:
            ``None``, or, if the peer reads too slowly, an awaitable that finishes when there is room again. A sender
            that can wait should await it. It must not be a coroutine: several tasks may await it, or none.
        """
        ...

    async def close(self) -> None:
        """End both directions and free every resource. May be called twice, from any task; waits until it is done."""

    def closed_error(self) -> ConnectionClosed:
        """Return the reason why the channel ended, to be raised by the calls that were in flight."""
        ...


Take = Callable[[bytes | Oversized], bool]
"""Handles a received frame and returns ``True``, or leaves it and returns ``False``. It neither waits nor raises."""


@runtime_checkable
class Offers(Protocol):
    """A channel that can pass each frame to a callback on arrival, before ``receive`` returns it."""

    def offer_to(self, take: Take) -> None:
        """Pass frames to ``take`` while a ``receive`` waits; that returns the first one left, and all with it."""


@runtime_checkable
class Releases(Protocol):
    """A channel that can close the stream of one request while the request goes on."""

    def release(self, id: int | str) -> None:
        """Close the stream of a request. What is sent for it is kept until the client resumes the stream."""


class Peer(Protocol):
    """A running session, as used by a transport that receives each message in a request of its own (HTTP)."""

    headers: Mapping[str, str]
    """Headers of the request being served, by lower-case name. The mapping is replaced, never modified."""

    @property
    def is_over(self) -> bool:
        """Whether the session has ended, so that nothing can be sent."""
        ...

    def handle(
        self,
        message: Envelope,
        *,
        waits: Callable[[], object] | None = None,
        params: RequestParams | None = None,
        caller: Caller | None = None,
        record: CallRecord | None = None,
        pass_on: Callable[[str], object] | None = None,
    ) -> Awaitable[None]:
        """Handle one message in the caller's task; the caller awaits the result at once.

        The handler of a request runs here. What it sends goes to the channel, including the reply unless that
        is deferred. ``waits``: called once, when the handler first has to wait; most handlers never do.
        ``params``: the message's params, if the transport had to decode them to the type of its method.
        ``record``: how a call goes on in another process, if it can. ``pass_on``: called, in place of a reply,
        with the name of the process that has to serve it.
        """
        ...

    def tell(self, message: Envelope) -> Awaitable[None] | None:
        """Handle a notification or a reply. Returns an awaitable only if there is something to wait for."""
        ...

    def withdraw(self, id: int | str, reason: str) -> None:
        """Cancel a request of the peer because its stream was closed (2026-07-28 basic/transports/streamable-http)."""

    async def close(self) -> None:
        """End the session."""
