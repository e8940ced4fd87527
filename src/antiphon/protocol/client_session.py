"""The client's side of a session: opening in either era, our requests, and which of the server's asks are served.

The era is a property of the server: it is determined once, by ``probe`` or by configuration, and kept (2026-07-28
basic/versioning).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec
from msgspec import Raw, structs

from antiphon import errors
from antiphon.protocol.events import Answered, Event, Ignored, Notified, Outgoing, Replied, Request
from antiphon.protocol.server_offer import declares_capability, declares_extension, missing_for_ask, offers_method
from antiphon.protocol.session import PeerSession, Phase, read_params, shorten_text
from antiphon.wire import common, lifecycle
from antiphon.wire.envelope import Envelope, RequestId, encode_value, prepend_members, result_frame
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.lossless import Received
from antiphon.wire.methods import MAX_NAME, METHODS, MethodSpec, Side, unknown_request
from antiphon.wire.revisions import LATEST, LATEST_LEGACY, Revision, find_revision
from antiphon.wire.task import TASKS

_SESSION_WRITES = {
    common.PROGRESS_TOKEN,
    common.PROTOCOL_VERSION,
    common.CLIENT_INFO,
    common.CLIENT_CAPABILITIES,
    common.LOG_LEVEL,
}
"""Members of ``_meta`` that the session sets; callers cannot."""


_READY = Phase.READY
"""Looked up once: up to Python 3.11 a member of an enumeration takes nine times as long to find as a name."""

_FOR_TASKS: Mapping[str, Any] = {TASKS: {}}


def is_modern_error(error: errors.PeerError) -> bool:
    """Return whether an error reply to the probe is of a modern server: only these use -32020 to -32022."""
    return -32022 <= error.code <= -32020


class ClientSession(PeerSession):
    """The rules for one server. See ``PeerSession`` for how to use it.

    Open it with ``probe`` and ``discovered``, or with ``initialize`` and ``initialized``; nothing else may be sent
    before that.
    """

    side: ClassVar[Side] = "client"

    def __init__(self, info: common.Implementation, capabilities: common.ClientCapabilities) -> None:
        super().__init__()
        self.phase = Phase.NEW
        self.server_info: common.Implementation | None = None
        """Name and version that the server declares; not verified."""
        self.server_capabilities = lifecycle.ServerCapabilities()
        self._sendable: set[str] = set()
        """Methods that the agreed revision has and the server declared, as far as they were looked up."""
        self.instructions: str | None = None
        self.log_level: LoggingLevel | None = None
        """The least severe log level that modern requests ask for."""
        self._info = info
        self._capabilities = capabilities
        self.for_tasks: Mapping[str, Any] | None = None
        """What a request declares that may become a task or concerns one; ``None`` if the server has no tasks."""
        self.passes_on = False
        """Whether messages of extensions that this library does not know are passed on to somebody who may."""
        self._declared: tuple[Mapping[str, Any], bytes] = {}, b""
        """The extensions that a request declared beside the client's own, and its ``_meta``."""
        self._modern_meta = b""

    # --- opening ------------------------------------------------------------------------------------------------

    def probe(self, wanted: Revision = LATEST) -> Outgoing:
        """Ask what the server is, as a modern client; the reply is for ``discovered`` or ``is_modern_error``."""
        return self._open(METHODS["server/discover"], b'{"_meta":%b}' % encode_value(self._meta_for(wanted)), None)

    def handle_discovery(self, result: lifecycle.DiscoverResult, allowed: tuple[Revision, ...]) -> Revision | None:
        """Handle the answer to the probe; return the modern revision, or ``None`` if a handshake is needed."""
        both = [one for one in allowed if one.name in result.supported_versions]
        if not both:
            raise errors.RemoteProtocolError(
                f"No common protocol revision: the server speaks {', '.join(result.supported_versions) or 'none'}, "
                f"we allow {', '.join(one.name for one in allowed)}"
            )
        best = max(both, key=lambda one: one.order)
        if not best.modern:
            return None
        try:
            info = msgspec.convert((result.meta or {}).get(common.SERVER_INFO), common.Implementation | None)
        except msgspec.ValidationError:
            info = None
        self._become(best, result.capabilities, info, result.instructions)
        self._set_meta(best)
        self.phase = Phase.READY
        return best

    def initialize(self, wanted: Revision = LATEST_LEGACY) -> Outgoing:
        """Begin the handshake of the legacy revisions, proposing ``wanted``."""
        if self.phase is not Phase.NEW or any(each.method.name == "initialize" for each in self.outgoing.values()):
            raise errors.LocalProtocolError("initialize may be sent once")
        params = lifecycle.InitializeRequestParams(
            protocol_version=wanted.name, capabilities=self._capabilities, client_info=self._info
        )
        return self._open(METHODS["initialize"], encode_value(wanted.lower(params)), None)

    def handle_initialized(self, result: lifecycle.InitializeResult, allowed: tuple[Revision, ...]) -> bytes:
        """Handle the answer to ``initialize``; return the notification that completes the handshake."""
        agreed = find_revision(result.protocol_version)
        if agreed is None or agreed.modern or agreed not in allowed:
            raise errors.RemoteProtocolError(
                f"The server answered with protocol revision {result.protocol_version!r}; "
                f"we allow {', '.join(one.name for one in allowed)}"
            )
        self._become(agreed, result.capabilities, result.server_info, result.instructions)
        self.phase = Phase.READY
        return self.notify(METHODS["notifications/initialized"], common.NotificationParams())

    def _become(
        self,
        agreed: Revision,
        capabilities: lifecycle.ServerCapabilities,
        info: common.Implementation | None,
        instructions: str | None,
    ) -> None:
        self.revision = agreed
        self.server_capabilities = capabilities
        self._sendable.clear()
        self.for_tasks = _FOR_TASKS if declares_extension(capabilities, TASKS) else None
        self.server_info = info
        self.instructions = instructions

    def _meta_for(self, wanted: Revision) -> common.RequestMeta:
        return common.RequestMeta(
            protocol_version=wanted.name,
            client_info=self._info,
            client_capabilities=wanted.lower(self._capabilities),
            log_level=self.log_level,
        )

    def _set_meta(self, agreed: Revision) -> None:
        self._modern_meta = encode_value(self._meta_for(agreed))[1:-1]
        self._declared = {}, self._modern_meta

    def set_log_level(self, level: LoggingLevel | None) -> None:
        """Set the log level that modern requests carry from now on; ``None`` asks for no log messages."""
        self.log_level = level
        if self.revision is not None and self.revision.modern:
            self._set_meta(self.revision)

    # --- our requests -------------------------------------------------------------------------------------------

    def request(
        self,
        spec: MethodSpec,
        params: common.Wire,
        *,
        wants_progress: bool = False,
        meta: dict[str, Any] | None = None,
        log_level: LoggingLevel | None = None,
        original: Received | None = None,
        extensions: Mapping[str, Any] | None = None,
    ) -> Outgoing:
        """Send a request. ``meta`` adds members to ``_meta``, under prefixed names of the caller's own.

        ``log_level``: least severe level of log messages wanted during this request, in place of the session's.
        ``original``: the params of another peer that these were made from; members unknown to their type are
        sent. ``extensions``: those that it declares beside the client's own (2026-07-28). The session sets all
        other members of ``_meta``. Nothing was sent if this raises.
        """
        agreed = self.revision
        if agreed is None or self.phase is not _READY:
            raise errors.LocalProtocolError(f"{spec.name} cannot be sent before the session is open")
        if spec.name not in self._sendable:
            self._check_sendable(spec, agreed)
        if getattr(params, "meta", None) is not None:
            params = structs.replace(params, meta=None)
        lowered = agreed.lower(params)
        encoded = encode_value(lowered) if original is None else bytes(original.carrying(lowered))
        id = next(self._ids)
        own = self._modern_meta
        if extensions and agreed.modern:
            if self._declared[0] != extensions:
                has = self._capabilities
                has = structs.replace(has, extensions={**(has.extensions or {}), **extensions})
                declaring = structs.replace(self._meta_for(agreed), client_capabilities=agreed.lower(has))
                self._declared = extensions, encode_value(declaring)[1:-1]
            own = self._declared[1]
        members = self._meta_members(id, wants_progress, meta, own)
        if log_level is not None and agreed.modern and self.log_level is None:
            members = b'%b,"%b":"%b"' % (members, common.LOG_LEVEL.encode(), log_level.encode())
        if members:
            encoded = prepend_members(b'"_meta":{%b}' % members, encoded)
        return self._open(spec, encoded, None, id=id, wants_progress=wants_progress)

    def _check_sendable(self, spec: MethodSpec, agreed: Revision) -> None:
        if not spec.note_sender("client", agreed.name):
            raise errors.NotInRevision(f"revision {agreed.name} has no {spec.name}")
        if not offers_method(self.server_capabilities, spec, agreed):
            needed = spec.extension or spec.needs
            raise errors.MethodNotFound(f"The server does not offer {needed}, so {spec.name} was not sent")
        self._sendable.add(spec.name)

    def _meta_members(self, id: int, wants_progress: bool, meta: dict[str, Any] | None, members: bytes) -> bytes:
        if self.carries is not None:
            # The caller's members win, so that a request that is retried stays in its original trace.
            meta = {**self.carries(id), **(meta or {})}
        if meta:
            own = encode_value({name: value for name, value in meta.items() if name not in _SESSION_WRITES})[1:-1]
            members = b",".join(part for part in (members, own) if part)
        if wants_progress:
            token = b'"progressToken":%d' % id
            return b"%b,%b" % (members, token) if members else token
        return members

    def handle_oversized(self, size: int, limit: int) -> Event:
        """Fail the only open request for a reply dropped for its size; if several are open, deadlines end them."""
        outgoing = self._only_open()
        if outgoing is None:
            return super().handle_oversized(size, limit)
        self._settle(outgoing.id)
        problem = f"The reply to {outgoing.method.name} was too large: {size} bytes, the limit is {limit}"
        return Replied(outgoing, None, None, problem)

    # --- requests of the server ---------------------------------------------------------------------------------

    @property
    def _is_modern(self) -> bool:
        return self.revision is not None and self.revision.modern

    def _refuse(self, id: RequestId | None, error: errors.PeerError) -> Event:
        if self._is_modern:
            # 2026-07-28 basic/transports/stdio: "The client MUST NOT write JSON-RPC responses."
            return Ignored(f"not answered, since this revision forbids it: {error.message}")
        return super()._refuse(id, error)

    def _request(self, envelope: Envelope, id: RequestId, method: str, params: common.RequestParams | None) -> Event:
        if (failed := self._fail_sent_back(envelope, id)) is not None:
            return failed
        if self._is_modern:
            # 2026-07-28 basic/transports/stdio: "The server MUST NOT write JSON-RPC requests"; and we write no replies.
            return Ignored(f"the server sent the request {shorten_text(method)}, which this revision forbids")
        try:
            return self._accept(envelope, id, method)
        except errors.PeerError as error:
            return self._refuse(id, error)

    def _accept(self, envelope: Envelope, id: RequestId, method: str) -> Event:
        spec = METHODS.get(method)
        if spec is None and self._takes(method):
            spec = unknown_request(method)
        agreed = self.revision or LATEST_LEGACY
        if spec is None or spec.kind != "request" or not spec.note_sender("server", agreed.name):
            raise errors.MethodNotFound(f"Method not found: {shorten_text(method)}")
        if method == "ping":
            return Answered(result_frame(id, b"{}"), id)
        if self.phase is not _READY:
            raise errors.InvalidRequest(f"Not initialized: {method} came before the handshake was complete")
        if spec.needs is not None and not declares_capability(self._capabilities, spec.needs):
            raise errors.MethodNotFound(f"Method not found: {spec.name}: this client does not offer it")
        params = read_params(envelope, spec)
        self._check_ask(spec, params)
        meta = getattr(params, "meta", None)
        request = Request(id, spec, params, envelope.params, agreed, meta, self._capabilities)
        self.incoming[id] = request
        return request

    def _check_ask(self, spec: MethodSpec, params: common.Wire) -> None:
        missing = missing_for_ask(spec, params, self._capabilities)
        if missing is not None:
            # 2025-11-25 client/sampling: an undeclared `tools` or `toolChoice` MUST be answered with an error;
            # client/elicitation: an undeclared mode is -32602.
            raise errors.InvalidParams(f"Invalid params: this client does not offer {msgspec.to_builtins(missing)}")
        # 2025-11-25 client/sampling, Association; roots/list and ping are always answered.
        if spec.name in ("sampling/createMessage", "elicitation/create") and not self.outgoing:
            raise errors.InvalidParams(f"Invalid request: {spec.name} outside of any request of this client's")

    def check_input_request(self, spec: MethodSpec, params: common.Wire) -> None:
        """Refuse an entry of ``inputRequests`` that asks for more than was declared (basic/patterns/mrtr)."""
        if missing_for_ask(spec, params, self._capabilities) is not None:
            raise errors.RemoteProtocolError(f"The server asks for {spec.name}, which this client did not declare")

    # --- notifications of the server ----------------------------------------------------------------------------

    def _takes(self, method: str) -> bool:
        return self.passes_on and method not in METHODS and len(method) <= MAX_NAME

    def _other_notification(self, event: Notified) -> Event:
        agreed = self.revision or LATEST_LEGACY
        if not event.method.note_sender("server", agreed.name):
            return Ignored(f"{event.method.name} is not the server's to send in revision {agreed.name}")
        return event

    def _cancel_arrived(self, params: lifecycle.CancelledNotificationParams) -> Event:
        if not self._is_modern:
            return super()._cancel_arrived(params)
        # 2026-07-28 basic/patterns/cancellation: it names a subscription of ours, which the server ends.
        outgoing = self.outgoing.get(params.request_id) if params.request_id is not None else None
        if outgoing is None or outgoing.method.name != "subscriptions/listen":
            return Ignored("cancelled: no such subscription")
        del self.outgoing[outgoing.id]
        return Replied(outgoing, Raw(b"{}"), None)
