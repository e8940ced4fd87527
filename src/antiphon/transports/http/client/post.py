"""One request over HTTP: its POST, the stream of its reply, and resuming that stream (its ``Cursor``).

Owns what each kind of response means for the request. Unless it was cancelled, the request gets a reply in every case:
the server's, or one made here that says why there is none.

Owns the state that the requests of one channel share, too: the address, the session id, the agreed revision, and the
headers made from them. ``deliver_message`` sends messages that get no reply (notifications, and replies to requests of
the server). It repeats a POST that failed: each message may safely arrive twice, and a lost reply would leave the
server waiting for ever. ``find_surroundings`` reads ``HTTPS_PROXY`` and similar variables, and ``.netrc``.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import netrc
import os
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Mapping
from contextlib import aclosing
from pathlib import Path
from typing import Any

from aiohttp import ClientError, ClientResponse
from multidict import istr
from yarl import URL

from antiphon.channel import Related
from antiphon.errors import AntiphonError, InvalidParams, RemoteProtocolError
from antiphon.machine.asyncio_tasks import end_tasks, start_in
from antiphon.machine.web_requests import find_proxy, show_address
from antiphon.protocol.http.param_headers import encode_value
from antiphon.protocol.http.sse import Event, EventParser
from antiphon.transports.http.client import error_replies
from antiphon.transports.http.client.http_request import Places, Web, read_body
from antiphon.transports.http.client.message import (
    SESSION,
    OutgoingMessage,
    error_of,
    find_agreed_version,
    fits_no_request,
    is_json,
    read_refusal,
    replies_to,
)
from antiphon.transports.inbox import Inbox, Room
from antiphon.wire.envelope import RequestId, error_frame

log = logging.getLogger("antiphon.transports")

_VERSION = istr("MCP-Protocol-Version")
_METHOD = istr("Mcp-Method")
_NAME = istr("Mcp-Name")

_POST: Mapping[str, str] = {
    istr("Content-Type"): "application/json",
    istr("Accept"): "application/json, text/event-stream",
}

# 2025-11-25 basic/transports, "Session Management": visible ASCII only. The limit on the length is our own.
_SESSION_ID = re.compile(r"[\x21-\x7e]{1,1024}")


class ClientLine:
    """The shared state of one channel. ``on_gone`` is called once, when the server no longer knows the session."""

    def __init__(self, web: Web, *, max_frame: int, on_gone: Callable[[], object]) -> None:
        self.web = web
        self.max_frame = max_frame
        self.param_headers: error_replies.ParamHeaders | None = None
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

        Raises ``HttpFailure``: an argument of the call cannot be put into a header.
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
                    raise error_replies.HttpFailure(InvalidParams.CODE, str(error)) from None
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

        Raises ``HttpFailure``: the session id is malformed.
        """
        id = response.headers.get(SESSION)
        if not id:
            return
        if not _SESSION_ID.fullmatch(id):
            raise error_replies.HttpFailure(
                error_replies.UNUSABLE, f"{self.web.where} assigned a session id that is too long or no visible ASCII"
            )
        self.session_id = id
        self._agreed[SESSION] = id

    def agreed(self, reply: bytes) -> None:
        """Note the revision that the reply to ``initialize`` chooses: "all subsequent requests" name it."""
        version = find_agreed_version(reply)
        # Text that does not fit into a header is no revision; the session will refuse it.
        if version is not None and encode_value(version) == version:
            self._agreed[_VERSION] = version

    def lose_session(self) -> None:
        """Note that the server no longer knows the session; ``on_gone`` ends what is open."""
        if not self.is_gone:
            self.is_gone = True
            self._on_gone()


def find_surroundings(target: URL, proxy: str | None) -> tuple[URL, str | None]:
    """Return the address with its credentials from ``.netrc``, and the proxy to use. Reads files.

    Credentials in ``target``, and ``proxy``, take precedence. Raises ``ConfigError``: a proxy variable holds no
    address.
    """
    secrets = _read_netrc()
    if proxy is None and (found := find_proxy(target)) is not None:
        proxy = str(_add_credentials(found, secrets))
    return _add_credentials(target, secrets), proxy


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

_MAX_DELIVERIES = 64
"""Most messages in flight before senders are asked to wait."""


class Deliveries:
    """The messages of one channel that are in flight, each in a task."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._room = Room()

    def start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Start to deliver a message."""
        task = start_in(self._tasks, work)
        if len(self._tasks) > _MAX_DELIVERIES:
            self._room.shut()
        task.add_done_callback(self._note_end)
        return task

    @property
    def full(self) -> Awaitable[None] | None:
        """What a sender should await, if too many are in flight."""
        return self._room.full

    def _note_end(self, _task: asyncio.Task[None]) -> None:
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
            await end_tasks(*tasks)


async def deliver_message(line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
    """Post a message until the server has accepted or refused it. Failures are logged, since no caller waits for it."""
    what = message.method or "a reply"
    try:
        async with asyncio.timeout(_PATIENCE):
            await _deliver_message(line, message, data)
    except TimeoutError:
        log.warning("%s did not take %s within %g s", line.web.where, what, _PATIENCE)
    except error_replies.HttpFailure as failure:
        log.warning("%s was not delivered: %s", what, failure.message)
    except Exception:
        log.exception("%s was not delivered", what)


async def _deliver_message(line: ClientLine, message: OutgoingMessage, data: bytes) -> None:
    for delay in (*_DELAYS, None):
        try:
            async with await line.web.request("POST", line.post_headers(message), data) as response:
                if response.status < 300:
                    return
                refusal = await read_refusal(line.web, response)
            if refusal.ends_session:
                line.lose_session()
            raise refusal.failure()
        except error_replies.HttpFailure as failure:
            if delay is None or failure.code not in error_replies.PASSING:
                raise
            named = error_replies.read_wait(failure.data)
        await asyncio.sleep(max(delay, named))


_NO_REPLY = "what is no reply to the request"
_SHOWN = 1024
"""Bytes of such a response of which the first line is shown."""

_LINGER = 1.0
"""Seconds a stream may stay open after the reply; if it ends normally, the connection can be reused."""

_MAX_FAILURES = 8
"""Failed reconnects in a row after which a call is given up: about 25 s, enough for a server to restart."""


class PostCall:
    """Sends one request and delivers its reply. Run ``run`` as a task; cancelling it closes the stream."""

    def __init__(
        self,
        line: ClientLine,
        message: OutgoingMessage,
        id: RequestId,
        data: bytes,
        is_open: Callable[[RequestId], bool],
    ) -> None:
        self.is_modern = line.notice(message)
        """Whether closing its stream cancels the request (2026-07-28)."""
        self._line = line
        self._message = message
        self._id = id
        self._data = data
        self._is_open = is_open
        self._cursor = Cursor()
        self.has_begun = False
        """Whether the server has begun to respond, so that the request was not refused."""
        self.is_cancelled = False
        """Whether the server is being told that nobody waits for the reply any more."""
        self._lost = False
        """Whether the server reported, when we tried to resume, that the session has ended."""
        self._opens = message.method == "initialize"

    async def run(self) -> None:
        """Send the request and deliver what comes back, the reply last."""
        try:
            # A subscription lasts as long as somebody listens: other calls must not wait for its place.
            has_place = self._message.method != "subscriptions/listen" and await self._line.places.take()
            try:
                await self._exchange()
            finally:
                if has_place:
                    self._line.places.free()
        except error_replies.HttpFailure as failure:
            if not self.is_cancelled:
                await self._line.put(failure.frame(self._id))
            if self._lost:
                self._line.lose_session()
        except Exception as error:
            log.exception("an HTTP request failed")
            failure = error_replies.HttpFailure(error_replies.UNUSABLE, f"the request failed: {type(error).__name__}")
            await self._line.put(failure.frame(self._id))

    async def _exchange(self) -> None:
        headers = self._line.post_headers(self._message)
        response = await self._line.web.request("POST", headers, self._data, ask=True)
        while True:
            async with response:
                if await self._take(response):
                    return
            response = await self._resume()

    async def _take(self, response: ClientResponse) -> bool:
        """Deliver the messages of a response; tell whether the reply was among them."""
        if response.status >= 300:
            refusal = await read_refusal(self._line.web, response)
            await self._line.put(refusal.reply(self._id))
            if refusal.ends_session:
                self._line.lose_session()
            return True
        self.has_begun = True
        if self._opens and response.method == "POST":
            self._line.joined(response)
        # MCP names no status for a reply: some frameworks answer each POST with 201.
        kind = response.content_type if response.status in (200, 201) else None
        if kind == "text/event-stream":
            return await self._stream(response)
        if kind == "application/json":
            await self._deliver(self._single(await read_body(response, self._line.max_frame)))
            return True
        if response.status not in (200, 201):
            what = f"HTTP {response.status}: it took the request and gives no reply"
        else:
            what = f"Content-Type {response.headers.get('Content-Type', 'none')[:100]!r}, not JSON and no event stream"
        raise self._unusable(what, (await self._line.web.refusal(response))[1])

    def _single(self, data: bytes) -> bytes:
        """Return the reply of a response without a stream."""
        if replies_to(data, self._id):
            return data
        error = error_of(data)
        if error is not None:
            # A server that could not read the id leaves it out; this error can only be about our request.
            return error_frame(self._id, error, null_id=False)
        raise self._unusable(_NO_REPLY, error_replies.first_line(data[:_SHOWN], ""))

    def _unusable(self, what: str, said: str = "") -> error_replies.HttpFailure:
        """Make the failure for a response that is no reply, with the line of it that can be shown."""
        message = f"{self._line.web.where} answered with {what}"
        return error_replies.HttpFailure(error_replies.UNUSABLE, f"{message}: {said}" if said else message)

    async def _stream(self, response: ClientResponse) -> bool:
        async with aclosing(read_events(response, self._cursor, self._line.max_frame)) as arriving:
            async for event in arriving:
                if event.event != "message":
                    continue
                if replies_to(event.data, self._id):
                    await self._deliver(event.data)
                    break
                if fits_no_request(event.data, self._is_open):
                    raise self._unusable(_NO_REPLY)
                await self._line.put(Related.of(event.data, self._id))
            else:
                return False
        try:
            async with asyncio.timeout(_LINGER):
                while await response.content.readany():
                    pass
        except (TimeoutError, ClientError, OSError):
            response.close()
        return True

    def _deliver(self, reply: bytes) -> Awaitable[None]:
        if self._opens:
            self._line.agreed(reply)
        # A batch may hold asks beside the reply.
        return self._line.put(Related.of(reply, self._id))

    async def _resume(self) -> ClientResponse:
        """Reopen the stream where it ended (2025-11-25 basic/transports, "Resumability and Redelivery")."""
        cursor, named = self._cursor, 0.0
        while not self.is_modern and cursor.last_id is not None and cursor.failures < _MAX_FAILURES:
            await asyncio.sleep(max(cursor.delay, named))
            cursor.failures += 1
            headers = self._line.stream_headers(cursor.last_id)
            try:
                # A call waits for the rest, so a person may be asked to sign in again.
                response = await self._line.web.request("GET", headers, ask=True)
            except error_replies.HttpFailure as failure:
                if failure.code not in (error_replies.UNREACHABLE, error_replies.BROKEN):
                    raise
                continue
            if response.status == 200 and response.content_type == "text/event-stream":
                cursor.answered()
                return response
            async with response:
                refusal = await read_refusal(self._line.web, response)
            self._lost, named = refusal.ends_session, error_replies.read_wait(refusal.failure().data)
            if response.status < 500 and response.status != error_replies.TOO_MANY:
                remedy = error_replies.suggest_remedy(response.status)
                more = f", and gave HTTP {response.status} for the rest of it{remedy}"
                raise error_replies.HttpFailure(error_replies.BROKEN, self._cut_off(more))
        raise error_replies.HttpFailure(error_replies.BROKEN, self._cut_off())

    def _cut_off(self, more: str = "") -> str:
        where, method = self._line.web.where, self._message.method
        return f"{where} ended the stream before the reply to {method}{more}: nobody knows whether it was carried out"


_FIRST_DELAY = 0.1
"""Seconds before the first reconnect if the server names no time; short, so that a brief interruption is not
noticed."""

_LONGEST_DELAY = 30.0
"""Most seconds between failing reconnects, unless the server names a longer time."""

_SHORTEST_DELAY = 0.02
"""Least seconds between reconnects, so that ``retry: 0`` of a server does not cause a busy loop."""

_MAX_ID = 1024
"""Longest event id kept, in characters; it is sent back in a header."""

_OVERHEAD = 64 * 1024
"""Bytes an event may have in addition to its frame: id, event name, field names."""


class Cursor:
    """Where and when a stream can be resumed."""

    def __init__(self) -> None:
        self.last_id: str | None = None
        """The id of the last event that had one, if it fits into a header."""
        self.failures = 0
        """Number of reconnects in a row that brought nothing."""
        self._retry: float | None = None

    def answered(self) -> None:
        """Note that a reconnect was accepted. A server that sets the retry time may then send nothing for long."""
        if self._retry is not None:
            self.failures = 0

    def note(self, event: Event) -> None:
        """Note the id and the retry time of an event."""
        self.failures = 0
        if event.retry is not None:
            self._retry = event.retry / 1000
        if event.id is not None:
            fits = len(event.id) <= _MAX_ID and event.id.isascii() and event.id.isprintable()
            # An empty id resets the position: there is nothing to resume from (WHATWG HTML, section 9.2).
            self.last_id = event.id if fits and event.id else None

    @property
    def names_delay(self) -> bool:
        """Whether the server has set the retry time."""
        return self._retry is not None

    @property
    def delay(self) -> float:
        """Seconds to wait before the next reconnect.

        2025-11-25 basic/transports: "The client MUST respect the retry field"; failures in a row can only lengthen it.
        """
        backoff = min(_FIRST_DELAY * 2 ** min(self.failures, 16), _LONGEST_DELAY)
        if self._retry is None:
            return backoff
        return max(self._retry, backoff if self.failures else 0.0, _SHORTEST_DELAY)


async def read_events(response: ClientResponse, cursor: Cursor, max_frame: int) -> AsyncGenerator[Event]:
    """Yield the events of a response that carry a message, until it ends for whatever reason.

    Raises ``HttpFailure``: an event is too large.
    """
    parser = EventParser(max_frame + _OVERHEAD)
    try:
        async for chunk in response.content.iter_any():
            for event in parser.feed(chunk):
                cursor.note(event)
                if event.data:
                    yield event
        for event in parser.feed(b"\n\n"):
            # Some servers end a stream without the empty line that ends its last event. HTML drops what may be cut off
            # then; a whole message cannot be.
            if is_json(event.data):
                cursor.note(event)
                yield event
    except (ClientError, OSError):
        # The connection broke: complete events were yielded, the rest can only be resumed.
        return
    except RemoteProtocolError as error:
        raise error_replies.HttpFailure(
            error_replies.UNUSABLE, f"{show_address(response.url)} cannot be read: {error}"
        ) from None
