"""What one server offers: who it is, what it can do, at which revisions. Worked out once, shared by all its sessions.

Owns what follows from that for every client alike: which revision is spoken with whom, which requests are served, how
a result says who sends it, what discovery answers. What one client has agreed to is its session's.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
from msgspec import Raw, structs

from antiphon.errors import InvalidParams, LocalProtocolError, UnsupportedVersion
from antiphon.protocol.capabilities import servable
from antiphon.protocol.events import Request
from antiphon.wire.common import PROTOCOL_VERSION, SERVER_INFO, Implementation, Meta, Result, Wire
from antiphon.wire.envelope import encode, prepend
from antiphon.wire.lifecycle import DiscoverResult, ServerCapabilities
from antiphon.wire.revisions import REVISIONS, Revision
from antiphon.wire.rounds import InputRequiredResult

__all__ = ["ModernResults", "Offer"]

_COMPLETE = "complete"


class ModernResults:
    """Encodes the results of one server. What is the same in all of them is encoded once."""

    __slots__ = ("_complete", "_info", "_meta")

    def __init__(self, info: Implementation) -> None:
        self._info = info
        self._meta = b'"_meta":%b' % encode({SERVER_INFO: info})
        self._complete = b'"resultType":"%b",%b' % (_COMPLETE.encode(), self._meta)

    def encode(self, request: Request, result: Wire | Raw) -> bytes:
        """Encode the result of a modern request.

        Raises:
            LocalProtocolError: a round that this request may not have, or that asks for nothing.
            NotInRevision: the revision cannot carry it.
        """
        if isinstance(result, Raw):
            return self._relayed(result)
        if isinstance(result, InputRequiredResult):
            return self._round(request, result)
        if not isinstance(result, Result):
            return prepend(self._complete, encode(request.revision.lower(result)))
        if result.meta is not None or result.result_type is not None:
            kind = result.result_type or _COMPLETE
            result = structs.replace(result, meta=self._with_info(result.meta), result_type=kind)
            return encode(request.revision.lower(result))
        return prepend(self._complete, encode(request.revision.lower(result)))

    def _with_info(self, meta: Meta | None) -> Meta:
        return {SERVER_INFO: self._info, **(meta or {})}

    def _relayed(self, result: Raw) -> bytes:
        """Complete a result that came encoded: our own lists at once, one from elsewhere so that what it has stays."""
        encoded = bytes(result)
        is_plain = encoded[:2] in (b'{"', b"{}") and b'"resultType"' not in encoded and b'"_meta"' not in encoded
        if is_plain:
            return prepend(self._complete, encoded)
        members = msgspec.json.decode(result, type=dict[str, Raw])
        meta = msgspec.json.decode(members.get("_meta", b"{}"), type=dict[str, Raw])
        members.setdefault("resultType", Raw(encode(_COMPLETE)))
        members["_meta"] = Raw(encode(self._with_info(meta)))
        return encode(members)

    def _round(self, request: Request, result: InputRequiredResult) -> bytes:
        # 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send InputRequiredResult responses on any other client
        # requests", and "MUST include at least one of inputRequests or requestState".
        if not request.method.rounds:
            raise LocalProtocolError(f"{request.method.name} may not be answered with a round")
        if not result.input_requests and result.request_state is None:
            raise LocalProtocolError("A round must have asks or a state")
        if result.meta is not None:
            return encode(structs.replace(result, meta=self._with_info(result.meta)))
        return prepend(self._meta, encode(result))


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
