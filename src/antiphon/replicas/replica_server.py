"""A server as one of several replicas: its key, what restores a legacy session, and notices of changes.

The engine they share is in ``engines``, which requests go where in ``http``.
"""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncGenerator, Callable, Collection, Coroutine, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import ClusterUnavailable, ConfigError, PeerError
from antiphon.machine.asyncio_tasks import end_tasks
from antiphon.protocol.caller import Covers
from antiphon.replicas.engines.base import LEASE, Tallies
from antiphon.wire.envelope import decode_wire, encode_value
from antiphon.wire.lifecycle import InitializeRequestParams
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.revisions import find_revision

if TYPE_CHECKING:
    from antiphon.channel import Peer
    from antiphon.engine.connection import Connection
    from antiphon.protocol.server_session import ServerSession
    from antiphon.replicas.engines.base import Cluster

log = logging.getLogger("antiphon.server")

_KEY_FOR = 10 * 365 * 86_400.0
"""Seconds for which the engine keeps a key that was made for it."""

MAX_NOTICES = 1_000
"""Most notices that wait for the engine; further ones are dropped, since clients also find changes by polling."""


_PAUSE = 0.5
"""Seconds between two attempts to send a notice."""


class _State(Struct, array_like=True):
    """Everything needed to restore a legacy session."""

    client: Raw
    """The params of its ``initialize``."""
    revision: str
    is_ready: bool
    log_level: LoggingLevel | None
    uris: list[str]
    """The resources it subscribes to."""


class _Notice(Struct, array_like=True, frozen=True):
    """A change; see ``Service.on_notice``."""

    kind: str
    uri: str


_decode_state = msgspec.json.Decoder(_State).decode
_decode_notice = msgspec.json.Decoder(_Notice).decode


class _Sealer(Protocol):
    """What a server encrypts with (``server.state.request_state.Seal``)."""

    is_shared: bool

    def seal_bytes(self, data: bytes, bound_to: bytes) -> bytes: ...
    def open_bytes(self, blob: bytes, bound_to: bytes) -> bytes: ...


class _SubscribedUris(Protocol):
    """Which resources each client subscribes to (``server.served_subscriptions.Subscriptions``)."""

    def of(self, peer: Connection[ServerSession]) -> Collection[str]: ...
    def restore(self, peer: Connection[ServerSession], uris: Collection[str]) -> None: ...


@dataclass(eq=False)
class Replicas:
    """The part of one server in its cluster.

    ``share``: called with the common key, to seal with it from then on. ``noticed``: notifies the clients of this
        process of a change.
    """

    cluster: Cluster
    _name: str
    _seal: _Sealer
    _subscriptions: _SubscribedUris
    _share: Callable[[bytes], None]
    _noticed: Callable[[str, str], None]
    _loop: asyncio.AbstractEventLoop | None = None
    _untold: set[tuple[str, str]] = field(default_factory=set)
    """Notices that the event loop has not taken up yet; the same change is not added again meanwhile."""
    _waiting: dict[_Notice, None] = field(default_factory=dict)
    """Notices to send to other replicas, each once, in order."""
    _telling: asyncio.Task[None] | None = None
    _made_key: bytes | None = None
    """The key in the engine, if the server was given none."""
    _storing_key: asyncio.Task[None] | None = None

    def __post_init__(self) -> None:
        seal = self._seal
        topic = f"tallies/{self._name}"
        self.tallies = Tallies(self.cluster, topic, seal.seal_bytes, seal.open_bytes, time.monotonic)
        """What each replica counts and reports to the others."""

    @asynccontextmanager
    async def joined(self) -> AsyncGenerator[None]:
        """Take part in the cluster. Raises ``ClusterUnavailable``: the engine cannot be reached."""
        await self.cluster.open()
        ends: list[Callable[[], None]] = []
        counting: asyncio.Task[None] | None = None
        try:
            await self._agree_on_key()
            ends += self.cluster.listen(self._topic, self._heard), self.cluster.on_lapse(self._store_key_again)
            counting = asyncio.get_running_loop().create_task(self.tallies.run())
            self._loop = asyncio.get_running_loop()
            yield
        finally:
            self._loop = None
            self._untold.clear()
            self._waiting.clear()
            for end in ends:
                end()
            await end_tasks(self._telling, self._storing_key, counting)
            await self.cluster.close()

    def connect_endpoint(self, options: dict[str, Any], covers: Covers | None) -> None:
        """Complete the options of an HTTP endpoint (``HttpApp``) with what it shares with those of other replicas."""
        from antiphon.replicas.http.membership import Membership
        from antiphon.replicas.http.records import ReplicaCommons, SharedEvents

        common = ReplicaCommons(
            cluster=self.cluster,
            name=self._name,
            seal=self._seal.seal_bytes,
            unseal=self._seal.open_bytes,
            state_of=self._state_of,
            restore=self._restore,
            tallies=self.tallies,
            covers=covers,
        )

        options["homes"] = partial(Membership, common)
        options["event_store"] = options.get("event_store") or SharedEvents(common)

    async def _agree_on_key(self) -> None:
        """Use the key that the first replica has made and stored, if the server was given none."""
        if self._seal.is_shared:
            return
        place = f"key/{self._name}"
        made = os.urandom(32)
        if not await self.cluster.add(place, made, _KEY_FOR):
            found = await self.cluster.get(place)
            if found is None or len(found) != len(made):
                raise ConfigError(
                    "The key in the cluster's engine is not valid; give the server its own: Server(keys=[...])"
                )
            made = found
        self._made_key = made
        self._share(made)

    def _store_key_again(self) -> None:
        """Store the key again if the engine has lost it, before a replica that starts makes another."""
        if self._made_key is not None and (self._storing_key is None or self._storing_key.done()):
            storing = self.cluster.add(f"key/{self._name}", self._made_key, _KEY_FOR)
            self._storing_key = asyncio.get_running_loop().create_task(_store_quietly(storing))

    # --- sessions -----------------------------------------------------------------------------------------------

    def _state_of(self, peer: Peer) -> bytes:
        connection = cast("Connection[ServerSession]", peer)
        session = connection.session
        client = session.client
        if client is None or session.revision is None:
            raise RuntimeError("a session is recorded after its handshake has begun")
        uris = sorted(self._subscriptions.of(connection))
        ready = connection.ready.is_set()
        return encode_value(_State(Raw(encode_value(client)), session.revision.name, ready, session.log_level, uris))

    def _restore(self, peer: Peer, state: bytes, moved: int) -> None:
        connection = cast("Connection[ServerSession]", peer)
        found = _decode_state(state)
        agreed = find_revision(found.revision)
        if agreed is None:
            raise ConfigError(
                f"A session of revision {found.revision} cannot go on here: this server does not speak it"
            )
        client = decode_wire(found.client, InitializeRequestParams)
        connection.session.go_on(client, agreed, is_ready=found.is_ready, moved=moved)
        connection.session.log_level = found.log_level
        if found.is_ready:
            connection.ready.set()
        self._subscriptions.restore(connection, found.uris)

    # --- notices ------------------------------------------------------------------------------------------------

    @property
    def _topic(self) -> str:
        return f"changes/{self._name}"

    def tell(self, kind: str, uri: str) -> None:
        """Tell the other replicas what has changed here; may be called from any thread. See ``Service.on_notice``."""
        if self._loop is not None and (kind, uri) not in self._untold:
            self._untold.add((kind, uri))
            self._loop.call_soon_threadsafe(self._spread_change, kind, uri)

    def _spread_change(self, kind: str, uri: str) -> None:
        self._untold.discard((kind, uri))
        if len(self._waiting) >= MAX_NOTICES:
            log.warning("a change is not told to other replicas: too many wait")
            return
        self._waiting[_Notice(kind, uri)] = None
        if self._telling is None or self._telling.done():
            self._telling = asyncio.get_running_loop().create_task(self._tell_on())

    async def _tell_on(self) -> None:
        """Send the waiting notices, as soon as the engine can be reached."""
        late: dict[_Notice, None] = {}
        while self._waiting:
            notice = next(iter(self._waiting))
            # Removed first, so that another change from now on is sent, too.
            del self._waiting[notice]
            sealed = self._seal.seal_bytes(encode_value(notice), self._topic.encode())
            try:
                await self.cluster.publish(self._topic, sealed)
            except ClusterUnavailable as error:
                if not late:
                    log.warning("changes cannot be told to other replicas yet: %s", error)
                self._waiting = {notice: None} | self._waiting
                late |= self._waiting
                await asyncio.sleep(_PAUSE)
        if late:
            # An engine that was just restarted may have lacked replicas: send these again when all have renewed their
            # lease.
            asyncio.get_running_loop().call_later(LEASE, self._tell_again, late)

    def _tell_again(self, notices: Iterable[_Notice]) -> None:
        for notice in notices if self._loop is not None else ():
            self._spread_change(notice.kind, notice.uri)

    def _heard(self, replica: str, sealed: bytes) -> None:
        try:
            notice = _decode_notice(self._seal.open_bytes(sealed, self._topic.encode()))
        except (PeerError, msgspec.DecodeError):
            log.warning("a notice of another replica cannot be read: do all replicas have the same keys?")
            return
        self._noticed(notice.kind, notice.uri)


async def _store_quietly(storing: Coroutine[Any, Any, bool]) -> None:
    try:
        await storing
    except ClusterUnavailable as error:
        log.warning("the key of this server could not be stored again in the engine: %s", error)
