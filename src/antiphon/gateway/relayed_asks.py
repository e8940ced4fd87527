"""Who answers what the servers behind a gateway ask: its host, or the client whose call the ask belongs to.

Owns which requests of clients are open at each server, and so whose an ask or a log message is.
"""

from __future__ import annotations

import asyncio
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from contextvars import ContextVar, Token
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal
from weakref import ReferenceType, WeakSet, ref

import msgspec
from msgspec import Struct, field, structs

from antiphon.client.client import Client
from antiphon.errors import LocalProtocolError, MethodNotFound, MissingCapability, NotInRevision, PeerError, Rejected
from antiphon.gateway.terms import ElicitsIn
from antiphon.host.config.settings import QUICK_CANCEL
from antiphon.host.host import Host
from antiphon.host.pipeline.case import note_unanswered
from antiphon.host.review.review import Deny, ElicitItem, Filled, NoReviewer, Reviewer
from antiphon.server.rate_limits import Bucket, Rate
from antiphon.server.server_middleware import ServerRequest
from antiphon.wire.common import ClientCapabilities, Implementation
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.logging import LoggingMessageNotificationParams
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS
from antiphon.wire.origin import Origin
from antiphon.wire.revisions import find_revision
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult
from antiphon.wire.skills import SKILLS
from antiphon.wire.task import TASKS

Version = tuple[int, ...]


class KnownClient(Struct, frozen=True, kw_only=True):
    """The first versions of one client that show elicitations; see ``known_clients.toml``."""

    form: Version
    url: Version | None = None


_CLIENTS_FILE = Path(__file__).with_name("known_clients.toml")
KNOWN_CLIENTS = msgspec.toml.decode(_CLIENTS_FILE.read_bytes(), type=dict[str, KnownClient])
"""The known clients, by the names that they declare."""

_NUMBERS = re.compile(r"\d{1,9}(?:\.\d{1,9}){0,3}")


def shows_elicitations(client: Implementation | None, mode: Literal["form", "url"]) -> bool:
    """Tell whether a client is known to show elicitations of a mode to its user.

    ``client``: its name and version, as it declares them. A client that lies only keeps its own user from being asked.
    """
    known = KNOWN_CLIENTS.get(client.name) if client is not None else None
    since = None if known is None else known.form if mode == "form" else known.url
    found = None if client is None else _NUMBERS.search(client.version)
    return since is not None and found is not None and tuple(map(int, found[0].split("."))) >= since


NOTICE_RATE = Rate(per_second=100, burst=200)
"""Notifications that the servers of one group may send outside of any request; further ones are dropped."""


class Answerers(Struct, frozen=True):
    """What answers the asks of one server, as ``Client`` takes it."""

    sampling: Any
    elicitation: Any
    roots: Any
    open: OpenRequests
    """The requests that are open at the server; they tell which client an ask belongs to."""
    declared: ClientCapabilities = ClientCapabilities()
    """The client's own capabilities, if asks are relayed to it; they are declared to the server unchanged."""
    by_host: bool = True
    """Whether a host answers."""


_open_request: ContextVar[ServerRequest] = ContextVar("antiphon_gateway_request")
"""The request that this task makes to a server behind the gateway."""


class During(Struct, eq=False):
    """One request of ``OpenRequests``. A class, because a generator takes ten times as long, in every call."""

    _open: list[ServerRequest]
    _request: ServerRequest
    turn: asyncio.Lock | None
    """The lock to hold during the request; ``None`` if several requests may be open at once."""
    _before: Token[ServerRequest] | None = None

    def begin(self) -> None:
        """Begin the request. The caller holds ``turn``, if there is one."""
        self._before = _open_request.set(self._request)
        self._open.append(self._request)

    def end(self) -> None:
        """End the request, and release ``turn``."""
        self._open.remove(self._request)
        if self._before is not None:
            _open_request.reset(self._before)
        if self.turn is not None:
            self.turn.release()


class Clients(Struct, eq=False):
    """The connections of one group's clients, to which messages are sent that belong to no request."""

    _send: Callable[[object, str, Received], bool] = lambda _client, _method, _params: False
    _list_roots: Callable[[object], Awaitable[Received]] | None = None
    _connected: WeakSet[object] = field(default_factory=WeakSet)
    _changed_roots: ReferenceType[object] | None = None
    _room: Bucket | None = None

    def __contains__(self, client: object) -> bool:
        return client in self._connected

    def add(self, client: object) -> None:
        """Add a connection; it is forgotten when it has ended."""
        self._connected.add(client)

    def tell(self, method: str, params: Received) -> None:
        """Send a notification to all clients, unless more come than ``NOTICE_RATE`` allows."""
        now = asyncio.get_running_loop().time()
        if self._room is None:
            self._room = Bucket(NOTICE_RATE, now)
        if self._room.try_take(now):
            for client in list(self._connected):
                self._send(client, method, params)

    def roots_changed(self, client: object) -> None:
        """Note that this client's roots have changed, so that it is the one to be asked for roots."""
        self._changed_roots = ref(client)

    async def list_roots(self) -> Received:
        """Ask the client whose roots have changed, or the only one.

        Raises ``Rejected``: there are several clients, and none has reported a change of its roots.
        """
        changed = self._changed_roots() if self._changed_roots is not None else None
        connected = list(self._connected)
        client = changed or (connected[0] if len(connected) == 1 else None)
        if client is None or self._list_roots is None:
            raise _no_call()
        return await self._list_roots(client)


class OpenRequests:
    """The requests of clients that one server works on now.

    A server of 2026-07-28 asks in its answer to a request, so the ask belongs to that request. An older server sends
    its ask as a request, which does not name the call: then the call is known only if a single one is open.

    Args:
        one_at_a_time: give an older server one request at a time, so that the call of an ask is always known.
    """

    def __init__(self, *, one_at_a_time: bool = False) -> None:
        self.clients = Clients()
        """All clients whose requests may be open."""
        self._turn = asyncio.Lock() if one_at_a_time else None
        self._open: list[ServerRequest] = []
        self._causes: dict[ServerRequest, list[str]] = {}

    def during(self, request: ServerRequest, client: Client) -> During:
        """Return a context during which a client's request counts as open at the server."""
        if self._turn is None:
            return During(self._open, request, None)
        spoken = find_revision(client.revision)
        return During(self._open, request, self._turn if spoken is None or not spoken.modern else None)

    def owner(self, origin: Origin) -> ServerRequest | None:
        """Return the request that an ask belongs to, if that is known."""
        if origin.round is None:
            # The asyncio task that reads from an older server has the context of the request that started the server,
            # which may have ended since. ``origin.call`` is not set if the ask may belong to a request that has ended.
            return self._open[0] if len(self._open) == 1 and origin.call is not None else None
        return _open_request.get(None)

    def note_causes(self, origin: Origin) -> AbstractContextManager[None]:
        """Return a context in which the host answers an ask: why it does not is noted for the ask's request."""
        request = self.owner(origin)
        return note_unanswered([] if request is None else self._causes.setdefault(request, []))

    def take_causes(self, request: ServerRequest) -> str:
        """Say why asks of a request that has ended were not answered, and forget it; empty if all were."""
        return "; ".join(dict.fromkeys(self._causes.pop(request, ()))) if self._causes else ""

    async def log(self, message: Received) -> None:
        """Pass a log message on to the newest open request of each client; to all clients if no request is open."""
        if not self._open:
            self.clients.tell("notifications/message", message)
        for request in self._newest():
            await request.log(message)

    async def notify(self, method: str, params: Received) -> None:
        """Pass a notification on in the same way."""
        if not self._open:
            self.clients.tell(method, params)
        for request in self._newest():
            await request.notify(method, params)

    def _newest(self) -> Sequence[ServerRequest]:
        return list({request.client: request for request in self._open}.values())


# --- by the host -----------------------------------------------------------------------------------------------------


def by_host(
    host: Host,
    elicits_in: ElicitsIn = "host",
    quick_cancel: float = QUICK_CANCEL,
    clock: Callable[[], float] = time.monotonic,
) -> Answerers:
    """Make answerers that pass every ask to a host. A host offers no roots.

    ``quick_cancel``: a client that cancels within these seconds has not shown the elicitation, so the host's own
    reviewer shows it. ``clock``: returns the time in seconds.
    """
    requests = OpenRequests()
    noting = _Noting(host, requests)
    elicitor = noting.elicit if elicits_in == "host" else _Elicitor(noting, requests, elicits_in, quick_cancel, clock)
    return Answerers(noting, elicitor, None, requests)


class _Noting:
    """A host that has the client of an ask's call told why nobody answered; all else is the host's own."""

    def __init__(self, host: Host, requests: OpenRequests) -> None:
        self._host = host
        self._requests = requests

    def __getattr__(self, name: str) -> Any:
        return getattr(self._host, name)

    async def __call__(self, params: CreateMessageRequestParams, origin: Origin) -> CreateMessageResult:
        with self._requests.note_causes(origin):
            return await self._host(params, origin)

    async def elicit(
        self, params: ElicitRequestParams, origin: Origin, *, reviewer: Reviewer | None = None
    ) -> ElicitResult:
        with self._requests.note_causes(origin):
            return await self._host.elicit(params, origin, reviewer=reviewer)


@dataclass(eq=False)
class _Elicitor:
    """Answers elicitations by a host, but may have a client show them in place of the host's reviewer."""

    _host: _Noting
    _requests: OpenRequests
    _elicits_in: ElicitsIn
    _quick_cancel: float
    _clock: Callable[[], float]

    @property
    def capabilities(self) -> ClientCapabilities:
        """The host's capabilities."""
        return self._host.capabilities

    def handed_over(self, origin: Origin, why: str | None = None) -> Any:
        return self._host.handed_over(origin, why)

    async def __call__(self, params: ElicitRequestParams, origin: Origin) -> ElicitResult:
        return await self._host.elicit(params, origin)

    async def forward(self, ask: Received, origin: Origin, key: str | None) -> Received | ElicitResult:
        """Have the client show the elicitation, if its call is known and the client can be expected to show it."""
        request = self._requests.owner(origin)
        if request is None or not self._is_shown_by(request, ask.read):
            return await self._host.elicit(ask.read, origin)
        send = partial(request.forward, "elicitation/create", _with_id(ask), key=key)
        shown = _RelayedReviewer(send, self._host.reviewer, self._quick_cancel, self._clock)
        result = await self._host.elicit(ask.read, origin, reviewer=shown)
        return shown.answer if shown.answer is not None and shown.answer.read is result else result

    def _is_shown_by(self, request: ServerRequest, params: ElicitRequestParams) -> bool:
        offered = request.ctx.request.capabilities.elicitation
        if offered is None or (params.mode == "url" and offered.url is None):
            return False
        if params.mode == "form" and offered.form is None and offered.url is not None:
            return False
        return self._elicits_in == "client" or shows_elicitations(request.ctx.request.client, params.mode)


@dataclass(eq=False)
class _RelayedReviewer(Reviewer):
    """A reviewer that has one elicitation shown by a client, or by another reviewer if the client cancels at once.

    ``_send``: asks the client. The other members are those of ``by_host``.
    """

    _send: Callable[[], Awaitable[Received]]
    _reviewer: Reviewer | None
    _quick_cancel: float
    _clock: Callable[[], float]
    answer: Received | None = None
    """The client's answer, if that is the result."""

    async def elicit(self, item: ElicitItem) -> ElicitResult | Filled | Deny:
        """Have the client ask its user."""
        started = self._clock()
        try:
            answer = await self._send()
        except Rejected:
            return ElicitResult(action="decline")
        except (MissingCapability, NotInRevision, LocalProtocolError, PeerError) as error:
            raise NoReviewer(f"the client did not show it: {error}") from None
        is_quick = answer.read.action == "cancel" and self._clock() - started < self._quick_cancel
        if is_quick and self._reviewer is not None and self._reviewer.available:
            return await self._reviewer.elicit(item)
        self.answer = answer
        return answer.read


# --- by the client ---------------------------------------------------------------------------------------------------


def by_client(capabilities: ClientCapabilities) -> Answerers:
    """Make answerers that pass every ask on to the client whose request it belongs to.

    ``capabilities``: the client's capabilities, which are declared to the server unchanged.
    """
    requests = OpenRequests(one_at_a_time=True)

    def passes(method: str, offered: object) -> _Relayed | None:
        return _Relayed(method, capabilities, requests) if offered is not None else None

    return Answerers(
        passes("sampling/createMessage", capabilities.sampling),
        passes("elicitation/create", capabilities.elicitation),
        passes("roots/list", capabilities.roots),
        requests,
        capabilities,
        by_host=False,
    )


class _Relayed(Struct, eq=False):
    """Passes the asks of one method on to the client. See ``Forwards``."""

    _method: str
    capabilities: ClientCapabilities
    _requests: OpenRequests

    async def __call__(self, *_: object) -> Any:
        """Refuse: every ask comes to ``forward``."""
        raise Rejected("Not passed on", data={"reason": "no-call"})

    async def forward(self, ask: Received, origin: Origin, key: str | None) -> Received:
        """Have the client answer."""
        request = self._requests.owner(origin)
        if request is None and self._method == "roots/list":
            # Roots belong to no call: a server may ask for them at any time (2025-11-25 client/roots).
            return await self._requests.clients.list_roots()
        if request is None:
            raise _no_call()
        try:
            return await request.forward(self._method, _with_id(ask), key=key)
        except NotInRevision as error:
            # The client declares the capability, but its revision does not have this request.
            feature = self._method.partition("/")[0]
            raise MissingCapability(str(error), data={"requiredCapabilities": {feature: {}}}) from None


class LogsPassedOn:
    """Receives the log messages of one server. See ``ForwardsLog``."""

    def __init__(self, requests: OpenRequests) -> None:
        self._requests = requests

    def __call__(self, _params: LoggingMessageNotificationParams) -> None:
        """Do nothing, because ``forward`` gets every message."""

    async def forward(self, message: Received) -> None:
        """Pass a message on to the client whose request is open."""
        await self._requests.log(message)


class PassesOn:
    """Passes messages of extensions from one server on to the clients. See ``client.Extension``."""

    def __init__(self, answerers: Answerers) -> None:
        self._requests = answerers.open
        declared = answerers.declared
        self.capabilities = ClientCapabilities(
            extensions=without_ours(declared.extensions), experimental=declared.experimental
        )
        """The client's extensions, if asks are relayed to it."""

    async def requested(self, method: str, params: Received, origin: Origin) -> Received:
        """Have the client answer whose request this belongs to, if it declares an extension."""
        request = self._requests.owner(origin)
        offered = ClientCapabilities() if request is None else request.ctx.request.capabilities
        if request is None or not (without_ours(offered.extensions) or offered.experimental):
            raise MethodNotFound(f"Method not found: {method}")
        try:
            return await request.forward(method, params)
        except NotInRevision:
            raise MethodNotFound(f"Method not found: {method}: the client's revision has no such requests") from None

    def notified(self, method: str, params: Received) -> object:
        """Pass a notification on to the clients with open requests, or to all clients if no request is open."""
        if method in METHODS:
            # The end of a URL elicitation is reported at any time, mostly after the call that asked for it.
            return self._requests.clients.tell(method, params)
        return self._requests.notify(method, params)


def without_ours(extensions: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return the extensions that this library does not implement; ``None`` if there are none."""
    return {name: value for name, value in (extensions or {}).items() if name not in (TASKS, SKILLS)} or None


def choose_extensions(client: Mapping[str, Any] | None, *, tasks: bool) -> dict[str, Any] | None:
    """Return the extensions to declare in a request for a client. ``tasks``: whether the call may become a task."""
    declared = without_ours(client)
    return {**(declared or {}), TASKS: {}} if tasks else declared


def _no_call() -> Rejected:
    return Rejected("The request belongs to no open call of this client", data={"reason": "no-call"})


def _with_id(ask: Received) -> Received:
    """Add an id to a URL elicitation: clients of 2025-11-25 need one, and servers of 2026-07-28 send none."""
    params = ask.read
    if not isinstance(params, ElicitRequestParams) or params.mode != "url" or params.elicitation_id is not None:
        return ask
    named = structs.replace(params, elicitation_id=uuid.uuid4().hex)
    return Received(ask.carrying(named), named)
