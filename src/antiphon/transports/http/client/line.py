"""State that the HTTP requests of one channel share: the address, the session, and the inbox for frames.

Owns the session id, the agreed revision for the HTTP header, and the headers made from them. ``deliver_message`` sends
messages that get no reply (notifications, and replies to requests of the server). It repeats a POST that failed: each
message may safely arrive twice, and a lost reply would leave the server waiting for ever. ``find_surroundings`` reads
``HTTPS_PROXY`` and similar variables, and ``.netrc``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import netrc
import os
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from pathlib import Path
from typing import Any
from urllib.request import getproxies, proxy_bypass

from aiohttp import ClientResponse
from multidict import istr
from yarl import URL

from antiphon.errors import AntiphonError, ConfigError, InvalidParams
from antiphon.protocol.http.param_headers import encode_value
from antiphon.transports.http.client.error_replies import BROKEN, UNREACHABLE, UNUSABLE, HttpFailure
from antiphon.transports.http.client.http_request import Places, Web
from antiphon.transports.http.client.message import OutgoingMessage, find_agreed_version, read_refusal
from antiphon.transports.inbox import Inbox, Room

# An ``istr`` keeps itself in lower case, in which headers are compared each time they are copied.
SESSION = istr("Mcp-Session-Id")
_VERSION = istr("MCP-Protocol-Version")
_METHOD = istr("Mcp-Method")
_NAME = istr("Mcp-Name")

_POST: Mapping[str, str] = {
    istr("Content-Type"): "application/json",
    istr("Accept"): "application/json, text/event-stream",
}

# 2025-11-25 basic/transports, "Session Management": visible ASCII only. The limit on the length is our own.
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}")

ParamHeaders = Callable[[str, bytes], Mapping[str, str]]
"""``(tool name, arguments as JSON)`` to the ``Mcp-Param-*`` headers of a call; may raise an ``AntiphonError``."""


class ClientLine:
    """The shared state of one channel. ``on_gone`` is called once, when the server no longer knows the session."""

    def __init__(self, web: Web, *, max_frame: int, on_gone: Callable[[], object]) -> None:
        self.web = web
        self.max_frame = max_frame
        self.param_headers: ParamHeaders | None = None
        self.session_id: str | None = None
        """The id of the session that the server assigned, if it did (legacy)."""
        self.is_gone = False
        """Whether the server no longer knows that session."""
        self._modern: str | None = None
        self._agreed: dict[str, str] = {}
        self._on_gone = on_gone
        self._room = Room()
        self.places = Places()
        """Limits calls in flight to the number of connections that may be open."""
        self.inbox = Inbox(self._room.shut, self._room.open)

    async def put(self, frame: bytes) -> None:
        """Pass a frame to the receiver; wait while it has too many."""
        self.inbox.put([frame])
        if self._room.full is not None:
            await self._room

    def notice(self, message: OutgoingMessage) -> bool:
        """Note the era of a message that is sent, and tell whether it is modern."""
        if message.version is not None:
            self._modern = message.version
        elif message.method == "initialize":
            self._modern = None
        return self._modern is not None

    def post_headers(self, message: OutgoingMessage) -> dict[str, str]:
        """Return the headers with which a message is posted.

        Raises:
            HttpFailure: an argument of the call cannot be put into a header.
        """
        if message.method == "initialize":
            # "... by sending a new InitializeRequest without a session ID attached".
            return dict(_POST)
        if self._modern is None:
            return {**_POST, **self._agreed}
        headers = {**_POST, _VERSION: message.version or self._modern}
        if message.method is not None:
            headers[_METHOD] = encode_value(message.method)
        if message.name is not None:
            headers[_NAME] = encode_value(message.name)
            if message.method == "tools/call" and self.param_headers is not None:
                try:
                    headers.update(self.param_headers(message.name, message.arguments or b"{}"))
                except AntiphonError as error:
                    raise HttpFailure(InvalidParams.CODE, str(error)) from None
        return headers

    def stream_headers(self, last_id: str | None) -> dict[str, str]:
        """Return the headers for opening a stream, or for resuming it after an event."""
        headers = {"Accept": "text/event-stream", "Cache-Control": "no-store", **self._agreed}
        if last_id is not None:
            headers["Last-Event-ID"] = last_id
        return headers

    def session_headers(self) -> dict[str, str]:
        """Return the headers that every request of a session has."""
        return dict(self._agreed)

    def joined(self, response: ClientResponse) -> None:
        """Note the session that the response to ``initialize`` assigns, if it does.

        Raises:
            HttpFailure: the session id is malformed.
        """
        id = response.headers.get(SESSION)
        if id is None:
            return
        if not _SESSION_ID.fullmatch(id):
            raise HttpFailure(UNUSABLE, f"{self.web.where} assigned a session id that is no visible ASCII")
        self.session_id = id
        self._agreed[SESSION] = id

    def agreed(self, reply: bytes) -> None:
        """Note the revision that the reply to ``initialize`` chooses: "all subsequent requests" name it."""
        version = find_agreed_version(reply)
        # Text that does not fit into a header is no revision; the session will refuse it.
        if version is not None and encode_value(version) == version:
            self._agreed[_VERSION] = version

    def has_session(self, response: ClientResponse) -> bool:
        """Tell whether the request of this response named a session."""
        return SESSION in response.request_info.headers

    def lose_session(self) -> None:
        """Note that the server no longer knows the session; ``on_gone`` ends what is open."""
        if not self.is_gone:
            self.is_gone = True
            self._on_gone()


log = logging.getLogger("antiphon.transports")


async def find_surroundings(target: URL, proxy: str | None) -> tuple[URL, str | None]:
    """Return the address with its credentials from ``.netrc``, and the proxy to use.

    Credentials in ``target``, and ``proxy``, take precedence.

    Raises:
        ConfigError: a proxy variable holds no address.
    """
    return await asyncio.to_thread(_look_around, target, proxy)


def _look_around(target: URL, proxy: str | None) -> tuple[URL, str | None]:
    secrets = _read_netrc()
    found = None if proxy is not None else _proxy_to(target)
    if found is not None:
        proxy = str(_add_credentials(found, secrets))
    return _add_credentials(target, secrets), proxy


def _proxy_to(target: URL) -> URL | None:
    named = getproxies().get(target.scheme)
    if named is None or proxy_bypass(target.host or ""):
        return None
    try:
        found = URL(named)
    except ValueError:
        raise ConfigError(f"the environment names a proxy for {target.scheme} that has no address") from None
    if found.scheme == "https":
        # Such a variable is often meant for other programs, and not every event loop supports TLS within TLS.
        log.warning("the proxy of the environment is not used: only those at http:// are")
        return None
    return found


def _add_credentials(url: URL, secrets: netrc.netrc | None) -> URL:
    """Return an address with its credentials from ``.netrc``, unless it has some."""
    if secrets is None or url.host is None or url.user is not None:
        return url
    found = secrets.authenticators(url.host)
    if found is None:
        return url
    login, account, password = found
    return url.with_user(login or account or "").with_password(password or "")


def _read_netrc() -> netrc.netrc | None:
    """Read ``.netrc``, or the file that ``NETRC`` names; one that cannot be read is ignored."""
    with contextlib.suppress(RuntimeError):
        path = Path(os.environ.get("NETRC") or Path.home() / ("_netrc" if os.name == "nt" else ".netrc"))
        try:
            return netrc.netrc(str(path))
        except FileNotFoundError:
            return None
        except (OSError, netrc.NetrcParseError, UnicodeDecodeError) as error:
            # The text of the error may quote the file, which contains secrets.
            log.warning("%s cannot be read: %s", path, type(error).__name__)
    return None


_PATIENCE = 60.0
"""Seconds a server has to accept a message in all attempts together: 16 MiB over a slow line."""

_DELAYS = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repetition."""

_PASSING = frozenset({UNREACHABLE, BROKEN, 502, 503, 504})
"""Failures after which another attempt may succeed: a proxy answers so for a server that has just died."""

_MAX_DELIVERIES = 64
"""Most messages in flight before senders are asked to wait."""


class Deliveries:
    """The messages of one channel that are in flight, each in a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = Room()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start to deliver a message."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        if len(self._tasks) > _MAX_DELIVERIES:
            self._room.shut()
        task.add_done_callback(self._note_end)
        return task

    @property
    def full(self) -> Awaitable[None] | None:
        """What a sender should await, if too many are in flight."""
        return self._room.full

    def _note_end(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if self._room.full is not None and len(self._tasks) <= _MAX_DELIVERIES // 2:
            self._room.open()

    def cancel(self) -> None:
        """Cancel all of them, except the task that calls this."""
        current = asyncio.current_task()
        for task in self._tasks:
            if task is not current:
                task.cancel()

    async def end(self, patience: float) -> None:
        """Wait up to ``patience`` seconds for those in flight, then cancel the rest."""
        tasks = list(self._tasks)
        if tasks:
            await asyncio.wait(tasks, timeout=patience)
            self.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)


async def deliver_message(line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
    """Post a message until the server has accepted or refused it. Failures are logged, since no caller waits for it."""
    what = message.method or "a reply"
    try:
        async with asyncio.timeout(_PATIENCE):
            await _deliver_message(line, message, data)
    except TimeoutError:
        log.warning("%s did not take %s within %g s", line.web.where, what, _PATIENCE)
    except HttpFailure as failure:
        log.warning("%s was not delivered: %s", what, failure.message)
    except Exception:
        log.exception("%s was not delivered", what)


async def _deliver_message(line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
    for delay in (*_DELAYS, None):
        try:
            await _post_message(line, message, data)
            return
        except HttpFailure as failure:
            if delay is None or failure.code not in _PASSING:
                raise
        await asyncio.sleep(delay)


async def _post_message(line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
    response = await line.web.request("POST", line.post_headers(message), data)
    try:
        if response.status < 300:
            return
        gone = response.status == 404 and line.has_session(response)
        failure = (await read_refusal(line.web, response)).failure(gone=gone)
    finally:
        response.release()
    if gone:
        line.lose_session()
    raise failure
