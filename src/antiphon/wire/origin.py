"""Who asks, and why: the facts that go with every ask from the client to whoever answers it.

Pure data, built by the client, read by the host; none of it travels. How an answer is found is the host's business.
"""

from __future__ import annotations

import hashlib
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import SplitResult, urlsplit, urlunsplit

import msgspec

from antiphon.wire.common import Implementation
from antiphon.wire.tools import Tool

__all__ = ["Origin", "OriginCall", "Round", "describe_target", "identify"]

_DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class OriginCall(msgspec.Struct, frozen=True, kw_only=True):
    """The request of ours that an ask belongs to."""

    id: str
    """Names the call on this side: the same for all its asks, rounds and retries, never reused by another call."""
    method: str
    """``"tools/call"``, ``"prompts/get"``, ..."""
    name: str | None = None
    """The tool, prompt or URI."""
    arguments: dict[str, Any] | None = None
    """What the tool or prompt was called with."""


class Round(msgspec.Struct, frozen=True, kw_only=True):
    """Which ask-and-retry of a call this is (modern era)."""

    n: int
    """From 1."""
    max: int
    """How many the client will go along with."""


class Origin(msgspec.Struct, frozen=True, kw_only=True):
    """Who asks and why. An answerer is called with ``(params, origin)``."""

    id: str
    """Names this ask on this side; unique in the process."""
    identity: str
    """Who the server is, by what the user configured (see ``identify``), never by what it says of itself."""
    target: str
    """The command line or URL, for display; without credentials."""
    server: Implementation | None = None
    """Name and version as the server declares them: not to be trusted."""
    call: OriginCall | None = None
    """The request of ours this belongs to; ``None`` if the server asked in the background."""
    round: Round | None = None
    """``None`` in the legacy era."""
    revision: str | None = None
    """The agreed protocol revision, as a label."""
    tool: Tool | None = None
    """Where a call of ours is to be confirmed: what the server says of the tool, not to be trusted."""


def identify(target: str | Sequence[str]) -> str:
    """Compute who a server is from where it was found: ``"url:<sha256>"`` or ``"command:<sha256>"``.

    A string is a URL, a sequence a command line. Two spellings of one URL (case of the host, default port,
    fragment, credentials) are one identity; any change of a command line is another.
    """
    if isinstance(target, str):
        return f"url:{_digest(_normal_url(target))}"
    return f"command:{_digest(chr(0).join(target))}"


def describe_target(target: str | Sequence[str]) -> str:
    """Write a URL (without its credentials) or a command line for people."""
    if not isinstance(target, str):
        return shlex.join(target)
    parts = urlsplit(target)
    return urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))


def _normal_url(url: str) -> str:
    parts = urlsplit(url)
    host = (parts.hostname or "").lower()
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return urlunsplit(SplitResult(parts.scheme, host + port, parts.path or "/", parts.query, ""))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
