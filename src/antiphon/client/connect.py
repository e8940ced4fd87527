"""From a target to an open session: how to reach the server, and which era it belongs to.

A target is a ``Server`` object, a command line (text or list), the path of a ``.py`` file, or an entry of an
``mcpServers`` configuration (``command``, ``args``, ``env``, ``cwd``).
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast, runtime_checkable

from msgspec import Struct, ValidationError, convert

from antiphon.channel import Channel
from antiphon.engine.connection import Connection
from antiphon.errors import CallTimeout, ConfigError, ConnectionClosed, PeerError
from antiphon.protocol.client_session import ClientSession, is_modern_error
from antiphon.wire.lifecycle import DiscoverResult, InitializeResult
from antiphon.wire.revisions import REVISIONS, Revision, revision
from antiphon.wire.unknown import decode

__all__ = ["Command", "Opened", "Serves", "Target", "allowed_revisions", "open_session", "reach", "resolve"]

PROBE_TIMEOUT = 5.0
"""Seconds a server has to answer the probe; a legacy one may stay silent (2026-07-28 basic/transports/stdio)."""


@runtime_checkable
class Serves(Protocol):
    """Something that serves a channel: a ``Server`` object, reached in memory."""

    async def serve(self, channel: Channel) -> None:
        """Serve one client until it ends."""
        ...


class Command(Struct, frozen=True, kw_only=True):
    """A server to start as a child process."""

    argv: Sequence[str]
    env: Mapping[str, str] | None = None
    cwd: str | None = None


Target = Serves | str | Path | Sequence[str] | Mapping[str, Any]
Connect = Callable[[Channel], Connection[ClientSession]]


def resolve(target: Target) -> Serves | Command:
    """Say what a target means.

    Raises:
        ConfigError: it means nothing; the message says what it could be.
    """
    if isinstance(target, Mapping):
        return _entry(target)
    if isinstance(target, Path) or (isinstance(target, str) and target.endswith(".py") and Path(target).is_file()):
        if not Path(target).is_file():
            raise ConfigError(f"no such file: {target}")
        return Command(argv=[sys.executable, str(target)])
    if isinstance(target, str):
        if target.startswith(("http://", "https://", "ws://", "wss://")):
            raise ConfigError(
                f"{target}: this version reaches servers in memory and over stdio, not yet over a network"
            )
        return Command(argv=_split(target))
    if isinstance(target, Sequence):
        if not target:
            raise ConfigError("the command line is empty")
        return Command(argv=list(target))
    if hasattr(target, "serve"):
        return target
    raise ConfigError(
        f"cannot connect to {target!r}: give a Server, a command line, a .py file or a configuration entry"
    )


def _split(line: str) -> list[str]:
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"cannot read the command line {line!r}: {error}") from None
    if not argv:
        raise ConfigError("the command line is empty")
    return argv


def _entry(entry: Mapping[str, Any]) -> Command:
    try:
        read = convert(entry, _Entry, strict=True)
    except ValidationError as error:
        raise ConfigError(f"the configuration entry is wrong: {error}; it may have command, args, env, cwd") from None
    return Command(argv=[read.command, *read.args], env=read.env, cwd=read.cwd)


class _Entry(Struct):
    command: str
    args: list[str] = []
    env: dict[str, str] | None = None
    cwd: str | None = None


class Opened(Struct, frozen=True):
    """A channel, and what to end with it."""

    channel: Channel
    serving: asyncio.Task[None] | None = None


async def reach(
    where: Serves | Command, *, errlog: Callable[[str], object] | None = None, inherit_env: bool = False
) -> Opened:
    """Open a channel to the server, starting it if it is a command."""
    if isinstance(where, Command):
        from antiphon.transports.stdio_client import StdioClientChannel

        return Opened(
            await StdioClientChannel.spawn(
                where.argv, env=where.env, cwd=where.cwd, errlog=errlog, inherit_env=inherit_env
            )
        )
    from antiphon.transports.memory import memory_pair

    ours, theirs = memory_pair()
    return Opened(ours, asyncio.get_running_loop().create_task(_serve(where, theirs)))


async def _serve(where: Serves, channel: Channel) -> None:
    try:
        await where.serve(channel)
    finally:
        await channel.close()


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
    peer: Connection[ClientSession],
    allowed: tuple[Revision, ...],
    again: Callable[[], Awaitable[Connection[ClientSession]]],
) -> Connection[ClientSession]:
    """Find the era of the server and open the session in it; returns the connection it is open on.

    ``again`` starts the server anew: some legacy servers exit on the probe.
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
    raw = await peer.request(peer.session.initialize(legacy[-1]), timeout=None)
    wait = peer.send(peer.session.initialized(decode(raw, InitializeResult), legacy))
    if wait is not None:
        await wait
    return peer


async def _probe(peer: Connection[ClientSession], allowed: tuple[Revision, ...]) -> bool:
    """Ask what the server is; tell whether it is modern and the session is open."""
    only_modern = all(one.modern for one in allowed)
    try:
        raw = await peer.request(peer.session.probe(allowed[-1]), timeout=None if only_modern else PROBE_TIMEOUT)
    except CallTimeout:
        return False
    except PeerError as error:
        if is_modern_error(error) and not _offers_handshake(error, allowed):
            raise
        return False
    return peer.session.discovered(decode(raw, DiscoverResult), allowed) is not None


def _offers_handshake(error: PeerError, allowed: tuple[Revision, ...]) -> bool:
    """Tell whether a server that refuses our revision names an earlier one instead (2026-07-28 basic/versioning)."""
    if not isinstance(error.data, dict):
        return False
    offered: object = cast("dict[str, object]", error.data).get("supported")
    return isinstance(offered, list) and any(one.name in offered for one in allowed if not one.modern)
