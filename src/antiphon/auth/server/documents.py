"""JSON documents of an issuer, fetched: bounded in size and time, without redirects, over TLS or from this machine.

Owns the one way in which the server side makes requests of its own. What a document means is said where it is used.
"""

from __future__ import annotations

import asyncio
import ipaddress
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from antiphon.errors import AntiphonError, ConfigError

if TYPE_CHECKING:
    from aiohttp import ClientResponse

__all__ = ["MAX_DOCUMENT", "Unavailable", "checked_address", "fetch_document", "is_loopback"]

MAX_DOCUMENT = 256 * 1024
"""Bytes of a document; the longest list of keys at hand (of a provider that signs for many) has 60 KiB."""

FETCH_TIMEOUT = 10.0
"""Seconds for one document, from the look-up of the name to its last byte."""


class Unavailable(AntiphonError):
    """Whoever issues tokens cannot be asked now; the message says why, and names no token."""


def checked_address(url: str, what: str) -> SplitResult:
    """Read an address that tokens and keys depend on.

    Raises:
        ConfigError: it is no ``https`` address, and no ``http`` address of this machine either.
    """
    try:
        read = urlsplit(url)
        host, _ = read.hostname, read.port
    except ValueError:
        raise ConfigError(f"{what}: {url!r} is no address") from None
    if read.scheme == "https" and host and not read.username:
        return read
    if read.scheme == "http" and host and is_loopback(host) and not read.username:
        return read
    # 2026-07-28 basic/authorization: "All authorization server endpoints MUST be served over HTTPS."
    raise ConfigError(f"{what}: {url!r} must be an https address; http only on this machine")


def is_loopback(host: str) -> bool:
    """Tell whether a name or an address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


async def fetch_document(url: str, form: Mapping[str, str] | None = None, authorization: str | None = None) -> bytes:
    """Get a document, or post a form for it; return its bytes.

    Raises:
        Unavailable: there is none: no connection, another status than 200, too long, or too late.
    """
    # What an issuer is asked for is rare: keys every ten minutes, a token once in its life. No connection is kept.
    import aiohttp

    headers = {"accept": "application/json", "accept-encoding": "identity"}
    if authorization is not None:
        headers["authorization"] = authorization
    try:
        async with asyncio.timeout(FETCH_TIMEOUT), aiohttp.ClientSession(trust_env=True) as web:
            method = "GET" if form is None else "POST"
            async with web.request(method, url, data=form, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise Unavailable(f"{url} answered with status {response.status}")
                return await _bounded(url, response)
    except TimeoutError:
        raise Unavailable(f"{url} did not answer within {FETCH_TIMEOUT:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        raise Unavailable(f"{url} cannot be reached: {type(error).__name__}") from None


async def _bounded(url: str, response: ClientResponse) -> bytes:
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_DOCUMENT:
            raise Unavailable(f"{url} answered with more than {MAX_DOCUMENT} bytes")
    return bytes(body)
