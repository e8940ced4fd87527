"""The server's side of a session: handshake, discovery, and which requests are served when.

A legacy client opens with ``initialize``, and the session remembers what was agreed. A modern request carries all of
this itself. Both may share one channel (2026-07-28 basic/versioning, "Backward Compatibility").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, ClassVar, TypeVar

import msgspec
from msgspec import Raw

from antiphon import errors
from antiphon.protocol.call_record import first_id
from antiphon.protocol.events import Answered, Event, Ignored, Notified, Outgoing, Request
from antiphon.protocol.server_offer import ServerOffer, missing_for_ask
from antiphon.protocol.session import ALLOWED_BEFORE_READY, TRANSITIONS, PeerSession, Phase, read_params, shorten_text
from antiphon.wire.common import PROGRESS_TOKEN, PROTOCOL_VERSION, ClientCapabilities, RequestMeta, RequestParams, Wire
from antiphon.wire.envelope import Envelope, RequestId, decode_wire, encode_value, prepend_members, result_frame
from antiphon.wire.lifecycle import InitializeRequestParams, InitializeResult, ServerCapabilities
from antiphon.wire.logging import LoggingLevel, LoggingMessageNotificationParams, is_loud_enough
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS, MethodSpec, Side, unknown_request
from antiphon.wire.revisions import Revision

_REQUESTS = {name: row for name, row in METHODS.items() if row.kind == "request"}
NO_SESSIONS = "this server keeps no sessions (stateless=True), so it can ask nothing of clients up to 2025-11-25"
# Looked up once, because in Python 3.11 a look at a member of an enumeration costs as much as a call.
_NEW, _ANSWERED = Phase.NEW, Phase.ANSWERED
_NO_REVISION = f"Invalid params: _meta must have {PROTOCOL_VERSION}"


class _PeekMeta(msgspec.Struct):
    protocol_version: Any = msgspec.field(name=PROTOCOL_VERSION, default=None)


class _SessionPeek(msgspec.Struct):
    meta: _PeekMeta | None = msgspec.field(name="_meta", default=None)


_peek = msgspec.json.Decoder(_SessionPeek).decode

P = TypeVar("P", Wire, "Wire | None")


class ServerSession(PeerSession):
    """The rules for one client. See ``PeerSession`` for how to use it.

    ``assumed``: a legacy revision, for requests of clients whose handshake nobody remembers. Each is served by itself:
    ``initialize`` is answered at any time, and nothing is known of what the client can do, so nothing is asked of it.
    """

    side: ClassVar[Side] = "server"

    def __init__(self, offer: ServerOffer, assumed: Revision | None = None) -> None:
        super().__init__()
        self.phase = Phase.NEW if assumed is None else Phase.READY
        self.revision = assumed
        self.is_kept = assumed is None
        """Whether anything is remembered from one legacy request to the next."""
        self.client: InitializeRequestParams | None = None
        """What a legacy client declared in the handshake."""
        self.log_level: LoggingLevel | None = None
        """The level a legacy client has set; ``None`` sends messages of all levels."""
        self.offered_to: Callable[[ClientCapabilities | None], ServerOffer] | None = None
        """Returns what is offered to a client with these capabilities, where that is not the same for all clients."""
        self._offer = offer if self.is_kept else offer.sessionless
        self._has_modern_client = False

    def offer(self, newer: ServerOffer) -> None:
        """Declare what the server offers from now on, and all that it declared before, on which a client may rely."""
        self._offer = self._offer.widen_offer(newer if self.is_kept else newer.sessionless)

    @property
    def capabilities(self) -> ServerCapabilities:
        """What the server offers."""
        return self._offer.capabilities

    def go_on(self, client: InitializeRequestParams, agreed: Revision, *, is_ready: bool, moved: int) -> None:
        """Be the session of a client that has greeted another process.

        ``moved`` counts the processes before this one: a late reply to an ask of theirs must fit none of ours.
        """
        self._look_again(client.capabilities)
        self.client, self.revision = client, agreed
        self.phase = Phase.READY if is_ready else Phase.ANSWERED
        self._ids = count(first_id(moved))

    # --- requests -----------------------------------------------------------------------------------------------

    def _request(self, envelope: Envelope, id: RequestId, method: str, params: RequestParams | None) -> Event:
        spec = _REQUESTS.get(method)
        try:
            if spec is None:
                self._check_served(envelope, method)
                if not self._offer.takes(method):
                    raise _not_found(method)
                spec = unknown_request(method)
            given = params if params is not None else self._read(envelope, spec)
            meta = given.meta
            if meta is None or meta.protocol_version is None:
                return self._legacy(id, spec, given, envelope.params)
            offer = self._offer
            agreed = offer.modern.get(meta.protocol_version) or offer.modern_revision(meta.protocol_version)
            return self._modern(Request(id, spec, given, envelope.params, agreed, meta, meta.client_capabilities))
        except errors.PeerError as error:
            return self._fail_sent_back(envelope, id) or self._refuse(id, error)

    def _read(self, envelope: Envelope, spec: MethodSpec) -> Any:
        try:
            return decode_wire(envelope.params, spec.params)
        except msgspec.DecodeError:
            # A wrong revision, phase or method is reported first, because it may be why the params do not
            # fit.
            self._check_served(envelope, spec.name)
            return read_params(envelope, spec)

    def _modern(self, request: Request) -> Event:
        name = request.method.name
        self._has_modern_client = True
        if name not in self._offer.servable[request.revision.name] and not self._offer.takes(name):
            raise _not_found(name)
        if request.capabilities is None:
            raise errors.InvalidParams("Invalid params: _meta must have io.modelcontextprotocol/clientCapabilities")
        if name == "server/discover":
            self._look_again(request.capabilities)
            return self._answer(request, self._offer.handle_discovery())
        self.incoming[request.id] = request
        return request

    def _legacy(self, id: RequestId, spec: MethodSpec, params: RequestParams, raw: Raw) -> Event:
        name = spec.name
        if name == "initialize":
            return self._initialize(id, params)
        agreed = self.revision or self._revision_before_handshake(name, params.meta)
        if name not in self._offer.servable[agreed.name] and not self._offer.takes(name):
            self._check_discover(name)
            raise _not_found(name)
        client = self.client
        declared = client.capabilities if client is not None else None
        request = Request(id, spec, params, raw, agreed, params.meta, declared)
        if name == "ping":
            return self._answer(request, Raw(b"{}"))
        self.incoming[id] = request
        return request

    def _answer(self, request: Request, result: Wire | Raw) -> Answered:
        return Answered(result_frame(request.id, self._encode_result(request, result)), request.id)

    def _initialize(self, id: RequestId, params: RequestParams) -> Event:
        following = TRANSITIONS.get((self.phase, "initialize"))
        if following is None and self.is_kept:
            raise errors.InvalidRequest("Already initialized")
        if not isinstance(params, InitializeRequestParams):
            raise errors.InvalidParams("Invalid params of initialize")
        self._look_again(params.capabilities)
        agreed = self._offer.legacy_revision(params.protocol_version)
        if following is not None:
            self.phase, self.client, self.revision = following, params, agreed
        result = InitializeResult(
            protocol_version=agreed.name,
            capabilities=self._offer.capabilities,
            server_info=self._offer.info,
            instructions=self._offer.instructions,
        )
        return Answered(result_frame(id, encode_value(agreed.lower(result))), id)

    def _look_again(self, declared: ClientCapabilities | None) -> None:
        if self.offered_to is not None:
            self.offer(self.offered_to(declared))

    def _revision_before_handshake(self, method: str, meta: RequestMeta | None = None) -> Revision:
        """Return the revision for a request that names none and comes before the handshake."""
        self._check_discover(method)
        newest_legacy = self._offer.newest_legacy
        if newest_legacy is None or (meta and (meta.client_capabilities or meta.client_info)):
            # 2026-07-28 basic, _meta: "A request missing any required field is malformed; ... MUST reject ... -32602"
            raise errors.InvalidParams(_NO_REVISION)
        if method not in ALLOWED_BEFORE_READY:
            raise errors.InvalidRequest(f"Not initialized: send initialize before {shorten_text(method)}")
        return newest_legacy

    def _check_discover(self, method: str) -> None:
        if method == "server/discover":
            raise errors.InvalidParams(_NO_REVISION)

    def _check_served(self, envelope: Envelope, method: str) -> None:
        """Raise an error if a request is wrong apart from its params: in its revision, its phase or its method."""
        try:
            meta = _peek(envelope.params or b"{}").meta
        except msgspec.DecodeError:
            meta = None
        if meta is not None and meta.protocol_version is not None:
            agreed = self._offer.modern_revision(meta.protocol_version)
        else:
            agreed = self.revision or self._revision_before_handshake(method)
        if method not in self._offer.servable[agreed.name] and not self._offer.takes(method):
            self._check_discover(method)
            raise _not_found(method)

    # --- answers ------------------------------------------------------------------------------------------------

    def _has_null_ids(self) -> bool:
        return super()._has_null_ids() and not (self.revision is None and self._has_modern_client)

    def _encode_result(self, request: Request, result: Wire | Raw) -> bytes:
        if request.revision.modern:
            return self._offer.results.encode(request, result)
        return super()._encode_result(request, result)

    # --- notifications ------------------------------------------------------------------------------------------

    def _takes(self, method: str) -> bool:
        return self._offer.takes(method)

    def _other_notification(self, event: Notified) -> Event:
        name = event.method.name
        if name not in METHODS and self._has_modern_client:
            return event
        if self.revision is None or not event.method.note_sender("client", self.revision.name):
            return Ignored(f"{name} is not the client's to send now")
        if name == "notifications/initialized":
            following = TRANSITIONS.get((self.phase, name))
            if following is None:
                return Ignored(f"{name} out of order")
            self.phase = following
        return event

    def log(
        self, params: LoggingMessageNotificationParams, request: Request | None = None, original: Received | None = None
    ) -> bytes | None:
        """Encode a log message, or return ``None`` if the client does not want it. ``original``: see ``notify``.

        2026-07-28 server/utilities/logging: nothing is sent unless the request carries a ``logLevel`` and is still
        being served. 2025-11-25 server/utilities/logging: nothing is sent unless the capability is declared.
        """
        if self._offer.capabilities.logging is None:
            return None
        if request is not None and request.revision.modern:
            wanted = request.meta.log_level if request.meta is not None else None
            is_live = self.incoming.get(request.id) is request
            if not is_live or wanted is None or not is_loud_enough(params.level, wanted):
                return None
        elif self.log_level is not None and not is_loud_enough(params.level, self.log_level):
            return None
        return self.notify(METHODS["notifications/message"], params, request, original)

    # --- asks ---------------------------------------------------------------------------------------------------

    def check_ask(self, spec: MethodSpec, params: P, request: Request) -> P:
        """Return the params of an ask in the request's revision, if that has the ask and its client the capability."""
        return self._check_ask(spec, params, request.revision, request.capabilities)

    def _check_ask(self, spec: MethodSpec, params: P, agreed: Revision, declared: ClientCapabilities | None) -> P:
        """Check an ask, see ``check_ask``; return the params as the revision carries them."""
        if not spec.exists_in(agreed.name):
            raise errors.NotInRevision(f"revision {agreed.name} has no {spec.name}")
        lowered = agreed.lower(params) if params is not None else params
        missing = missing_for_ask(spec, params, declared)
        if missing is not None:
            needed = {"requiredCapabilities": msgspec.to_builtins(missing)}
            raise errors.MissingCapability(f"The client does not offer what {spec.name} needs", data=needed)
        return lowered

    def ask(
        self,
        spec: MethodSpec,
        params: Wire | Raw,
        request: Request | None,
        *,
        wants_progress: bool = False,
        is_checked: bool = False,
        meta: Mapping[str, object] | None = None,
    ) -> Outgoing:
        """Send a request to a legacy client, as a child of the request that it belongs to.

        Only ``ping`` and ``roots/list`` belong to none. ``is_checked``: ``check_ask`` returned the params for
        this request.
        """
        agreed = self.revision if request is None else request.revision
        if not self.is_kept:
            raise errors.LocalProtocolError(f"{spec.name} cannot be sent: {NO_SESSIONS}")
        # 2025-11-25 basic/lifecycle: before "initialized" a server sends no requests but pings.
        is_early = self.phase is _NEW or (self.phase is _ANSWERED and spec.name != "ping")
        if agreed is None or (is_early and not agreed.modern):
            raise errors.LocalProtocolError(f"{spec.name} cannot be sent before the handshake is complete")
        if not spec.note_sender("server", agreed.name):
            raise errors.NotInRevision(f"revision {agreed.name} has no {spec.name} that a server sends")
        if request is None and spec.ask and spec.name != "roots/list":
            raise errors.LocalProtocolError(f"{spec.name} must belong to a request of the client's")
        if request is not None and self.incoming.get(request.id) is not request:
            raise errors.LocalProtocolError(f"{spec.name} belongs to a request that has ended: await it in the handler")
        if not is_checked and isinstance(params, Wire):
            declared = self.client_capabilities if request is None else request.capabilities
            params = self._check_ask(spec, params, agreed, declared)
        encoded = encode_value(params)
        id = next(self._ids)
        members: dict[str, object] = dict(self.carries(id)) if self.carries is not None else {}
        members.update(meta or {})
        if wants_progress:
            members[PROGRESS_TOKEN] = id
        if members:
            encoded = prepend_members(b'"_meta":%b' % encode_value(members), encoded)
        return self._open(spec, encoded, request, id=id, wants_progress=wants_progress)

    @property
    def client_capabilities(self) -> ClientCapabilities | None:
        """What a legacy client declared in the handshake."""
        return self.client.capabilities if self.client is not None else None


def _not_found(method: str) -> errors.MethodNotFound:
    return errors.MethodNotFound(f"Method not found: {shorten_text(method)}")
