"""One HTTP request as the transports make it: to one origin, bounded, with failures in clear words.

Owns the aiohttp session (connections, TLS, proxy, limits), redirects, and the conversion of its exceptions.
``Places`` limits connections to the number of files the process may open: a call occupies one while it is open, and
some are left for answers to asks.
"""

from __future__ import annotations

import asyncio
import errno
import re
import socket
import ssl as tls
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from io import BytesIO
from types import CoroutineType
from typing import Any, cast

import aiohttp
from multidict import istr
from yarl import URL

from antiphon.errors import AntiphonError, ConfigError, Unauthorized
from antiphon.machine.files import bound_by_open_files
from antiphon.machine.web_requests import describe_os_error, origin_of, show_address
from antiphon.transports.http.client.error_replies import (
    BROKEN,
    GONE,
    REFUSING,
    UNREACHABLE,
    UNUSABLE,
    Credentials,
    HttpFailure,
    Pause,
    RequestCredentials,
    WatchesConnections,
    first_line,
    suggest_remedy,
)

CONNECT_TIMEOUT = 10.0
"""Seconds to connect, including TLS. Calls have a deadline of their own; this one distinguishes a dead host from a slow
server."""

_KEEP_ALIVE = 4.0
"""Seconds an idle connection is kept. uvicorn and Node close theirs after 5 s, and a request must not coincide with
that."""

_MAX_REDIRECTS = 5
_MAX_HEADERS = 128
_MAX_ERROR_BODY = 64 * 1024
"""Bytes of a refusal's body that are read: enough for any JSON-RPC error."""

_REFUSAL_TIMEOUT = 5.0
"""Seconds a server has to send the body of a refusal; the status alone is enough."""

_LARGE = 512 * 1024
"""Size in bytes from which a body is sent in pieces, so that other tasks can run in between."""

_UNSENT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientHttpProxyError,
    aiohttp.InvalidURL,
)
"""Errors before anything was sent."""

# RFC 9110: a token as name; no line end and no NUL in the value.
_NAME = re.compile(r"[!#$%&'*+\-.^_`|~0-9A-Za-z]+")
_BAD_VALUE = re.compile(r"[\r\n\0]")


def check_url(url: str, schemes: tuple[str, ...] = ("http", "https"), what: str = "a server") -> URL:
    """Parse the address of a server, or of ``what`` else.

    Raises ``ConfigError``: it is no address; the message never shows its credentials.
    """
    try:
        read = URL(url)
        usable = read.scheme in schemes and bool(read.host)
    except ValueError:
        usable, read = False, URL()
    if not usable:
        raise ConfigError(f"not the address of {what}: it has to begin with {' or '.join(schemes)}, and name a host")
    return read.with_fragment(None)


def check_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Copy the headers a user wants to send.

    Raises ``ConfigError``: a header cannot be sent; its value is not shown.
    """
    for name, value in headers.items():
        if not isinstance(cast("object", value), str) or not _NAME.fullmatch(name) or _BAD_VALUE.search(value):
            raise ConfigError(f"the header {name!r} cannot be sent: its name or its value is not allowed in HTTP")
    return {istr(name): value for name, value in headers.items()}


class Connections(aiohttp.TCPConnector):
    """The connections of one channel. Each is kept for further requests, unless the server only ever answers one."""

    is_kept = True

    async def connect(self, *args: Any, **options: Any) -> aiohttp.connector.Connection:
        """Return a connection for a request."""
        connection = await super().connect(*args, **options)
        if not self.is_kept and connection.protocol is not None:
            connection.protocol.force_close()
        return connection


def new_session(
    *,
    ssl: tls.SSLContext | bool = True,
    proxy: str | None = None,
    trust_env: bool = False,
    middlewares: Sequence[aiohttp.ClientMiddlewareType] = (),
    access: Credentials | None = None,
) -> aiohttp.ClientSession:
    """Make the aiohttp session of one channel; ``access`` may watch its connections.

    The number of connections is not limited here: a limit could keep the answer to an ask from the call that waits for
    it.
    """

    def open_socket(target: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, _, address = target
        if isinstance(access, WatchesConnections) and proxy is None:
            access.connects(str(address[0]))
        return socket.socket(family, kind, protocol)

    return aiohttp.ClientSession(
        connector=Connections(ssl=ssl, limit=0, keepalive_timeout=_KEEP_ALIVE, socket_factory=open_socket),
        # A balancer finds the replica that has the session by its cookie; as it was written, and at IP addresses, too.
        cookie_jar=aiohttp.CookieJar(unsafe=True, quote_cookie=False),
        proxy=proxy,
        trust_env=trust_env,
        max_headers=_MAX_HEADERS,
        middlewares=middlewares,
    )


class Web:
    """Requests to one server.

    Args:
        url: where they are sent.
        session: the aiohttp session that sends them.
        headers: those of the user; headers of a single request take precedence.
        access: obtains and sends credentials if the server asks for them.
        pause: entered while a person signs in, so that deadlines are stopped.

    Raises ``ConfigError``: a header cannot be sent.
    """

    def __init__(
        self,
        url: URL,
        session: aiohttp.ClientSession,
        headers: Mapping[str, str] | None = None,
        *,
        access: Credentials | None = None,
        pause: Pause = nullcontext,
    ) -> None:
        self.url = url
        """Where requests are sent; a redirect within the origin changes it, until it leads to nothing."""
        self.session = session
        self._timeout = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT)
        self._headers = check_headers(headers or {})
        self._access = access
        self._pause = pause
        self._answered = 0
        """Number of responses since a connection broke off."""
        if access is not None or any(name.lower() == "authorization" for name in self._headers):
            # aiohttp refuses credentials and an Authorization header together; the explicit header
            # counts.
            self.url = url.with_user(None)
        self._given = self.url
        # Ask for no compression: a proxy that compresses a stream delays its events.
        self._headers.setdefault(istr("Accept-Encoding"), "identity")

    @property
    def where(self) -> str:
        """The address, in a form that can be shown."""
        return show_address(self.url)

    def request(
        self, method: str, headers: Mapping[str, str], data: bytes | None = None, *, ask: bool = False
    ) -> CoroutineType[Any, Any, aiohttp.ClientResponse]:
        """Make a request and return the response when its head has arrived; the caller releases it. Await it at once.

        ``ask``: a person may be asked to sign in if that is what it takes. Raises ``HttpFailure``: there is no response
        (``UNREACHABLE``, ``BROKEN``), a redirect to another origin (``UNUSABLE``), or the server refused our
        credentials and more is known than the status.
        """
        if self._access is None:
            return self._follow_redirects(method, headers, data)
        return self._admit_caller(self._access.begin(), method, headers, data, ask=ask)

    async def _admit_caller(
        self, entry: RequestCredentials, method: str, headers: Mapping[str, str], data: bytes | None, *, ask: bool
    ) -> aiohttp.ClientResponse:
        while True:
            response = await self._follow_redirects(method, headers, data, entry)
            entry.answered(response.headers)
            if response.status not in REFUSING or not await self._let_in(entry, response, ask=ask):
                return response
            response.release()

    async def _let_in(self, entry: RequestCredentials, response: aiohttp.ClientResponse, *, ask: bool) -> bool:
        """Do what it takes to be let in, and tell whether to send the request again."""
        status = response.status
        lines = response.headers.getall("WWW-Authenticate", [])
        try:
            with self._pause():
                again = await entry.refused(status, response.headers, lines, ask=ask)
            why = None if again else entry.why(status)
        except Unauthorized as error:
            again, why = False, error.message
        except AntiphonError as error:
            response.release()
            raise HttpFailure(
                UNUSABLE, f"{self.where} answered HTTP {status}, and no login was possible: {error}"
            ) from None
        except BaseException:
            response.release()
            raise
        if why is not None:
            response.release()
            raise HttpFailure.not_let_in(self.where, status, why)
        return again

    async def _credentials(self, entry: RequestCredentials, method: str, target: URL) -> Mapping[str, str]:
        try:
            return await entry.headers(method, str(target.with_user(None)))
        except Unauthorized as error:
            raise HttpFailure.not_let_in(self.where, 401, error.message) from None
        except AntiphonError as error:
            # Stored logins that cannot be read, say: nothing was sent.
            raise HttpFailure(UNUSABLE, f"no request was sent to {self.where}: {error}") from None

    async def _follow_redirects(
        self, method: str, headers: Mapping[str, str], data: bytes | None, entry: RequestCredentials | None = None
    ) -> aiohttp.ClientResponse:
        target = self.url
        for _ in range(_MAX_REDIRECTS):
            sent = {**self._headers, **headers}
            if entry is not None:
                # Made anew for each address: a proof is for one.
                sent.update(await self._credentials(entry, method, target))
            response = await self._once(method, target, sent, data)
            is_old = response.status in GONE and target == self.url != self._given
            if not is_old and response.status not in (301, 302, 303, 307, 308):
                self.url = target
                return response
            async with response:
                if is_old:
                    # Where a redirect led before is gone; the address that was given may lead elsewhere by now.
                    self.url = target = self._given
                else:
                    target = _find_redirect(response, target, safe=method == "GET")
        raise HttpFailure(UNUSABLE, f"{self.where} redirects more than {_MAX_REDIRECTS} times")

    async def _once(
        self, method: str, url: URL, headers: Mapping[str, str], data: bytes | None
    ) -> aiohttp.ClientResponse:
        """Make one request.

        While the process has too many files open, wait for a connection; nothing is sent before that.
        """
        clock = asyncio.get_running_loop().time
        until = clock() + PATIENCE
        while True:
            body = BytesIO(data) if data is not None and len(data) >= _LARGE else data
            try:
                response = await self.session.request(
                    method, url, headers=headers, data=body, allow_redirects=False, timeout=self._timeout
                )
                self._answered += 1
                return response
            except (OSError, aiohttp.ClientError) as error:
                where, why = show_address(url), describe_error(error)
                if not isinstance(error, _UNSENT):
                    self._note_break()
                    raise HttpFailure(BROKEN, f"{where} broke off before it answered: {why}") from None
                if not are_used_up(error) or clock() >= until:
                    raise HttpFailure(UNREACHABLE, f"cannot reach {where}: {why}") from None
            await asyncio.sleep(PAUSE)

    def _note_break(self) -> None:
        """Keep no connections of a server that breaks off every second request: it closes them without saying so."""
        if self._answered < 2 and isinstance(self.session.connector, Connections):
            self.session.connector.is_kept = False
        self._answered = 0

    async def refusal(self, response: aiohttp.ClientResponse) -> tuple[bytes, str]:
        """Read the body of a refusal, up to a limit, and the line of it that can be shown."""
        try:
            async with asyncio.timeout(_REFUSAL_TIMEOUT):
                body = await read_body(response, _MAX_ERROR_BODY)
        except (HttpFailure, TimeoutError):
            return b"", ""
        return body, first_line(body, response.content_type)


async def read_body(response: aiohttp.ClientResponse, limit: int) -> bytes:
    """Read a body of at most ``limit`` bytes.

    Raises ``HttpFailure``: it is larger (``UNUSABLE``), or ends too early (``BROKEN``).
    """
    content = response.content
    chunks: list[bytes] = []
    size = 0
    try:
        # Usually the whole body is there at once; iterating would wait once more just to see the end.
        while not content.at_eof():
            chunk = await content.readany()
            size += len(chunk)
            if size > limit:
                raise HttpFailure(UNUSABLE, f"{show_address(response.url)} answered with more than {limit} bytes")
            chunks.append(chunk)
    except (aiohttp.ClientError, OSError) as error:
        raise HttpFailure(
            BROKEN, f"{show_address(response.url)} broke off within its answer: {describe_error(error)}"
        ) from None
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)


_WORDS: dict[type[Exception], str] = {
    aiohttp.InvalidURL: "no valid address",
    aiohttp.ConnectionTimeoutError: "no connection within the time for it",
    aiohttp.ClientPayloadError: "the answer is not complete",
    aiohttp.ClientConnectionError: "the connection was closed",
    aiohttp.ClientError: "what it said is no HTTP that can be read",
}
"""Our own messages instead of the library's; the more specific ones first."""


def describe_error(error: Exception) -> str:
    """Describe in our own words what happened. The library's text would show the whole address and internal names."""
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"its proxy answered HTTP {error.status} {error.message}{suggest_remedy(error.status)}"
    if isinstance(error, OSError) and (words := describe_os_error(getattr(error, "os_error", error))):
        is_proxy = isinstance(error, aiohttp.ClientProxyConnectionError)
        return f"its proxy, {error.host}:{error.port}: {words}" if is_proxy else words
    return next((words for kind, words in _WORDS.items() if isinstance(error, kind)), "the connection broke")


def _find_redirect(response: aiohttp.ClientResponse, source: URL, *, safe: bool) -> URL:
    """Say where a redirect leads. Only to the same origin: what we send and who we are is meant for no other."""
    try:
        target = source.join(URL(response.headers.get("Location", "")))
    except ValueError:
        target = source
    # 301 to 303 turn a POST into a GET in half of the world's software.
    if target == source or not (safe or response.status in (307, 308)):
        instead = "" if target == source else f": connect to {show_address(target)} if you trust it"
        raise HttpFailure(
            UNUSABLE,
            f"{show_address(source)} answered HTTP {response.status}, a redirect that cannot be followed{instead}",
        )
    if origin_of(target) != origin_of(source):
        raise HttpFailure(
            UNUSABLE,
            f"{show_address(source)} redirects to another origin, {show_address(target)}: connect there "
            "if you trust it",
        )
    return target.with_user(source.user).with_password(source.password)


MAX_AT_ONCE = 10_000
"""Most calls of one client with a connection at the same time, however many files may be open."""

PATIENCE = 30.0
"""Seconds a call waits for its turn before it is sent anyway (calls before it may be waiting for it), and for a
connection if the system has none."""

PAUSE = 0.05
"""Seconds between two attempts to open a connection."""

_USED_UP = (errno.EMFILE, errno.ENFILE)


def most_at_once() -> int:
    """Return how many calls may have a connection: half the number of files, since answers need connections too."""
    return max(8, bound_by_open_files(MAX_AT_ONCE))


def are_used_up(error: Exception) -> bool:
    """Tell whether a connection could not be opened because too many files are open."""
    cause = error.os_error if isinstance(error, aiohttp.ClientConnectorError) else error
    return isinstance(cause, OSError) and cause.errno in _USED_UP


class Places:
    """The places for one client's calls; those that wait for one get it in the order in which they came.

    An ``asyncio.Semaphore`` would take ten times as long for a place that is free, and each call takes one.
    """

    __slots__ = ("_free", "_turns")

    def __init__(self) -> None:
        self._free = most_at_once()
        """While calls wait it is 0, since a place that is given back goes to the first of them."""
        self._turns: dict[asyncio.Future[None], None] = {}
        """Those that wait, in order."""

    async def take(self) -> bool:
        """Wait for a place, no longer than ``PATIENCE``; return whether there was one, which is then to be freed."""
        if self._free:
            self._free -= 1
            return True
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._turns[turn] = None
        try:
            await asyncio.wait((turn,), timeout=PATIENCE)
        except asyncio.CancelledError:
            if turn.done():
                self.free()
            raise
        finally:
            self._turns.pop(turn, None)
        return turn.done()

    def free(self) -> None:
        """Give a place back."""
        turn = next(iter(self._turns), None)
        if turn is None:
            self._free += 1
            return
        del self._turns[turn]
        turn.set_result(None)
