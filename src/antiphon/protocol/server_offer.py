"""What one server offers: its name, capabilities and revisions. Computed once, and shared by all its sessions.

Owns what follows from this for every client: which revision is spoken, which requests are served, how a result names
its sender, and what discovery answers. A session holds what was agreed with one client.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw, structs

from antiphon.errors import InvalidParams, LocalProtocolError, UnsupportedVersion
from antiphon.protocol.events import Request
from antiphon.wire import common
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode_value, prepend_members
from antiphon.wire.lifecycle import DiscoverResult, ListChangedCapability, ResourcesCapability, ServerCapabilities
from antiphon.wire.methods import MAX_NAME, METHODS, MethodSpec
from antiphon.wire.revisions import REVISIONS, Revision
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.sampling import CreateMessageRequestParams

# One set for all sessions with the same capabilities: it takes 2 KiB, and there may be thousands of sessions.
_servable: dict[frozenset[str], frozenset[str]] = {}


def declares_capability(capabilities: common.Wire | None, path: str) -> bool:
    """Return whether a capability such as ``"resources.subscribe"`` was declared: present, and not ``false``."""
    value: Any = capabilities
    for name in path.split("."):
        value = getattr(value, name, None)
        if value is None or value is False:
            return False
    return True


def declares_extension(capabilities: ServerCapabilities | common.ClientCapabilities | None, extension: str) -> bool:
    """Return whether an extension was declared."""
    return capabilities is not None and extension in (capabilities.extensions or ())


def list_servable(capabilities: ServerCapabilities, revision: Revision) -> frozenset[str]:
    """Return the requests a server with these capabilities serves at a revision; others are answered with -32601."""
    names = frozenset(
        spec.name
        for spec in METHODS.values()
        if spec.kind == "request"
        and spec.note_sender("client", revision.name)
        and offers_method(capabilities, spec, revision)
    )
    return _servable.setdefault(names, names)


def offers_method(capabilities: ServerCapabilities, method: MethodSpec, revision: Revision) -> bool:
    """Return whether a server that declared ``capabilities`` serves ``method`` at this revision."""
    if method.extension is not None and revision.modern:
        if method.setting is None:
            return declares_extension(capabilities, method.extension)
        settings = (capabilities.extensions or {}).get(method.extension)
        return isinstance(settings, Mapping) and cast("Mapping[str, Any]", settings).get(method.setting) is True
    needed = method.needed(revision.name)
    return needed is None or declares_capability(capabilities, needed)


def missing_for_ask(
    method: MethodSpec, params: common.Wire | None, declared: common.ClientCapabilities | None
) -> common.ClientCapabilities | None:
    """Return what an ask needs and the client lacks (2025-11-25 client/sampling; 2026-07-28 basic/patterns/mrtr)."""
    has = declared or common.ClientCapabilities()
    if isinstance(params, CreateMessageRequestParams):
        return _missing_for_sampling(params, has)
    if isinstance(params, ElicitRequestParams):
        return _missing_for_elicitation(params, has)
    if method.needs == "roots" and has.roots is None:
        return common.ClientCapabilities(roots=common.RootsCapability())
    return None


def may_include_context(revision: Revision, declared: common.ClientCapabilities | None) -> bool:
    """Return whether ``includeContext`` may be other than "none" (2025-11-25 client/sampling, "Capabilities")."""
    return not revision.sampling_has_parts or declares_capability(declared, "sampling.context")


def _missing_for_sampling(
    params: CreateMessageRequestParams, has: common.ClientCapabilities
) -> common.ClientCapabilities | None:
    needs_tools = params.tools is not None or params.tool_choice is not None
    if has.sampling is None or (needs_tools and has.sampling.tools is None):
        return common.ClientCapabilities(sampling=common.SamplingCapability(tools={} if needs_tools else None))
    return None


def _missing_for_elicitation(
    params: ElicitRequestParams, has: common.ClientCapabilities
) -> common.ClientCapabilities | None:
    if params.mode == "url":
        if has.elicitation is None or has.elicitation.url is None:
            return common.ClientCapabilities(elicitation=common.ElicitationCapability(url={}))
        return None
    # 2025-11-25 client/elicitation: "an empty capabilities object is equivalent to declaring support for form mode
    # only".
    if has.elicitation is None or (has.elicitation.form is None and has.elicitation.url is not None):
        return common.ClientCapabilities(elicitation=common.ElicitationCapability(form={}))
    return None


_COMPLETE = "complete"
_decode_object = msgspec.json.Decoder(dict[str, Raw]).decode


class ModernResults:
    """Encodes the results of one server. The parts that all results have in common are encoded once."""

    __slots__ = ("_complete", "_info", "_meta")

    def __init__(self, info: common.Implementation) -> None:
        self._info = info
        self._meta = b'"_meta":%b' % encode_value({common.SERVER_INFO: info})
        self._complete = b'"resultType":"%b",%b' % (_COMPLETE.encode(), self._meta)

    def encode(self, request: Request, result: common.Wire | Raw) -> bytes:
        """Encode a modern result, which may be a round if the method can have one and it asks for something."""
        if isinstance(result, Raw):
            return self._relay_result(result)
        # ``isinstance`` takes six times as long to say that something is not a struct of a class.
        if type(result) is InputRequiredResult:
            return self._round(request, result)
        if not isinstance(result, common.Result):
            return prepend_members(self._complete, encode_value(request.revision.lower(result)))
        if result.meta is not None or result.result_type is not None:
            kind = result.result_type or _COMPLETE
            result = structs.replace(result, meta=self._with_info(result.meta), result_type=kind)
            return encode_value(request.revision.lower(result))
        return prepend_members(self._complete, encode_value(request.revision.lower(result)))

    def _with_info(self, meta: common.Meta | None) -> common.Meta:
        return {common.SERVER_INFO: self._info, **(meta or {})}

    def _relay_result(self, result: Raw) -> bytes:
        """Complete an encoded result: our own lists directly, one of another server without losing its members."""
        encoded = bytes(result)
        if encoded[:2] in (b'{"', b"{}") and encoded.find(b'"_meta"') < 0:
            # Many servers write it first; elsewhere the word may be in a text.
            at = encoded.find(b'"resultType"')
            has_kind = at == 1 or (at > 1 and "resultType" in _decode_object(result))
            return prepend_members(self._meta if has_kind else self._complete, encoded)
        members = _decode_object(result)
        meta = _decode_object(members.get("_meta", b"{}"))
        members.setdefault("resultType", Raw(encode_value(_COMPLETE)))
        members["_meta"] = Raw(encode_value(self._with_info(meta)))
        return encode_value(members)

    def _round(self, request: Request, result: InputRequiredResult) -> bytes:
        # 2026-07-28 basic/patterns/mrtr: "Servers MUST NOT send InputRequiredResult responses on any other client
        # requests", and "MUST include at least one of inputRequests or requestState".
        if not request.method.rounds:
            raise LocalProtocolError(f"{request.method.name} may not be answered with a round")
        if not result.input_requests and result.request_state is None:
            raise LocalProtocolError("A round must have asks or a state")
        if result.meta is not None:
            return encode_value(structs.replace(result, meta=self._with_info(result.meta)))
        return prepend_members(self._meta, encode_value(result))


_DISCOVER_TTL_MS = 3_600_000
"""How long a client may keep the answer to ``server/discover``: an hour, as in the specification's example."""


class ServerOffer:
    """What a server offers; immutable. When a server gets new features, a new one is made."""

    __slots__ = (
        "_sessionless", "capabilities", "info", "instructions", "modern", "newest_legacy", "passes_on", "results",
        "revisions", "servable",
    )  # fmt: skip

    def __init__(
        self,
        info: common.Implementation,
        capabilities: ServerCapabilities,
        instructions: str | None = None,
        revisions: Sequence[Revision] = REVISIONS,
        *,
        passes_on: bool = False,
    ) -> None:
        newest_first = sorted(revisions, key=lambda one: one.order, reverse=True)
        self.info = info
        self.capabilities = capabilities
        self.instructions = instructions
        self.revisions = {one.name: one for one in newest_first}
        """The revisions spoken, by name, the newest first."""
        self.modern = {name: one for name, one in self.revisions.items() if one.modern}
        """Those of them without a handshake."""
        self.newest_legacy = next((one for one in newest_first if not one.modern), None)
        self.servable = {one.name: list_servable(capabilities, one) for one in newest_first}
        """The methods of the requests that are served, for each revision."""
        self.passes_on = passes_on
        """Whether messages of extensions that this library does not know are passed on to somebody who may."""
        self.results = ModernResults(info)
        self._sessionless: ServerOffer | None = None

    @property
    def sessionless(self) -> ServerOffer:
        """What is offered to legacy clients without sessions: all but notices of changes."""
        if self._sessionless is None:
            has = self.capabilities
            narrowed = structs.replace(
                has,
                tools=has.tools and ListChangedCapability(),
                prompts=has.prompts and ListChangedCapability(),
                resources=has.resources and ResourcesCapability(),
            )
            revisions = tuple(self.revisions.values())
            self._sessionless = ServerOffer(self.info, narrowed, self.instructions, revisions, passes_on=self.passes_on)
        return self._sessionless

    def takes(self, method: str) -> bool:
        """Return whether this is a method of an extension, which is passed on."""
        row = METHODS.get(method)
        return self.passes_on and len(method) <= MAX_NAME and (row is None or row.extension is not None)

    def widen_offer(self, newer: ServerOffer) -> ServerOffer:
        """Return a newer offer with all that this one declared, because a client may rely on it."""
        before, now = structs.asdict(self.capabilities), structs.asdict(newer.capabilities)
        both = {name: before[name] if now[name] is None else now[name] for name in now}
        if both == now:
            return newer
        revisions = tuple(newer.revisions.values())
        return ServerOffer(
            newer.info, ServerCapabilities(**both), newer.instructions, revisions, passes_on=newer.passes_on
        )

    def legacy_revision(self, requested: str) -> Revision:
        """Choose the revision that a handshake agrees on: the requested one, or else the newest we speak.

        Raises ``UnsupportedVersion`` if this server speaks no revision with a handshake. 2026-07-28
        basic/versioning: a modern server names the versions it supports in its error to ``initialize``.
        """
        chosen = self.assumed(requested)
        if chosen is None:
            raise UnsupportedVersion(
                "This server speaks no revision with a handshake", data=self._list_supported(requested)
            )
        return chosen

    def assumed(self, name: str) -> Revision | None:
        """Return the legacy revision of this name, or else the newest we speak; ``None`` if we speak none."""
        found = self.revisions.get(name)
        return found if found is not None and not found.modern else self.newest_legacy

    def modern_revision(self, requested: object) -> Revision:
        """Return the revision that ``_meta`` names, or refuse what is no string, or not spoken here."""
        if not isinstance(requested, str):
            raise InvalidParams(f"Invalid params: _meta must have {common.PROTOCOL_VERSION}, a string")
        known = self.modern.get(requested)
        if known is None:
            raise UnsupportedVersion("Unsupported protocol version", data=self._list_supported(requested))
        return known

    def _list_supported(self, requested: str) -> dict[str, object]:
        return {"supported": list(self.revisions), "requested": requested}

    def handle_discovery(self) -> DiscoverResult:
        """Return the answer to ``server/discover``."""
        return DiscoverResult(
            supported_versions=list(self.revisions),
            capabilities=self.capabilities,
            instructions=self.instructions,
            # What is passed on is somebody else's: who asks later, or is another client, may learn something else.
            ttl_ms=0 if self.passes_on else _DISCOVER_TTL_MS,
            cache_scope="private" if self.passes_on else "public",
        )
