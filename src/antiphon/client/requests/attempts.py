"""The requests of one call, and their replies: a result, or a round that asks for input.

Each round needs another request, and all share one deadline, which does not run while an ask is being answered. Owns
the remaining time, the pauses between retries without questions, the meaning of ``resultType``, and errors that mean
the same in different revisions. ``loop`` answers the questions.

Owns also which requests are repeated after their reply was lost (2026-07-28 basic/transports/streamable-http): a tool
only if its annotations allow it, because the lost call may have been carried out. A retry within rounds is sent again
unchanged under the same rule: Antiphon's servers attach it to the same call, but other servers may not.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar, cast

import msgspec
from msgspec import DecodeError, Raw, Struct, json, structs

from antiphon.client.answers.ownership import OpenCall
from antiphon.client.known_tools import KnownTools
from antiphon.engine.connection import Connection
from antiphon.engine.requests import OnProgress
from antiphon.errors import AntiphonError, CallTimeout, ConnectionClosed, InvalidParams, PeerError, RemoteProtocolError
from antiphon.machine.call_time import TimeLeft
from antiphon.protocol.client_session import ClientSession
from antiphon.protocol.events import Outgoing
from antiphon.protocol.http.rules import REPEATABLE
from antiphon.transports.http.client import error_replies
from antiphon.wire.common import CALL_KEY, PaginatedResult, RoundParams, Wire
from antiphon.wire.envelope import ErrorObject, RequestId, decode_envelope, decode_wire, from_wire, problem_of
from antiphon.wire.lifecycle import ProgressNotificationParams
from antiphon.wire.lists import readable_list
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.revisions import LATEST
from antiphon.wire.rounds import INPUT_REQUIRED, InputRequiredResult
from antiphon.wire.task import TASK, CreateTaskResult

log = logging.getLogger("antiphon.client")

R = TypeVar("R", bound=Wire)

_FIRST_REST = 0.01
"""Seconds before the second retry in a row without questions, so that a server that only needs time causes no busy
loop."""

_LONGEST_REST = 1.0
"""Most seconds of such a pause; each is twice as long as the one before."""

PAUSES = (0.1, 0.5, 2.0, 5.0)
"""Seconds before each repetition, and so their number: enough for a cut connection, or a server that restarts."""

_HARMLESS = (REPEATABLE | {"server/discover", "tasks/update"}) - {"tools/call"}
"""Methods that change nothing, or have the same effect when repeated."""


class Forwarding(Struct, eq=False):
    """A call that is made for another peer: its method, and its params and result as they were received."""

    spec: MethodSpec
    original: Received
    log_level: LoggingLevel | None
    result: Raw = Raw(b"{}")


class BecameTask(Exception):
    """A call goes on as a task. Not an error: the caller follows the task, or returns a handle of it."""

    def __init__(self, task: CreateTaskResult) -> None:
        super().__init__(task.task_id)
        self.task = task


class Sending(Struct, Generic[R], eq=False):
    """Sends the requests of one call.

    A struct, because every call makes one, and structs are made in C.
    """

    session: ClientSession
    peer: Connection[ClientSession]
    call: OpenCall
    result: type[R]
    time: TimeLeft
    """The time left."""
    progress: Callable[..., object] | None = None
    meta: dict[str, Any] | None = None
    extensions: Mapping[str, Any] | None = None
    """What the call declares beside the client's own extensions."""
    forwarding: Forwarding | None = None
    """Set if the call is made for another peer."""
    rounds: int = 0
    """How often the server asked for input so far."""
    idle: int = 0
    """How often it did so in a row without a question."""

    async def __call__(self, params: RoundParams) -> R | InputRequiredResult:
        """Send one request of the call; return its result or, in the modern era, its round.

        Raises ``CallTimeout`` if no time is left, and what ``Connection.request`` raises.
        """
        if self.idle > 1:
            await self._rest()
        time = self.time
        if time.seconds == 0.0:
            raise time.too_late(self.call.method)
        method = self.call.method
        report = None if self.progress is None else _make_reporter(self.progress)
        meta = self.meta
        if isinstance(self.peer, RepeatingConnection):
            meta = self.peer.with_key(method, params, meta)
        passed = self.forwarding
        outgoing = self.session.request(
            METHODS[method] if passed is None else passed.spec,
            params,
            wants_progress=report is not None,
            meta=meta,
            log_level=None if passed is None else passed.log_level,
            original=None if passed is None else passed.original,
            extensions=self.extensions,
        )
        self.call.request = outgoing.id
        try:
            raw = await self.peer.request(outgoing, timeout=time, on_progress=report)
        except CallTimeout:
            time.seconds = 0.0
            raise time.too_late(method) from None
        except PeerError as error:
            raise lift_error(method, error) from None
        if passed is not None:
            passed.result = raw = readable_list(raw, self.result, partial(_warn_of_left_out, method))
        return self._read(raw)

    def _read(self, raw: Raw) -> R | InputRequiredResult:
        agreed = self.session.revision
        if agreed is None or not agreed.modern:
            return read_legacy(raw, self.call.method, self.result)
        done = read_modern(raw, self.call.method, self.result)
        # ``isinstance`` takes six times as long to say that something is not a struct of a class.
        if type(done) is InputRequiredResult:
            self.rounds += 1
            self.idle = 0 if done.input_requests else self.idle + 1
        return done

    async def _rest(self) -> None:
        rest = min(_FIRST_REST * 2 ** min(self.idle - 2, 16), _LONGEST_REST)
        async with self.time.limit(self.call.method):
            await asyncio.sleep(rest)


def _make_reporter(progress: Callable[..., object]) -> OnProgress:
    def report(params: ProgressNotificationParams) -> object:
        outcome = progress(params.progress, params.total, params.message)
        return outcome if inspect.iscoroutine(outcome) else None

    return report


_may_be_round = re.compile(INPUT_REQUIRED.encode()).search
"""Distinguishes a round from nearly all results by searching for one word."""


def lift_error(method: str, error: PeerError) -> PeerError:
    """Return an error reply in the form of the newest revision."""
    if method != "resources/read":
        return error
    # 2026-07-28 server/resources: not found is -32602 with the URI; before, it had a code of its own. Servers mix
    # the two up, so both are understood in every revision.
    return from_wire(LATEST.lift_error(ErrorObject(code=error.code, message=error.message, data=error.data)))


def read_legacy(raw: Raw, method: str, result: type[R]) -> R:
    """Decode a result of a revision without rounds; raises ``RemoteProtocolError`` if it does not fit its type."""
    try:
        done = _decode_result(raw, method, result)
    except DecodeError as error:
        raise _make_unreadable_error(method, error) from None
    # Servers that write members without a value end a list so. From 2026-07-28 on "an empty string is a valid cursor".
    is_end = isinstance(done, PaginatedResult) and done.next_cursor == ""
    return structs.replace(done, next_cursor=None) if is_end else done


def read_modern(raw: Raw, method: str, result: type[R]) -> R | InputRequiredResult:
    """Decode a result, or the round in its place.

    Raises ``BecameTask`` if the call goes on as a task, and ``RemoteProtocolError`` if the result fits neither, or
    has an unknown ``resultType``.
    """
    if _may_be_round(raw) and _result_type(raw) == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    try:
        done = _decode_result(raw, method, result)
    except DecodeError as error:
        found = _result_type(raw)
        if found == INPUT_REQUIRED:
            return read_legacy(raw, method, InputRequiredResult)
        if found == TASK and method == "tools/call":
            raise BecameTask(read_legacy(raw, method, CreateTaskResult)) from None
        raise _make_unreadable_error(method, error) from None
    kind = getattr(done, "result_type", None)
    if kind in (None, "complete"):
        return done
    if kind == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    # 2026-07-28 basic: an absent resultType is complete, an unknown one is invalid.
    raise RemoteProtocolError(f"The server's answer to {method} has the unknown resultType {kind!r}")


def _decode_result(raw: Raw, method: str, result: type[R]) -> R:
    try:
        return decode_wire(raw, result)
    except DecodeError:
        readable = readable_list(raw, result, partial(_warn_of_left_out, method))
        if readable is raw:
            raise
    return decode_wire(readable, result)


def _warn_of_left_out(method: str, problems: str) -> None:
    log.warning("the server's answer to %s has unreadable entries, which are left out: %s", method, problems)


def _make_unreadable_error(method: str, error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"The server's answer to {method} cannot be read: {problem_of(error)}")


class _ResultPeek(Struct, frozen=True, rename="camel"):
    result_type: str | None = None


_peek = json.Decoder(_ResultPeek).decode


def _result_type(raw: Raw) -> str | None:
    """Return ``resultType`` of an undecoded result without decoding the rest; ``None`` if it has none."""
    try:
        return _peek(raw).result_type
    except DecodeError:
        return None


def may_repeat(method: str, params: object, tools: KnownTools) -> bool:
    """Return whether a request may be repeated when it is unknown whether it was carried out."""
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

        A retry with answers, which may have cost a person time, is also repeated if it could not be sent at all, or was
        one too many. Raises ``PeerError``, which says what to do, if the reply was lost and the request could not be
        repeated.
        """
        time = TimeLeft.of(timeout)
        try:
            return await super().request(outgoing, timeout=time, on_progress=on_progress)
        except PeerError as error:
            if not error_replies.is_passing(error) or self.session.revision is None:
                raise
            lost = error
        params: Any = decode_wire(decode_envelope(outgoing.data).params, outgoing.method.params)
        if not self._may_repeat(lost, outgoing.method.name, params):
            raise _not_repeated(lost, outgoing.method.name, params)
        self._current = current = self._current or {}
        for pause in PAUSES:
            await wait_for_turn(time, pause, lost)
            try:
                again = self._again(outgoing, params)
                current[outgoing.id] = again.id
                return await super().request(again, timeout=time, on_progress=on_progress)
            except PeerError as error:
                if isinstance(error, InvalidParams) and getattr(params, "request_state", None) is not None:
                    why = (
                        "when it was sent again, the server had given up the call; since it may be repeated, call again"
                    )
                    raise _extend_error(lost, why) from None
                if not error_replies.is_passing(error):
                    raise
                lost = error
                # A server that is not there now may come back: what could be repeated before still can.
                if lost.code != error_replies.UNREACHABLE and not self._may_repeat(lost, outgoing.method.name, params):
                    raise _not_repeated(lost, outgoing.method.name, params) from None
            finally:
                current.pop(outgoing.id, None)
        raise _extend_error(lost, f"it was sent {len(PAUSES) + 1} times; call it again once the server can be reached")

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
        """Return whether a request may be repeated: it was certainly not received, or may be carried out twice."""
        if error_replies.is_not_accepted(lost) or method.startswith("tasks/"):
            # A task has begun: whoever gets an error while it is followed would call its tool a second time.
            return True
        if lost.code in (error_replies.UNREACHABLE, error_replies.TOO_MANY):
            # Before the first round the error is raised at once, and the caller decides.
            return getattr(params, "request_state", None) is not None
        if lost.code != error_replies.BROKEN and method != "tools/call":
            # A list or the like can simply be requested again by the caller.
            return False
        return may_repeat(method, params, self.tools)

    def _again(self, lost: Outgoing, params: Any) -> Outgoing:
        """Open the same request under another id, with what it declared."""
        raw = decode_envelope(lost.data).params
        given: object = msgspec.json.decode(raw or b"{}").get("_meta")
        meta = cast("dict[str, Any]", given) if isinstance(given, dict) else None
        has = getattr(params.meta, "client_capabilities", None)
        extensions = None if has is None else has.extensions
        return self.session.request(
            lost.method, params, wants_progress=lost.wants_progress, meta=meta, extensions=extensions
        )


async def wait_for_turn(time: TimeLeft, pause: float, lost: PeerError | ConnectionClosed) -> None:
    """Wait before a request is repeated, as long as the server says; raise ``lost`` if the call has not that long."""
    wait = pause
    if isinstance(lost, PeerError) and lost.code == error_replies.TOO_MANY:
        wait = max(pause, error_replies.read_wait(lost.data))
    if time.seconds is not None and wait > time.seconds:
        raise lost
    await asyncio.sleep(wait)
    time.spend(wait)


def _not_repeated(lost: PeerError, method: str, params: object) -> PeerError:
    """Return the error for a request that is not repeated; it says so if the request may have been carried out."""
    if lost.code != error_replies.BROKEN:
        return lost
    what = f"the tool {getattr(params, 'name', '')!r}" if method == "tools/call" else method
    return _extend_error(
        lost,
        f"it was not sent again, since {what} is not marked readOnlyHint or idempotentHint in a list this client has "
        "seen; find out what it did before you call it again",
    )


def _extend_error(lost: PeerError, more: str) -> PeerError:
    told = PeerError(f"{lost.message}; {more}", code=error_replies.BROKEN, data=lost.data)
    told.remote = lost.remote
    return told
