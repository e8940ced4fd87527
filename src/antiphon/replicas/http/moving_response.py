"""A response that goes on at another replica when the one that makes it dies, and when it is given up instead.

A stream goes on by its event ids, as a client of its own would resume it, within the response that the client has. A
request without a response yet is served again if that does no harm; whether a call of a tool may, its server decides.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable

from antiphon.errors import PeerError
from antiphon.protocol.http import rules
from antiphon.protocol.http.rules import HeaderPair, HttpRefusal
from antiphon.replicas.engines.base import LEASE
from antiphon.replicas.http.relay import Cut, Relays, give_up, unavailable_unless_begun
from antiphon.transports.http.server.asgi import Http, Message, Send, send_refusal, send_unavailable
from antiphon.wire.envelope import decode_envelope

MAX_MOVES = 100
"""How often one response may go on elsewhere."""

_REFUSALS = 3
"""How often a replica may say that it leaves, or has too much to do, before the client is told."""

_DYING = 2 * LEASE
"""Seconds within which a replica that has lost a request shows whether it is dying."""

_LOOK_AGAIN = 0.25
"""Seconds between two looks whether it is."""

_OF_A_BODY = frozenset({b"content-type", b"content-length", b"accept", rules.LAST_EVENT_ID})
"""Headers of a POST that the GET for the rest of its stream does not have, or has with another value."""


class MovingResponse:
    """The response to one request. ``body``: of the request, if it has one."""

    def __init__(self, http: Http, body: bytes | None) -> None:
        self.http = http
        self._body = body
        self._cut: Cut | None = None
        """How far it had come when it was cut last."""
        self._home = ""
        """The replica that it came from before it was cut."""
        self._moves = 0
        self._refusals = 0
        self._since = 0.0
        """When it was cut last, by the loop's clock."""
        self.is_done = False
        """Whether nothing is left to do."""
        self._is_refused = False
        """Whether the rest was asked for, and there is none."""
        if body is not None:
            http.call = os.urandom(16)

    def is_moved(self, home: str) -> bool:
        """Hand the connection to a replica, where that is possible and nothing was done yet; tell whether it was."""
        self.is_done = self._cut is None and self.http.move(home, self._body)
        return self.is_done

    async def pass_on(self, relays: Relays, home: str) -> None:
        """Let it come from a replica; it is not done then if it was cut, and can go on elsewhere.

        Raises:
            ClusterUnavailable: the replica cannot be reached.
        """
        if self._cut is not None and not self._cut.kind and home == self._home:
            # It is alive, and may have begun to serve the request, which would then be served twice.
            if asyncio.get_running_loop().time() - self._since > _DYING:
                await self.end(None)
            else:
                await asyncio.sleep(_LOOK_AGAIN)
            return
        asked, body = self._next_request()
        cut = await relays.pass_on(home, asked, body)
        if cut is None:
            await self._check_refused()
            self.is_done = True
            return
        if cut.is_refused:
            # Nothing was done, and the session may live elsewhere by now.
            self._refusals += 1
            if self._refusals >= _REFUSALS:
                await self.refuse("The session is moving between replicas")
            return
        before = self._cut or Cut()
        self._cut, self._home = Cut(before.kind or cut.kind, cut.last or before.last), home
        self._moves += 1
        self._since = asyncio.get_running_loop().time()
        if not self._can_go_on(self._cut):
            await self.end(None)

    async def comes_from(self, relays: Relays, holder: str) -> bool:
        """Let it come from one replica and no other; return ``False`` if that has stopped before it sent anything.

        Raises:
            ClusterUnavailable: the replica cannot be reached.
        """
        asked = self._derive_request("POST", list(self.http.headers.items()), self._send_unless)
        self._cut = await relays.pass_on(holder, asked, self._body)
        if self._cut is not None and self._cut.kind:
            await self.end(None)
            return True
        return self._cut is None and not self._is_refused

    async def _send_unless(self, message: Message) -> None:
        """Send what comes, unless the replica takes no requests any more."""
        if message["type"] == "http.response.start":
            self._is_refused = any(name == rules.NOT_ACCEPTED for name, _ in message["headers"])
        if not self._is_refused:
            await self.http.send(message)

    async def serve_elsewhere(self, serve: Callable[[Http, bytes | None], Awaitable[None]]) -> None:
        """Let it come from this replica."""
        await serve(*self._next_request())
        await self._check_refused()

    async def end(self, refusal: HttpRefusal | None) -> None:
        """End it: with the refusal if nothing was done yet, else with an error that says that a process has stopped."""
        self.is_done = True
        if self._cut is not None:
            await give_up(self.http, self._cut, self._body)
        elif refusal is not None:
            await send_refusal(self.http, refusal)
        else:
            await unavailable_unless_begun(self.http)

    async def refuse(self, why: str) -> None:
        """End it, as it cannot be served here now; it may be sent again if nothing was done yet."""
        self.is_done = True
        await (send_unavailable(self.http, why) if self._cut is None else self.end(None))

    def _can_go_on(self, cut: Cut) -> bool:
        if self._moves > MAX_MOVES:
            return False
        if cut.kind:
            return bool(cut.last) and cut.kind.startswith(b"text/event-stream")
        return self._body is None or _may_come_again(self._body)

    def _next_request(self) -> tuple[Http, bytes | None]:
        if self._cut is None:
            return self.http, self._body
        if not self._cut.kind:
            self.http.is_again = True
            return self.http, self._body
        headers = [(name, value) for name, value in self.http.headers.items() if name not in _OF_A_BODY]
        headers += [(b"accept", b"text/event-stream"), (rules.LAST_EVENT_ID, self._cut.last)]
        rest = self._derive_request("GET", headers, self._send_rest)
        rest.is_relayed = self.http.is_relayed
        return rest, None

    def _derive_request(self, method: str, headers: list[HeaderPair], send: Send) -> Http:
        """Return a request of the same sender, whose response ``send`` gets."""
        http = self.http
        made = Http({"type": "http", "method": method, "path": http.path, "headers": headers}, http.receive, send)
        if http.caller is not None and http.gate is not None:
            made.note_sender(http.caller, http.gate)
        return made

    async def _send_rest(self, message: Message) -> None:
        """Send what follows; the client has the head of the response already."""
        if message["type"] == "http.response.start":
            self._is_refused = message["status"] != 200
        elif not self._is_refused:
            await self.http.send(message)

    async def _check_refused(self) -> None:
        if self._is_refused:
            await self.end(None)


def is_request(body: bytes | None) -> bool:
    """Tell whether a body is a request, which gets a reply."""
    try:
        return body is not None and rules.is_request(decode_envelope(body))
    except PeerError:
        return False


def _may_come_again(body: bytes) -> bool:
    """Tell whether a message may be handled twice: a reply or a notification, or a request that does no harm."""
    try:
        message = decode_envelope(body)
    except PeerError:
        return False
    return not rules.is_request(message) or message.method in rules.REPEATABLE
