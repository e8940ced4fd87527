"""The seam between transports and the engine: where frames come from and go to.

A channel carries whole frames (the bytes of one JSON-RPC message, or of one batch) and knows nothing of
what is in them. This module owns the interface only; ``transports`` implements it, ``engine`` uses it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from msgspec import Struct

from antiphon.errors import ConnectionClosed
from antiphon.wire.common import RequestParams
from antiphon.wire.envelope import Envelope

__all__ = ["MAX_FRAME", "Channel", "Frame", "Offers", "Oversized", "Peer", "Related", "Releases", "Take"]

MAX_FRAME = 16 * 1024 * 1024
"""Largest frame taken, in bytes: holds a 12 MiB image in base64, and bounds what one peer can make us hold."""


class Frame(Struct, frozen=True, gc=False):
    """Bytes to send, and where they belong."""

    data: bytes
    """One JSON-RPC message (or batch), UTF-8 JSON without a trailing newline."""
    related_to: int | str | None = None
    """Id of the peer's request this belongs to. Transports with one stream per request route by it."""
    final: bool = False
    """True if this is the reply to ``related_to``: nothing more will follow for that request."""
    code: int | None = None
    """The JSON-RPC error code if this is an error reply: HTTP chooses its status by it."""


class Oversized(NamedTuple):
    """Stands in for a received frame that was larger than the limit; its bytes were drained and dropped."""

    size: int
    """How many bytes were dropped."""


class Related(bytes):
    """A received frame that came on the stream of one request of ours, where a transport has such streams."""

    related_to: int | str
    """Id of that request."""

    @classmethod
    def of(cls, data: bytes, related_to: int | str) -> Related:
        """Say of a frame to which request it belongs."""
        frame = cls(data)
        frame.related_to = related_to
        return frame


class Channel(Protocol):
    """A two-way stream of frames. Not safe for several receivers; ``send`` may be called from any task of the loop."""

    async def receive(self) -> Sequence[bytes | Oversized]:
        """Wait for at least one frame and return all that have arrived, in order.

        An empty sequence means the peer has ended; after that ``closed_error`` says why.
        Cancelling a ``receive`` loses no frame.
        """
        ...

    def send(self, frame: Frame) -> Awaitable[None] | None:
        """Queue one frame, in order, without blocking.

        Returns ``None``, or, when the peer reads too slowly, an awaitable that ends once there is room again;
        a sender that can wait should. A frame sent after the end is dropped silently.
        """
        ...

    async def close(self) -> None:
        """End both directions and free every resource. May be called twice, from any task; waits until it is done."""
        ...

    def closed_error(self) -> ConnectionClosed:
        """Say why the channel ended, for the calls that were in flight."""
        ...


Take = Callable[[bytes | Oversized], bool]
"""Takes a received frame, or leaves it (``False``). It does not wait, and raises nothing."""


@runtime_checkable
class Offers(Protocol):
    """A channel that offers each frame where it arrives, before ``receive`` returns it."""

    def offer_to(self, take: Take) -> None:
        """Offer each frame that arrives while a ``receive`` waits.

        Up to the first that is left: it, and those that came with it after, are received.
        """
        ...


@runtime_checkable
class Releases(Protocol):
    """A channel that can let go of the stream of one request, which its client resumes later."""

    def release(self, id: int | str) -> None:
        """Close the stream of a request; what is sent for it is kept until it is asked for."""
        ...


class Peer(Protocol):
    """A running session, as a transport sees it that gets every message in a request of its own (HTTP)."""

    headers: Mapping[str, str]
    """Headers of the request that is served now, by lower-case name; never changed, but replaced."""

    @property
    def is_over(self) -> bool:
        """Whether nothing can be sent any more."""
        ...

    def handle(
        self, message: Envelope, *, waits: Callable[[], object] | None = None, params: RequestParams | None = None
    ) -> Awaitable[None]:
        """Take one message, in the caller's task, which awaits the result at once.

        The handler of a request runs here; what it sends goes to the channel meanwhile, its reply as well, unless the
        reply comes later. ``waits`` is called once, when the handler first has to wait: most never do. ``params``:
        those of the message, decoded to the type its method has, where the transport had to look at them.
        """
        ...

    def tell(self, message: Envelope) -> Awaitable[None] | None:
        """Take a notification or a reply. Returns what is to be awaited, mostly nothing."""
        ...

    def withdraw(self, id: int | str, reason: str) -> None:
        """Cancel a request of the peer's: its stream was closed (2026-07-28 basic/transports/streamable-http)."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...
