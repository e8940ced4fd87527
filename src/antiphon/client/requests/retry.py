"""Requests that are repeated after their reply was lost: which may be, how often, and the error for the others.

Annotations in a list the client has seen tell which tools may be called twice (``known_tools``). ``link`` reopens a
lost session.

2026-07-28 basic/transports/streamable-http: a broken stream loses its request, which can only be sent again, under a
new id. This is done in every revision if the stream could not be resumed, but never for a tool whose annotations do not
allow it, because the lost call may have been carried out. A retry within rounds is sent again unchanged, with the same
state and answers, under the same rule: Antiphon's servers attach it to the same call, but other servers may not.
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
"""Seconds before each repetition, and so their number: enough for a cut connection, or a server that restarts."""

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
        "tasks/cancel",
        "tasks/get",
        "tasks/update",
        "tools/list",
    }
)
"""Methods that change nothing, or have the same effect when repeated."""


def may_repeat(method: str, params: object, tools: KnownTools) -> bool:
    """Tell whether a request may be repeated when it is unknown whether it was carried out."""
    if method == "tools/call":
        return tools.is_repeatable(getattr(params, "name", ""))
    return method in _HARMLESS


class RepeatingConnection(Connection[ClientSession]):
    """A connection over HTTP that repeats a request whose reply was lost, if that is safe."""

    tools: KnownTools
    """Which tools may be called twice; set by ``Link``."""
    _current: dict[RequestId, RequestId] | None = None
    """Ids of repeated requests that are open, by their first ids."""

    def abandon(self, id: RequestId, error: AntiphonError) -> None:
        """Give up a request, as ``Connection.abandon`` does; callers use the first id of a repeated request."""
        super().abandon((self._current or {}).get(id, id), error)

    async def request(
        self, outgoing: Outgoing, *, timeout: float | TimeLeft | None = None, on_progress: OnProgress | None = None
    ) -> Raw:
        """Send a request and wait for its result, as ``Connection.request`` does; repeat it if its reply is lost.

        A retry with answers, which may have cost a person time, is also repeated if it could not be sent at all.

        Raises:
            PeerError: also if the reply was lost and it could not be repeated; the message then says what to do.
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
                # A server that is not there now may come back: what could be repeated before still
                # can.
                if not is_unreachable(lost) and not self._may_repeat(lost, outgoing.method.name, params):
                    raise _not_repeated(lost, outgoing.method.name, params) if is_broken(lost) else lost from None
            finally:
                current.pop(outgoing.id, None)
        raise _told(lost, f"it was sent {len(PAUSES) + 1} times; call it again once the server can be reached")

    def with_key(self, method: str, params: object, meta: dict[str, Any] | None) -> dict[str, Any] | None:
        """Add a name of the call to the ``_meta`` of its first request, so that a server recognises a repetition.

        A retry needs none, since its state names the call. Only for tools that may be called twice, because other calls
        are never repeated once sent.
        """
        if method != "tools/call" or not may_repeat(method, params, self.tools):
            return meta
        agreed = self.session.revision
        if agreed is None or not agreed.modern or getattr(params, "request_state", None) is not None:
            return meta
        return {CALL_KEY: os.urandom(16).hex(), **(meta or {})}

    def _may_repeat(self, lost: PeerError, method: str, params: object) -> bool:
        """Tell whether a request may be repeated: it was certainly not received, or may be carried out twice."""
        if is_not_accepted(lost):
            return True
        if is_unreachable(lost):
            # Before the first round the error is raised at once, and the caller decides.
            return getattr(params, "request_state", None) is not None
        if is_unavailable(lost) and method != "tools/call":
            # A list or the like can simply be requested again by the caller.
            return False
        return may_repeat(method, params, self.tools)

    def _again(self, lost: Outgoing, params: Wire) -> Outgoing:
        """Open the same request under another id."""
        raw = decode_envelope(lost.data).params
        given: object = msgspec.json.decode(raw or b"{}").get("_meta")
        meta = cast("dict[str, Any]", given) if isinstance(given, dict) else None
        return self.session.request(lost.method, params, wants_progress=lost.wants_progress, meta=meta)


def _still_lost(error: PeerError, lost: PeerError, params: object) -> PeerError:
    """Return the error of another attempt whose reply was lost, too; raise an error that is an answer."""
    if isinstance(error, InvalidParams) and getattr(params, "request_state", None) is not None:
        raise _void(lost) from None
    if not _is_passing(error):
        raise error
    return error


def _is_passing(error: PeerError) -> bool:
    """Tell whether another attempt may succeed."""
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
