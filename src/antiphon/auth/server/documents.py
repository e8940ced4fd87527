"""Fetches JSON documents from an issuer: limited in size and time, without redirects, over TLS or from this machine.

All requests of the server side are made here. The modules that use a document validate it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from antiphon.errors import AntiphonError, ConfigError
from antiphon.machine.loopback import is_loopback

if TYPE_CHECKING:
    from aiohttp import ClientSession

MAX_DOCUMENT = 256 * 1024
"""Bytes of a document at most; the longest known key set has 60 KiB."""

FETCH_TIMEOUT = 10.0
"""Seconds for one document, including the DNS look-up."""


class IssuerUnavailable(AntiphonError):
    """An issuer cannot be asked now; the message says why, and contains no token."""


def checked_address(url: str, what: str) -> SplitResult:
    """Parse an address that tokens or keys depend on; raise ``ConfigError`` unless it is https, or of this machine."""
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


async def fetch_document(
    url: str, form: Mapping[str, str] | None = None, authorization: str | None = None, *, issuer: str | None = None
) -> bytes:
    """Fetch a document, or post a form to obtain it; return its bytes.

    ``issuer``: the issuer that named the address, and may not lead us into a local network if it is public itself;
    ``None`` if the address is of this server's own settings. Raises ``IssuerUnavailable`` if there is no answer in
    time, another status than 200, or too long an answer.
    """
    # Such requests are rare (keys every ten minutes, each token once), so no connection is kept open.
    import aiohttp

    from antiphon.auth.boundary import is_refused, read_bounded

    headers = {"accept": "application/json", "accept-encoding": "identity"}
    if authorization is not None:
        headers["authorization"] = authorization
    try:
        async with asyncio.timeout(FETCH_TIMEOUT), _open_session(url, issuer) as web:
            method = "GET" if form is None else "POST"
            async with web.request(method, url, data=form, headers=headers, allow_redirects=False) as response:
                if response.status != 200:
                    raise IssuerUnavailable(f"{url} answered with status {response.status}")
                body = await read_bounded(response, MAX_DOCUMENT)
                if body is None:
                    raise IssuerUnavailable(f"{url} answered with more than {MAX_DOCUMENT} bytes")
                return body
    except TimeoutError:
        raise IssuerUnavailable(f"{url} did not answer within {FETCH_TIMEOUT:g} s") from None
    except (aiohttp.ClientError, OSError, ValueError) as error:
        if is_refused(error):
            raise IssuerUnavailable(f"{issuer} is public, and leads to the local network: {url}") from None
        raise IssuerUnavailable(f"{url} cannot be reached: {type(error).__name__}") from None


@asynccontextmanager
async def _open_session(url: str, issuer: str | None) -> AsyncGenerator[ClientSession]:
    from aiohttp import ClientSession
    from yarl import URL

    from antiphon.auth.boundary import draw_boundary, find_proxy

    proxy = await asyncio.to_thread(find_proxy, URL(url))
    connector = None
    if issuer is not None:
        boundary = await draw_boundary(urlsplit(issuer).hostname or "")
        if proxy is None:
            connector = boundary.connector()
        else:
            boundary.check_name(urlsplit(url).hostname or "")
    async with ClientSession(connector=connector, proxy=proxy) as session:
        yield session
