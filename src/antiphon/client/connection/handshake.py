"""Opening a session: which era a server belongs to, found once, and the revision agreed on.

Owns the ladder: probe, then the handshake, then (over HTTP) the transport of the first revision. Sources: 2026-07-28
basic/versioning and basic/transports, "Backward Compatibility".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar, cast

from msgspec import DecodeError, Raw

from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, PeerError, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.transports.http.client.failures import is_broken, is_refused_outright
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult
from antiphon.wire.revisions import REVISIONS, Revision, revision

__all__ = ["PROBE_TIMEOUT", "Reopen", "allowed_revisions", "open_session"]

R = TypeVar("R", bound=Wire)
Peer = Connection[ClientSession]

PROBE_TIMEOUT = 5.0
"""Seconds a server has to answer the probe; a legacy one may stay silent (2026-07-28 basic/transports/stdio)."""


class Reopen(Protocol):
    """Opens a connection anew; ``oldest``: over the transport of the first revision, where there is one."""

    def __call__(self, *, oldest: bool = False) -> Awaitable[Peer]:
        """Return the new connection; the old one is closed."""
        ...


def allowed_revisions(choice: str) -> tuple[Revision, ...]:
    """Turn the ``revision`` option of a client into those it may agree on.

    Raises:
        ConfigError: no such revision.
    """
    if choice == "auto":
        return REVISIONS
    chosen = revision(choice)
    if chosen is None:
        names = ", ".join(one.name for one in REVISIONS)
        raise ConfigError(f'unknown protocol revision {choice!r}: choose "auto" or one of {names}')
    return (chosen,)


async def open_session(
    peer: Peer, allowed: tuple[Revision, ...], again: Reopen, too_old: Callable[[PeerError], bool]
) -> Peer:
    """Find the era of the server and open the session in it; returns the connection it is open on.

    ``again`` reaches the server anew: some legacy servers exit on the probe, some speak only the oldest transport,
    which ``too_old`` tells by their answer to ``initialize``.

    Raises:
        ConfigError: the server speaks none of the revisions allowed.
        RemoteProtocolError: it answers what cannot be read, or with a revision of its own.
        PeerError: it refuses.
    """
    if any(one.modern for one in allowed):
        try:
            if await _probe(peer, allowed):
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
        # A server that starts slowly may answer the probe we gave up on, and by then be modern for good: ask again.
        if is_modern_error(error) and legacy != allowed and await _probe(peer, allowed):
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
    wait = peer.send(peer.session.initialized(_read(raw, InitializeResult), legacy))
    if wait is not None:
        await wait


async def _probe(peer: Peer, allowed: tuple[Revision, ...], *, again: bool = True) -> bool:
    """Ask what the server is; tell whether it is modern and the session is open.

    Refused with -32022, it asks once more if the refusal names a revision we speak (2026-07-28 basic/versioning).
    """
    only_modern = all(one.modern for one in allowed)
    try:
        raw = await peer.request(peer.session.probe(allowed[-1]), timeout=None if only_modern else PROBE_TIMEOUT)
        found = _read(raw, DiscoverResult)
    except (CallTimeout, RemoteProtocolError):
        # Silence, or something that no modern server says.
        return False
    except PeerError as error:
        if is_refused_outright(error) or (only_modern and is_broken(error)):
            # The handshake would fare no better, and to say that another revision is wanted would be a guess.
            raise
        if not is_modern_error(error):
            return False
        if again and _offers(error, allowed, modern=True):
            return await _probe(peer, allowed, again=False)
        if _offers(error, allowed, modern=False):
            return False
        raise
    return peer.session.discovered(found, allowed) is not None


def _read(raw: Raw, kind: type[R]) -> R:
    try:
        return decode(raw, kind)
    except DecodeError as error:
        raise RemoteProtocolError(f"The server's answer cannot be read as {kind.__name__}: {error}") from None


def _offers(error: PeerError, allowed: tuple[Revision, ...], *, modern: bool) -> bool:
    """Tell whether a server that refuses our revision names one of this era that we speak (2026-07-28 versioning)."""
    if not isinstance(error.data, dict):
        return False
    offered: object = cast("dict[str, object]", error.data).get("supported")
    return isinstance(offered, list) and any(one.name in offered for one in allowed if one.modern is modern)
