"""What a failure of an author's function is told as: to a client in a tool result, to a model in a tool loop."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from antiphon.errors import CallTimeout, PeerError, ProtocolError, SamplingFailed, ToolError

if TYPE_CHECKING:
    from antiphon.server.app import Server

__all__ = ["told"]

log = logging.getLogger("antiphon.server")


def told(server: Server, name: str, error: Exception) -> str:
    """Put a failure of the tool ``name`` into words. What the author did not mean for others is logged and not told."""
    if isinstance(error, PeerError):
        return error.message
    if isinstance(error, ToolError):
        return str(error)
    if isinstance(error, ProtocolError | CallTimeout | SamplingFailed):
        # Our own words about an ask that could not be made or was not answered; nothing of the author's is in them.
        return f"{name}: {error}"
    log.error("tool %r failed", name, exc_info=error)
    return server.describe_failure(name, error)
