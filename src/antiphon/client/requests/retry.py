"""Requests that are made again after their reply was lost: which may be, how often, and what is said of the others.

A list the client has seen marks the tools that may be called twice (``known_tools``). How a lost session is opened anew
is ``link``'s business.

2026-07-28 basic/transports/streamable-http: a broken stream loses its request, which can only be sent again, under a
new id. That is done in every revision, where the stream could not be resumed: never for a tool that does not say it
may be, since nobody knows whether the lost call was carried out. A retry within rounds goes out again as it was, with
the same state and the same answers, and under the same rule: Antiphon's servers join it to the call, but what a
stranger's server makes of the same state twice is not known.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any, cast

import msgspec
from msgspec import Raw

from antiphon.call_time import TimeLeft
from antiphon.client.known_tools import KnownTools
from antiphon.engine.connection import Connection
from antiphon.engine.requests import OnProgress
from antiphon.errors import AntiphonError, InvalidParams, PeerError
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Outgoing
from antiphon.transports.http.client.failures import (
    BROKEN,
    is_broken,
    is_not_accepted,
    is_unavailable,
    is_unreachable,
)
from antiphon.wire.common import CALL_KEY, Wire
from antiphon.wire.envelope import RequestId, decode, decode_envelope

__all__ = ["PAUSES", "RepeatingConnection", "may_repeat"]

PAUSES = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repetition, and so how many there are: a connection that was cut, or a server that restarts."""

_HARMLESS = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "ping",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
        "server/discover",
        "tools/list",
    }
)
"""Methods that change nothing, or leave the same behind however often they are called."""


def may_repeat(method: str, params: object, tools: KnownTools) -> bool:
    """Tell whether a request may be made again when nobody knows whether it was carried out."""
    if method == "tools/call":
        return tools.is_repeatable(getattr(params, "name", ""))
    return method in _HARMLESS


class RepeatingConnection(Connection[ClientSession]):
    """A connection over HTTP, on which a request whose reply was lost is made again where that is safe."""

    tools: KnownTools
    """Says which tools may be called twice; set by whoever makes the connection."""
    _current: dict[RequestId, RequestId] | None = None
    """Ids of requests that were made again and are open, by the id each had first."""

    def abandon(self, id: RequestId, error: AntiphonError) -> None:
        """Give up a request of ours, as ``Connection.abandon`` does; one that was made again has its first id here."""
        super().abandon((self._current or {}).get(id, id), error)

    async def request(
        self, outgoing: Outgoing, *, timeout: float | TimeLeft | None = None, on_progress: OnProgress | None = None
    ) -> Raw:
        """Send a request and wait for its result, as ``Connection.request`` does; repeat it if its reply is lost.

        Within a round, where a person may have answered, it is also sent again if it was not sent at all.

        Raises:
            PeerError: also if it could not be repeated; then the message says so, and what to do.
        """
        time = TimeLeft.of(timeout)
        try:
            return await super().request(outgoing, timeout=time, on_progress=on_progress)
        except PeerError as error:
            if not _is_passing(error) or self.session.revision is None:
                raise
            lost = error
        params: Any = decode(decode_envelope(outgoing.data).params, outgoing.method.params)
        if not self._may_repeat(lost, outgoing.method.name, params):
            raise _not_repeated(lost, outgoing.method.name, params) if is_broken(lost) else lost
        self._current = current = self._current or {}
        for pause in PAUSES:
            await asyncio.sleep(pause)
            time.spend(pause)
            try:
                again = self._again(outgoing, params)
                current[outgoing.id] = again.id
                return await super().request(again, timeout=time, on_progress=on_progress)
            except PeerError as error:
                lost = _still_lost(error, lost, params)
                # A server that is not there now may come back: what could be repeated before still can.
                if not is_unreachable(lost) and not self._may_repeat(lost, outgoing.method.name, params):
                    raise _not_repeated(lost, outgoing.method.name, params) if is_broken(lost) else lost from None
            finally:
                current.pop(outgoing.id, None)
        raise _told(lost, f"it was sent {len(PAUSES) + 1} times; call it again once the server can be reached")

    def with_key(self, method: str, params: object, meta: dict[str, Any] | None) -> dict[str, Any] | None:
        """Add to ``_meta`` what names a call that may be sent again, so that a server knows it: its first request.

        A retry has the state, which names the call. Only for tools that may be called twice; of others nothing is sent
        again that went anywhere.
        """
        agreed = self.session.revision
        if method != "tools/call" or agreed is None or not agreed.modern:
            return meta
        if getattr(params, "request_state", None) is not None or not may_repeat(method, params, self.tools):
            return meta
        return {CALL_KEY: os.urandom(16).hex(), **(meta or {})}

    def _may_repeat(self, lost: PeerError, method: str, params: object) -> bool:
        """Tell whether a request may be sent again: it surely went nowhere, or it may be carried out twice."""
        if is_not_accepted(lost):
            return True
        if is_unreachable(lost):
            # Before the first round the caller may decide what to do, and is told at once.
            return getattr(params, "request_state", None) is not None
        if is_unavailable(lost) and method != "tools/call":
            # Of lists and the like nothing is lost: the caller may ask again.
            return False
        return may_repeat(method, params, self.tools)

    def _again(self, lost: Outgoing, params: Wire) -> Outgoing:
        """Open the same request under another id."""
        raw = decode_envelope(lost.data).params
        given: object = msgspec.json.decode(raw or b"{}").get("_meta")
        meta = cast("dict[str, Any]", given) if isinstance(given, dict) else None
        return self.session.request(lost.method, params, wants_progress=lost.wants_progress, meta=meta)


def _still_lost(error: PeerError, lost: PeerError, params: object) -> PeerError:
    """Return the error of another attempt that was lost, too; raise one that is an answer."""
    if isinstance(error, InvalidParams) and getattr(params, "request_state", None) is not None:
        raise _void(lost) from None
    if not _is_passing(error):
        raise error
    return error


def _is_passing(error: PeerError) -> bool:
    """Tell whether another attempt may fare better."""
    return is_broken(error) or is_unreachable(error) or is_not_accepted(error) or is_unavailable(error)


def _not_repeated(lost: PeerError, method: str, params: object) -> PeerError:
    what = f"the tool {getattr(params, 'name', '')!r}" if method == "tools/call" else method
    return _told(
        lost,
        f"it was not sent again, since {what} is not marked readOnlyHint or idempotentHint in a list this client has "
        "seen; find out what it did before you call it again",
    )


def _void(lost: PeerError) -> PeerError:
    return _told(lost, "when it was sent again, the server had given up the call; since it may be repeated, call again")


def _told(lost: PeerError, more: str) -> PeerError:
    told = PeerError(f"{lost.message}; {more}", code=BROKEN, data=lost.data)
    told.remote = lost.remote
    return told
