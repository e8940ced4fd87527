"""Opening a session: determines the server's era, once, and agrees on the revision.

Owns the order of attempts: the probe, then the handshake, then (over HTTP) the transport of the first revision.
Sources: 2026-07-28 basic/versioning and basic/transports, "Backward Compatibility".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

from msgspec import DecodeError, Raw

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, PeerError, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.transports.http.client.error_replies import is_broken, is_refused_outright
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode_wire
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult
from antiphon.wire.revisions import REVISIONS, Revision, find_revision

R = TypeVar("R", bound=Wire)
Peer = Connection[ClientSession]

PROBE_TIMEOUT = 5.0
"""Seconds a server has to answer the probe, which a legacy one may ignore (2026-07-28 basic/transports/stdio)."""


class Reopen(Protocol):
    """Opens a new connection; ``oldest``: over the transport of the first revision, if the target has one."""

    def __call__(self, *, oldest: bool = False) -> Awaitable[Peer]:
        """Return the new connection; the old one is closed."""
        ...


def choose_allowed_revisions(choice: str) -> tuple[Revision, ...]:
    """Return the revisions that a client's ``revision=`` allows; raises ``ConfigError`` for an unknown one."""
    if choice == "auto":
        return REVISIONS
    chosen = find_revision(choice)
    if chosen is None:
        names = ", ".join(one.name for one in REVISIONS)
        raise ConfigError(f'unknown protocol revision {choice!r}: choose "auto" or one of {names}')
    return (chosen,)


async def open_session(
    peer: Peer, allowed: tuple[Revision, ...], again: Reopen, too_old: Callable[[PeerError], bool]
) -> Peer:
    """Determine the server's era, and open the session in it; returns the connection it is open on.

    ``again`` opens a new connection: some legacy servers exit on the probe, some only speak the oldest transport,
    which ``too_old`` recognises by their answer to ``initialize``. Raises ``ConfigError`` if the server speaks none
    of the allowed revisions, ``RemoteProtocolError`` if its answer cannot be read or names a revision that we did
    not propose, and ``PeerError`` if it refused.
    """
    if any(one.modern for one in allowed):
        try:
            if await _probe_server(peer, allowed):
                return peer
        except ConnectionClosed:
            if all(one.modern for one in allowed):
                raise
            peer = await again()
    legacy = tuple(one for one in allowed if not one.modern)
    if not legacy:
        raise ConfigError(f"the server does not speak {allowed[-1].name}; it wants a handshake of an earlier revision")
    try:
        await _shake_hands(peer, legacy)
    except PeerError as error:
        # A server that starts slowly may answer the probe after its deadline, and be in the modern era then:
        # probe again.
        if is_modern_error(error) and legacy != allowed and await _probe_server(peer, allowed):
            return peer
        if not too_old(error):
            raise
        try:
            peer = await again(oldest=True)
        except ConnectionClosed:
            raise error from None
        await _shake_hands(peer, legacy)
    return peer


async def _shake_hands(peer: Peer, legacy: tuple[Revision, ...]) -> None:
    raw = await peer.request(peer.session.initialize(legacy[-1]), timeout=None)
    wait = peer.send(peer.session.handle_initialized(_decode_result(raw, InitializeResult), legacy))
    if wait is not None:
        await wait


async def _probe_server(peer: Peer, allowed: tuple[Revision, ...], *, again: bool = True) -> bool:
    """Probe the server; return whether it is modern and the session is open.

    After a refusal with -32022 that names a revision we speak, it probes once more (2026-07-28 basic/versioning).
    """
    only_modern = all(one.modern for one in allowed)
    try:
        raw = await peer.request(peer.session.probe(allowed[-1]), timeout=None if only_modern else PROBE_TIMEOUT)
        found = _decode_result(raw, DiscoverResult)
    except (CallTimeout, RemoteProtocolError):
        # Silence, or an answer that no modern server gives.
        return False
    except PeerError as error:
        if is_refused_outright(error) or (only_modern and is_broken(error)):
            # The handshake would fail too, and an error about revisions would be a guess.
            raise
        if not is_modern_error(error):
            return False
        if again and _offers_era(error, allowed, modern=True):
            return await _probe_server(peer, allowed, again=False)
        if _offers_era(error, allowed, modern=False):
            return False
        raise
    return peer.session.handle_discovery(found, allowed) is not None


def _decode_result(raw: Raw, kind: type[R]) -> R:
    try:
        return decode_wire(raw, kind)
    except DecodeError as error:
        raise RemoteProtocolError(f"The server's answer cannot be read as {kind.__name__}: {error}") from None


def _offers_era(error: PeerError, allowed: tuple[Revision, ...], *, modern: bool) -> bool:
    """Return whether a server that refuses our revision names one of this era that we speak (2026-07-28 versioning)."""
    if not isinstance(error.data, dict):
        return False
    offered: object = cast("dict[str, object]", error.data).get("supported")
    return isinstance(offered, list) and any(one.name in offered for one in allowed if one.modern is modern)
