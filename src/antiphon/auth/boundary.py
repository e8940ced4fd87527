"""Which addresses the requests of one sign-in may reach.

A public server must not make us send requests into a local network (SSRF): not by an address that it names, and not by
a host name that it points elsewhere between two look-ups (DNS rebinding). So each connection is judged when it is made,
by the address that it goes to. Only a server without any public address may name addresses of its own network.
"""

from __future__ import annotations

import asyncio
import re
import socket
import ssl as tls
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from aiohttp import ClientResponse, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver
from yarl import URL

from antiphon.errors import Unauthorized
from antiphon.machine.ip_addresses import is_public
from antiphon.machine.loopback import is_loopback
from antiphon.machine.web_requests import show_address


class NotPublic(OSError):
    """A public server leads to an address of this machine or the local network."""

    def __init__(self) -> None:
        # The same text for each address of a host: the library then raises the exception itself.
        super().__init__("it is of this machine or the local network")


@dataclass(frozen=True)
class Boundary:
    """The addresses that requests for one server may reach.

    ``addresses`` are those of the server's ``host``; empty if they are unknown. ``is_public``: all connections have to
    be public, because the server is.
    """

    host: str
    addresses: Collection[str]
    is_public: bool

    def connector(self, *, ssl: tls.SSLContext | bool = True) -> TCPConnector:
        """Make a connector that stays within the boundary; not for connections to a proxy."""
        if self.is_public:
            return TCPConnector(ssl=ssl, socket_factory=_open_public)
        return TCPConnector(ssl=ssl, resolver=_Pinned(self.host, self.addresses))

    def check_name(self, host: str) -> None:
        """Check the host of a request that a proxy carries out, by its name alone; raise ``NotPublic``."""
        if self.is_public and not _may_be_public(host):
            raise NotPublic

    async def check_page(self, host: str) -> None:
        """Check the host of a page that a browser of this machine opens, by a look-up; raise ``NotPublic``."""
        if self.is_public:
            found = await _look_up(host)
            if not (any(map(is_public, found)) if found else _may_be_public(host)):
                raise NotPublic


async def draw_boundary(host: str, *, is_public_server: bool = False) -> Boundary:
    """Decide which addresses requests may reach. ``is_public_server``: a connection to it had a public address."""
    found = await _look_up(host)
    # Without an address, the server may be reached by a proxy.
    public = any(map(is_public, found)) if found else _may_be_public(host)
    return Boundary(host, found, is_public=is_public_server or public)


async def read_bounded(response: ClientResponse, most: int) -> bytes | None:
    """Read the body of a response; ``None`` if it has more than ``most`` bytes."""
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > most:
            response.close()
            return None
    return bytes(body)


def _may_be_public(host: str) -> bool:
    try:
        return is_public(host)
    except ValueError:
        return not is_loopback(host)


async def _look_up(host: str) -> list[str]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    return [str(one[4][0]) for one in found]


def _open_public(target: tuple[Any, ...]) -> socket.socket:
    """Make the socket for one address of a host, immediately before it is connected."""
    family, kind, protocol, _, address = target
    if not is_public(str(address[0])):
        raise NotPublic
    return socket.socket(family, kind, protocol)


class _Pinned(AbstractResolver):
    """Resolver for which one host keeps its addresses, so that it cannot become a public one later."""

    def __init__(self, host: str, addresses: Collection[str]) -> None:
        self._resolver = DefaultResolver()
        self._host = host
        self._addresses = addresses

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        if host != self._host or not self._addresses:
            return await self._resolver.resolve(host, port, family)
        return [
            ResolveResult(
                hostname=host,
                host=address,
                port=port,
                family=socket.AF_INET6 if ":" in address else socket.AF_INET,
                proto=0,
                flags=socket.AI_NUMERICHOST,
            )
            for address in self._addresses
        ]

    async def close(self) -> None:
        await self._resolver.close()


MAX_LENGTH = 4096
"""Characters of an address at most."""


def check_address(text: str, what: str) -> URL:
    """Parse an address that a server named as ``what``; raise ``Unauthorized`` unless it is https or local."""
    try:
        if len(text) > MAX_LENGTH or not text.isprintable():
            raise ValueError
        # Without normalization: what is sent must be exactly what the server named.
        url = URL(text, encoded=True)
        # A browser would decode a host that is percent-encoded, and so open another one than was checked.
        named = re.fullmatch(r"[A-Za-z0-9._:-]+", url.host or "") is not None
        usable = url.scheme in ("http", "https") and named and (url.port or 0) > 0
    except ValueError:
        usable, url = False, URL()
    if not usable:
        raise Unauthorized(f"signing in was stopped: {what} is not an http(s) address")
    if url.user is not None or url.password is not None:
        raise Unauthorized(f"signing in was stopped: {what} holds a name or a password")
    if url.scheme == "http" and not is_loopback(url.host or ""):
        raise Unauthorized(
            f"signing in was stopped: {what}, {show_address(url)}, is plain http, and not on this machine"
        )
    return url
