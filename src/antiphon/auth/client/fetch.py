"""The HTTP requests of a sign-in: limited in size and time; nothing secret follows a redirect.

Owns the sockets. A public server must not make us send requests into a local network: if its own addresses are public,
the addresses of the hosts it names have to be public as well.
"""

from __future__ import annotations

import asyncio
import ipaddress
import json
import socket
import ssl as tls
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlencode
from urllib.request import getproxies, proxy_bypass

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from aiohttp.abc import AbstractResolver, ResolveResult
from aiohttp.resolver import DefaultResolver
from yarl import URL

from antiphon.auth.client.addresses import is_public, origin_of, shown
from antiphon.auth.client.exchange import Answer
from antiphon.errors import Unauthorized
from antiphon.machine.loopback import is_loopback

__all__ = ["Fetch", "Unreachable", "fetching"]

MAX_BODY = 256 * 1024
"""Bytes of a response at most; metadata has a few thousand."""

PATIENCE = 30.0
"""Seconds for one request, including the response."""

_MAX_REDIRECTS = 3
_MAX_HEADERS = 64


class Unreachable(Unauthorized):
    """There was no response, because of the network or the server. The request may still have arrived."""


class Fetch:
    """The HTTP requests of one sign-in; made by ``fetching``."""

    def __init__(self, session: ClientSession, proxy: str | None, local_hosts: frozenset[str] | None) -> None:
        self._session = session
        self._proxy = proxy
        self._local_hosts = local_hosts

    async def document(self, url: URL) -> bytes | None:
        """Fetch a public document; ``None`` if there is none at that address.

        Raises:
            Unauthorized: the response is too large, or redirects elsewhere.
            Unreachable: there was no response.
        """
        target = url
        for _ in range(_MAX_REDIRECTS):
            answer = await self._request("GET", target, {"Accept": "application/json"})
            if answer.status == 200:
                return answer.body
            if answer.status >= 500 or answer.status not in (301, 302, 303, 307, 308):
                return None
            target = _redirected(target, answer)
            if target is None:
                return None
        return None

    async def post(self, url: URL, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Post a form; a redirect is returned like any other response."""
        body = urlencode(list(form.items())).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        return await self._request("POST", url, {**kind, **headers}, body)

    async def post_json(self, url: URL, value: Mapping[str, Any]) -> Answer:
        """Post a JSON object."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        return await self._request("POST", url, headers, json.dumps(value).encode())

    async def _request(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        self._check_host(url)
        proxy = self._proxy or await asyncio.to_thread(_proxy_to, url)
        try:
            async with (
                asyncio.timeout(PATIENCE),
                self._session.request(
                    method, url, headers=headers, data=body, allow_redirects=False, proxy=proxy
                ) as response,
            ):
                data = await _read(response)
                return Answer(status=response.status, headers=response.headers.copy(), body=data)
        except _Local as error:
            raise Unauthorized(str(error)) from None
        except TimeoutError:
            raise Unreachable(f"signing in failed: {shown(url)} did not answer within {PATIENCE:g} s") from None
        except (ClientError, OSError, ValueError) as error:
            if isinstance(refused := _refused_in(error), _Local):
                raise Unauthorized(str(refused)) from None
            # The library's message would contain the whole address with its query.
            raise Unreachable(f"signing in failed: {shown(url)} cannot be reached ({type(error).__name__})") from None

    def _check_host(self, url: URL) -> None:
        """Refuse a literal IP address of the local network, which no resolver checks."""
        host = url.host or ""
        if self._local_hosts is None or host in self._local_hosts:
            return
        try:
            ipaddress.ip_address(host)
        except ValueError:
            if is_loopback(host):
                raise Unauthorized(_local(host)) from None
            return
        if not is_public([host]):
            raise Unauthorized(_local(host))


async def _read(response: ClientResponse) -> bytes:
    body = bytearray()
    async for chunk in response.content.iter_any():
        body += chunk
        if len(body) > MAX_BODY:
            response.close()
            raise Unauthorized(
                f"signing in was stopped: {shown(response.url)} answered with more than {MAX_BODY} bytes"
            )
    return bytes(body)


def _redirected(source: URL, answer: Answer) -> URL | None:
    try:
        target = source.join(URL(answer.headers.get("Location", ""), encoded=True))
    except ValueError:
        return None
    return target if origin_of(target) == origin_of(source) and target.user is None else None


def _proxy_to(url: URL) -> str | None:
    named = getproxies().get(url.scheme)
    return None if named is None or not named.startswith("http://") or proxy_bypass(url.host or "") else named


class _Local(OSError):
    """A host has an address of the local network, which is not allowed here."""


def _local(host: str) -> str:
    return (
        f"signing in was stopped: the server is public, and sends us to {host}, which is of this machine or the local "
        "network"
    )


def _refused_in(error: BaseException) -> BaseException:
    """Find our own exception among the causes of the library's."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, _Local):
        seen = getattr(seen, "os_error", None) or seen.__cause__
    return seen or error


class _PublicOnly(AbstractResolver):
    """Resolver that refuses addresses that are not public."""

    def __init__(self, but: frozenset[str]) -> None:
        self._resolver = DefaultResolver()
        self._but = but

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        found = await self._resolver.resolve(host, port, family)
        if host not in self._but and not is_public(one["host"] for one in found):
            raise _Local(_local(host))
        return found

    async def close(self) -> None:
        await self._resolver.close()


async def _is_public_host(host: str) -> bool:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except OSError:
        # The server may be reached by a proxy; then the hosts it names are not looked up here either.
        return not is_loopback(host)
    return is_public(str(one[4][0]) for one in found)


@asynccontextmanager
async def fetching(
    server: URL,
    *,
    ssl: tls.SSLContext | bool = True,
    proxy: str | None = None,
    named: frozenset[str] = frozenset(),
) -> AsyncGenerator[Fetch]:
    """Make the ``Fetch`` of a sign-in to ``server``; ``named``: hosts from the settings, which may be anywhere."""
    local: frozenset[str] | None = None
    if await _is_public_host(server.host or ""):
        proxies = {URL(one).host or "" for one in (proxy, *getproxies().values()) if one and "://" in one}
        local = named | proxies | {server.host or ""}
    resolver = _PublicOnly(local) if local is not None else DefaultResolver()
    session = ClientSession(
        connector=TCPConnector(ssl=ssl, resolver=resolver),
        cookie_jar=DummyCookieJar(),
        timeout=ClientTimeout(total=None),
        max_headers=_MAX_HEADERS,
    )
    async with session:
        yield Fetch(session, proxy, local)
