"""Targets: what a target means, and how to connect to it.

A target is a ``Server`` object, a URL (http, https, ws, wss), a command line (text or list), the path of a ``.py``
file, or an entry of an ``mcpServers`` configuration (``command``, ``args``, ``env``, ``cwd``; or ``url``, ``headers``).
"""

from __future__ import annotations

import asyncio
import shlex
import ssl as tls
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path, PurePath
from typing import Any, Protocol, runtime_checkable
from urllib.parse import urlsplit

from msgspec import Struct, ValidationError, convert, structs

from antiphon.auth.client.oauth import Auth
from antiphon.channel import Channel
from antiphon.errors import ConfigError, PeerError
from antiphon.identity import command_of, launch_of
from antiphon.transports.http.client.error_replies import Dial, ParamHeaders, Pause, http_status, is_not_streamable
from antiphon.wire.origin import MEMORY, Equipment, Launch


@runtime_checkable
class Serves(Protocol):
    """Something that serves a channel: a ``Server`` object, connected in memory."""

    async def serve(self, channel: Channel) -> None:
        """Serve one client until it ends.

        Args:
            channel: where its frames come from and go to.
        """


class Command(Struct, frozen=True, kw_only=True):
    """A server to start as a child process."""

    argv: Sequence[str]
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    start_timeout: float | None = None
    """Seconds that a gateway lets it take to start."""
    may_inherit_env: bool = True
    """Whether it may get our whole environment where that is passed on."""


class Address(Dial, frozen=True, kw_only=True):
    """A server on the network."""

    start_timeout: float | None = None
    """Seconds that a gateway lets it take to open a session."""


_SCHEMES = ("http", "https", "ws", "wss")
Target = Serves | str | Path | Sequence[str] | Mapping[str, Any]
"""A server in memory, a URL, a file, a command line as a text or a list, or an entry of a configuration."""


def locate_target(target: Target) -> Serves | Command | Address:
    """Resolve a target; raises ``ConfigError``, which says what could be one, if it is none."""
    if isinstance(target, Mapping):
        return _read_entry(target)
    if isinstance(target, Path) or (isinstance(target, str) and target.endswith(".py") and Path(target).is_file()):
        if not Path(target).is_file():
            raise ConfigError(f"no such file: {target}")
        return Command(argv=command_of(target))
    if isinstance(target, str):
        scheme, mark, rest = target.strip().partition("://")
        if mark and scheme.lower() in _SCHEMES:
            # RFC 3986, section 3.1: schemes are case-insensitive.
            return _make_address(f"{scheme.lower()}://{rest}", None)
        return Command(argv=split_line(target))
    if isinstance(target, Sequence):
        words: Sequence[Any] = target
        if not words:
            raise ConfigError("the command line is empty")
        if all(isinstance(word, str | PurePath) for word in words):
            return Command(argv=list(map(str, words)))
    elif hasattr(target, "serve") and not isinstance(target, type):
        return target
    raise ConfigError(
        f"cannot connect to {target!r}: give a Server, a URL, a command line, a .py file or a configuration entry"
    )


def _make_address(url: str, headers: Mapping[str, str] | None) -> Address:
    try:
        # ``urlsplit`` validates the port only when it is read.
        parts, _ = urlsplit(url), urlsplit(url).port
    except ValueError as error:
        raise ConfigError(f"cannot read the URL {url!r}: {error}") from None
    if parts.scheme not in _SCHEMES or not parts.hostname:
        named = ", ".join(_SCHEMES)
        raise ConfigError(f"not the address of a server: it has to begin with one of {named}, and name a host")
    return Address(url=url, headers=headers)


def with_options(
    where: Serves | Command | Address,
    headers: Mapping[str, str] | None,
    ssl: tls.SSLContext | bool | None,
    proxy: str | None,
    auth: Auth | None = None,
) -> Serves | Command | Address:
    """Add options that only a URL can use; ``ConfigError`` if the target is no URL, or two exclude each other."""
    if headers is None and ssl is None and proxy is None and auth is None:
        return where
    if not isinstance(where, Address):
        raise ConfigError("headers, ssl, proxy and auth are for a URL; this target is none")
    if proxy is not None:
        from antiphon.transports.http.client.http_request import check_url

        check_url(proxy, what="a proxy")
    merged = {**(where.headers or {}), **(headers or {})}
    where = structs.replace(where, headers=merged, ssl=where.ssl if ssl is None else ssl, proxy=proxy or where.proxy)
    if auth is None:
        return where
    if any(name.lower() == "authorization" for name in merged):
        raise ConfigError("auth= and a header Authorization exclude each other: give one of them")
    from antiphon.auth.client.access import access_to

    return structs.replace(where, access=access_to(where.url, auth, ssl=where.ssl, proxy=where.proxy))


def describe_location(where: Serves | Command | Address) -> str | list[str] | Launch:
    """Return what identifies a server to a host: its URL, what its command line would run, or its name in memory.

    Call this before the server is started, because a running server could change the files that are examined.
    """
    if isinstance(where, Address):
        return where.url
    if isinstance(where, Command):
        return launch_of(where.argv, env=where.env, cwd=where.cwd)
    return [MEMORY, str(getattr(where, "name", "")) or f"{type(where).__module__}.{type(where).__qualname__}"]


def split_line(line: str) -> list[str]:
    """Split a command line as a shell does; ``ConfigError`` if it cannot be read, or is empty."""
    try:
        argv = shlex.split(line)
    except ValueError as error:
        raise ConfigError(f"cannot read the command line {line!r}: {error}") from None
    if not argv:
        raise ConfigError("the command line is empty")
    return argv


def _read_entry(entry: Mapping[str, Any]) -> Command | Address:
    try:
        read = convert(entry, _Entry, strict=True)
    except ValidationError as error:
        raise ConfigError(f"the configuration entry is wrong: {error}; it may have {_ENTRY}") from None
    if read.fault is not None:
        raise ConfigError(read.fault)
    if read.url is not None:
        scheme, mark, rest = read.url.strip().partition("://")
        where = _make_address(f"{scheme.lower()}{mark}{rest}", read.headers)
        return structs.replace(where, start_timeout=read.start_timeout)
    if read.command is None:
        raise ConfigError(f"this is no entry of mcpServers, of which Gateway takes several: it may have {_ENTRY}")
    return Command(
        argv=[read.command, *read.args],
        env=read.env,
        cwd=read.cwd,
        start_timeout=read.start_timeout,
        may_inherit_env=read.may_inherit_env,
    )


_ENTRY = "command, args, env, cwd; or url, headers"


class _Entry(Struct):
    command: str | None = None
    args: list[str] = []
    env: dict[str, str] | None = None
    cwd: str | None = None
    url: str | None = None
    headers: dict[str, str] | None = None
    start_timeout: float | None = None
    may_inherit_env: bool = True
    fault: str | None = None
    """Why it cannot be used, so that a server can be named beside others that can."""


class Opened(Struct, frozen=True):
    """A channel, and the task to end with it."""

    channel: Channel
    serving: asyncio.Task[None] | None = None


async def open_channel(
    where: Serves | Command | Address,
    *,
    errlog: Callable[[str], object] | None = None,
    inherit_env: bool = False,
    oldest: bool = False,
    pause: Pause = nullcontext,
    param_headers: ParamHeaders | None = None,
    equip: Callable[[], Awaitable[Equipment | None]] | None = None,
) -> Opened:
    """Open a channel to the server, starting it if it is a command.

    ``oldest``: use HTTP+SSE (2024-11-05). ``pause``: entered while a person signs in. ``param_headers``: returns the
    headers of a call. ``equip``: makes what a child process gets beyond its environment.
    """
    if isinstance(where, Address):
        where = structs.replace(where, trust_env=True, pause=pause, param_headers=param_headers)
        return Opened(await _dial_address(where, oldest=oldest))
    if isinstance(where, Command):
        from antiphon.transports.stdio.client import StdioClientChannel

        return Opened(
            await StdioClientChannel.spawn(
                where.argv,
                env=where.env,
                cwd=where.cwd,
                errlog=errlog,
                inherit_env=inherit_env and where.may_inherit_env,
                equipment=None if equip is None else await equip(),
            )
        )
    from antiphon.transports.queued import memory_pair

    ours, theirs = memory_pair()
    return Opened(ours, asyncio.get_running_loop().create_task(_serve_in_memory(where, theirs)))


async def _dial_address(where: Address, *, oldest: bool) -> Channel:
    # Imported here, so that clients of local servers do not load the HTTP library.
    if where.url.startswith(("ws://", "wss://")):
        from antiphon.transports.websocket.client import WebSocketClientChannel as Kind
    elif oldest:
        from antiphon.transports.sse.client import SseClientChannel as Kind
    else:
        from antiphon.transports.http.client.channel import HttpClientChannel as Kind
    return await Kind.open(where)


def speaks_oldest(where: Serves | Command | Address) -> Callable[[PeerError], bool]:
    """Return a function that tells from a server's error reply to ``initialize`` that HTTP+SSE must be used."""
    if not isinstance(where, Address) or not where.url.startswith("http"):
        return lambda _error: False

    def may_be(error: PeerError) -> bool:
        # Some servers refuse with an HTTP status, others with a JSON-RPC error; trying costs one request.
        return is_not_streamable(error) or (http_status(error) is None and error.code < 0)

    return may_be


async def _serve_in_memory(where: Serves, channel: Channel) -> None:
    try:
        await where.serve(channel)
    finally:
        await channel.close()
