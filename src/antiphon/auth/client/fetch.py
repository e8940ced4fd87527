"""The HTTP requests of a sign-in: limited in size and time; nothing secret follows a redirect.

Owns the sockets. ``auth.boundary`` says which addresses they may be connected to.
"""

from __future__ import annotations

import asyncio
import json
import ssl as tls
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from aiohttp import ClientError, ClientSession, ClientTimeout, DummyCookieJar, TCPConnector
from yarl import URL

from antiphon.auth.boundary import Boundary, NotPublic, draw_boundary, read_bounded
from antiphon.auth.metadata import Answer
from antiphon.errors import Unauthorized
from antiphon.machine.web_requests import describe_cause, find_proxy, origin_of, show_address

MAX_BODY = 256 * 1024
"""Bytes of a response at most; metadata has a few thousand."""

PATIENCE = 30.0
"""Seconds for one request, including the response."""

_MAX_REDIRECTS = 2
_MAX_HEADERS = 64
_LATER = (429, 502, 503, 504)
"""Statuses that say nothing about a document. 500 is not among them: servers answer with it at unknown paths, too."""


class Unreachable(Unauthorized):
    """There was no response, because of the network or the server. The request may still have arrived."""


class TooLarge(Unauthorized):
    """A response is larger than any that a sign-in needs."""


class Unavailable(Unauthorized):
    """A server cannot say now whether it has a document."""


@dataclass(eq=False, repr=False)
class Fetch:
    """The HTTP requests of one sign-in; made by ``open_fetch``."""

    _boundary: Boundary
    _bounded: ClientSession
    _free: ClientSession
    _proxy: str | None
    _named: frozenset[str]

    async def document(self, url: URL) -> bytes | None:
        """Fetch a public document; ``None`` if there is none.

        Raises ``TooLarge``, ``Unreachable``, or ``Unavailable`` for a status that says to try again later.
        """
        target: URL | None = url
        for _ in range(_MAX_REDIRECTS + 1):
            answer = await self.request("GET", target, {"Accept": "application/json"})
            if answer.status == 200:
                return answer.body
            if answer.status in _LATER:
                raise Unavailable(f"signing in failed: {show_address(target)} answered with status {answer.status}")
            target = _find_redirect(target, answer) if answer.status in (301, 302, 303, 307, 308) else None
            if target is None:
                return None
        return None

    async def post(self, url: URL, form: Mapping[str, str], headers: Mapping[str, str]) -> Answer:
        """Post a form; a redirect is returned like any other response."""
        body = urlencode(list(form.items())).encode()
        kind = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json"}
        return await self.request("POST", url, {**kind, **headers}, body)

    async def post_json(self, url: URL, value: Mapping[str, Any]) -> Answer:
        """Post a JSON object."""
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        return await self.request("POST", url, headers, json.dumps(value).encode())

    async def check_page(self, url: URL) -> None:
        """Raise ``Unauthorized`` if the server is public and names a page of the local network for the browser."""
        try:
            if url.host not in self._named:
                await self._boundary.check_page(url.host or "")
        except NotPublic:
            raise Unauthorized(_not_public(url)) from None

    async def request(self, method: str, url: URL, headers: Mapping[str, str], body: bytes | None = None) -> Answer:
        """Send a request; a redirect is returned like any other response."""
        proxy = self._proxy or await asyncio.to_thread(find_proxy, url)
        try:
            async with (
                asyncio.timeout(PATIENCE),
                self._session(url, proxy).request(
                    method, url, headers=headers, data=body, allow_redirects=False, proxy=proxy
                ) as response,
            ):
                data = await read_bounded(response, MAX_BODY)
                if data is None:
                    raise TooLarge(
                        f"signing in was stopped: {show_address(url)} answered with more than {MAX_BODY} bytes"
                    )
                return Answer(status=response.status, headers=response.headers.copy(), body=data)
        except TimeoutError:
            raise Unreachable(f"signing in failed: {show_address(url)} did not answer within {PATIENCE:g} s") from None
        except (ClientError, OSError, ValueError) as error:
            if isinstance(getattr(error, "os_error", error), NotPublic):
                raise Unauthorized(_not_public(url)) from None
            # The library's message would contain the whole address with its query.
            raise Unreachable(
                f"signing in failed: {show_address(url)} cannot be reached "
                f"({describe_cause(error) or type(error).__name__})"
            ) from None

    def _session(self, url: URL, proxy: URL | str | None) -> ClientSession:
        """Choose the session for a request: the free one for a proxy, and for a host that the user named."""
        if url.host in self._named:
            return self._free
        if proxy is None:
            return self._bounded
        self._boundary.check_name(url.host or "")
        return self._free


def _not_public(url: URL) -> str:
    return (
        f"signing in was stopped: the server is public, and sends us to {url.host}, which is of this machine or the "
        "local network"
    )


def _find_redirect(source: URL, answer: Answer) -> URL | None:
    try:
        target = source.join(URL(answer.headers.get("Location", ""), encoded=True))
    except ValueError:
        return None
    return target if origin_of(target) == origin_of(source) and target.user is None else None


@asynccontextmanager
async def open_fetch(
    server: URL,
    *,
    ssl: tls.SSLContext | bool = True,
    proxy: str | None = None,
    named: frozenset[str] = frozenset(),
    is_public: bool = False,
) -> AsyncGenerator[Fetch]:
    """Make the ``Fetch`` of a sign-in to ``server``.

    ``named``: hosts from the settings, which may be anywhere. ``is_public``: whether a connection to the server had a
    public address.
    """
    boundary = await draw_boundary(server.host or "", is_public_server=is_public)
    async with _open_session(boundary.connector(ssl=ssl)) as bounded, _open_session(TCPConnector(ssl=ssl)) as free:
        yield Fetch(boundary, bounded, free, proxy, named)


def _open_session(connector: TCPConnector) -> ClientSession:
    return ClientSession(
        connector=connector, cookie_jar=DummyCookieJar(), timeout=ClientTimeout(total=None), max_headers=_MAX_HEADERS
    )
