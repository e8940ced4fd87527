"""What one server offers: who it is, what it can do, at which revisions. Worked out once, shared by all its sessions.

Owns what follows from that for every client alike: which revision is spoken with whom, which requests are served, how
a result says who sends it, what discovery answers. What one client has agreed to is its session's.
"""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import structs

from antiphon.errors import InvalidParams, UnsupportedVersion
from antiphon.protocol.capabilities import servable
from antiphon.protocol.modern_results import ModernResults
from antiphon.wire.common import PROTOCOL_VERSION, Implementation
from antiphon.wire.lifecycle import DiscoverResult, ServerCapabilities
from antiphon.wire.revisions import REVISIONS, Revision

__all__ = ["Offer"]

_DISCOVER_TTL_MS = 3_600_000
"""How long a client may keep what ``server/discover`` said: an hour, as in the specification's example."""


class Offer:
    """What a server offers. Nothing of it changes: for a server that has got new features, another is made."""

    __slots__ = ("capabilities", "info", "instructions", "modern", "newest_legacy", "results", "revisions", "servable")

    def __init__(
        self,
        info: Implementation,
        capabilities: ServerCapabilities,
        instructions: str | None = None,
        revisions: Sequence[Revision] = REVISIONS,
    ) -> None:
        newest_first = sorted(revisions, key=lambda one: one.order, reverse=True)
        self.info = info
        self.capabilities = capabilities
        self.instructions = instructions
        self.revisions = {one.name: one for one in newest_first}
        """The revisions spoken by their names, the newest first."""
        self.modern = {name: one for name, one in self.revisions.items() if one.modern}
        """Those of them without a handshake."""
        self.newest_legacy = next((one for one in newest_first if not one.modern), None)
        self.servable = {one.name: servable(capabilities, one) for one in newest_first}
        """Names of the requests that are served, for each revision."""
        self.results = ModernResults(info)

    def widened(self, newer: Offer) -> Offer:
        """Return what a client of this offer may rely on once there is a newer one.

        What was declared before stays declared, though nothing may be left of it.
        """
        before, now = structs.asdict(self.capabilities), structs.asdict(newer.capabilities)
        both = {name: before[name] if now[name] is None else now[name] for name in now}
        if both == now:
            return newer
        return Offer(newer.info, ServerCapabilities(**both), newer.instructions, tuple(newer.revisions.values()))

    def legacy_revision(self, requested: str) -> Revision:
        """Choose the revision that a handshake agrees on: the one requested, or else the newest we speak.

        Raises:
            UnsupportedVersion: there is none with a handshake. 2026-07-28 basic/versioning: a modern server names the
                versions it supports in its error to ``initialize``.
        """
        if self.newest_legacy is None:
            raise UnsupportedVersion("This server speaks no revision with a handshake", data=self._supported(requested))
        found = self.revisions.get(requested)
        return found if found is not None and not found.modern else self.newest_legacy

    def modern_revision(self, requested: object) -> Revision:
        """Return the revision that a request names in its ``_meta``.

        Raises:
            InvalidParams: that is no name.
            UnsupportedVersion: it is one we do not speak.
        """
        if not isinstance(requested, str):
            raise InvalidParams(f"Invalid params: _meta must have {PROTOCOL_VERSION}, a string")
        known = self.modern.get(requested)
        if known is None:
            raise UnsupportedVersion("Unsupported protocol version", data=self._supported(requested))
        return known

    def _supported(self, requested: str) -> dict[str, object]:
        return {"supported": list(self.revisions), "requested": requested}

    def discovered(self) -> DiscoverResult:
        """Return the answer to ``server/discover``."""
        return DiscoverResult(
            supported_versions=list(self.revisions),
            capabilities=self.capabilities,
            instructions=self.instructions,
            ttl_ms=_DISCOVER_TTL_MS,
            cache_scope="public",
        )
