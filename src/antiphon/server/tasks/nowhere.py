"""A connection without a client, for a handler that goes on after its client has left."""

from __future__ import annotations

from collections.abc import Sequence

from antiphon.channel import Frame, Oversized
from antiphon.engine.connection import Connection
from antiphon.errors import ConnectionClosed
from antiphon.protocol.server_offer import Offer
from antiphon.protocol.server_session import ServerSession
from antiphon.server.tasks.task_record import TaskRecord

__all__ = ["absent_peer"]


class _Nowhere:
    """A channel on which nothing is sent, and nothing comes."""

    async def receive(self) -> Sequence[bytes | Oversized]:
        """See ``Channel.receive``."""
        return ()

    def send(self, frame: Frame) -> None:
        """See ``Channel.send``."""

    async def close(self) -> None:
        """See ``Channel.close``."""

    def closed_error(self) -> ConnectionClosed:
        """See ``Channel.closed_error``."""
        return ConnectionClosed("The client of a task is not connected to it")


def absent_peer(offer: Offer, record: TaskRecord) -> Connection[ServerSession]:
    """Make the connection of a task's handler: it knows who the client is, and sends nothing.

    So scopes that are required later, such as those of a tool that middleware calls, are checked as if the client were
    there.
    """
    peer = Connection(_Nowhere(), ServerSession(offer), {})
    peer.principal, peer.is_local = record.owner, record.is_local
    return peer
