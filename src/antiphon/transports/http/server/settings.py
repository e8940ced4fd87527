"""The limits and times of a Streamable HTTP endpoint."""

from __future__ import annotations

from msgspec import Struct

from antiphon.channel import MAX_FRAME

__all__ = ["Settings"]


class Settings(Struct, frozen=True, kw_only=True):
    """Limits and times; the defaults suit a server on the user's machine as well as one behind a proxy."""

    max_body: int = MAX_FRAME
    """Most bytes of one POST."""
    body_timeout: float = 30.0
    """Seconds within which a body must have arrived."""
    idle_timeout: float = 1800.0
    """Seconds without a request after which a session ends."""
    max_sessions: int = 10_000
    max_open: int = 5_000
    """Most requests and streams open at once, on all connections together."""
    keep_alive: float = 15.0
    """Seconds of silence on a stream after which a comment is sent. Proxies time out after 30 s or more."""
    patience: float = 5.0
    """Seconds a request may take before its response begins as a stream, so that it can be kept alive."""
    stateless: bool = False
    """Keep no sessions: a legacy message is served by itself, wherever it comes, and nothing is asked of its client."""
    health: bool = False
    """Answer GET ``/healthz`` and ``/readyz``."""
    json_only: bool = False
    """Answer requests with JSON only: a handler can then neither notify nor ask the client during a call."""
