"""The requests of one call, and their replies: a result, or a round that asks for input.

Each round needs another request, and all share one deadline, which does not run while an ask is being answered. Owns
the remaining time, the pauses between retries without questions, the meaning of ``resultType``, and errors that mean
the same in different revisions. ``loop`` answers the questions.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from msgspec import DecodeError, Raw, Struct, json

from antiphon.call_time import TimeLeft
from antiphon.client.answers.ownership import OpenCall
from antiphon.client.requests.retry import RepeatingConnection
from antiphon.engine.connection import Connection
from antiphon.engine.requests import OnProgress
from antiphon.errors import CallTimeout, PeerError, RemoteProtocolError
from antiphon.protocol.client_session import ClientSession
from antiphon.wire.common import RoundParams, Wire
from antiphon.wire.envelope import ErrorObject, decode, problem_of
from antiphon.wire.failure import from_wire
from antiphon.wire.lifecycle import ProgressNotificationParams
from antiphon.wire.lists import readable_list
from antiphon.wire.logging import LoggingLevel
from antiphon.wire.lossless import Received
from antiphon.wire.methods import METHODS, MethodSpec
from antiphon.wire.revisions import LATEST
from antiphon.wire.rounds import INPUT_REQUIRED, InputRequiredResult
from antiphon.wire.task import TASK, CreateTaskResult

__all__ = ["BecameTask", "Forwarding", "Sending", "lifted", "read_legacy", "read_modern"]


log = logging.getLogger("antiphon.client")

R = TypeVar("R", bound=Wire)

_FIRST_REST = 0.01
"""Seconds before the second retry in a row without questions, so that a server that only needs time causes no busy
loop."""

_LONGEST_REST = 1.0
"""Most seconds of such a pause; each is twice as long as the one before."""


class Forwarding:
    """A call that is made for another peer: its method, and its params and result as they were received."""

    __slots__ = ("log_level", "original", "result", "spec")

    def __init__(self, spec: MethodSpec, original: Received, log_level: LoggingLevel | None) -> None:
        self.spec = spec
        self.original = original
        self.log_level: LoggingLevel | None = log_level
        self.result = Raw(b"{}")


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

        Raises:
            CallTimeout: no time is left.
            Whatever ``Connection.request`` raises.
        """
        if self.idle > 1:
            await self._rest()
        time = self.time
        if time.seconds == 0.0:
            raise time.too_late(self.call.method)
        method = self.call.method
        report = None if self.progress is None else _reporter(self.progress)
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
            raise lifted(method, error) from None
        if passed is not None:
            passed.result = raw = readable_list(raw, self.result, partial(_left_out, method))
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


def _reporter(progress: Callable[..., object]) -> OnProgress:
    def report(params: ProgressNotificationParams) -> object:
        outcome = progress(params.progress, params.total, params.message)
        return outcome if inspect.iscoroutine(outcome) else None

    return report


_may_be_round = re.compile(INPUT_REQUIRED.encode()).search
"""Distinguishes a round from nearly all results by searching for one word."""


def lifted(method: str, error: PeerError) -> PeerError:
    """Return an error reply in the form of the newest revision."""
    if method != "resources/read":
        return error
    # 2026-07-28 server/resources: not found is -32602 with the URI; before, it had a code of its own. Servers mix
    # the two up, so both are understood in every revision.
    sent = ErrorObject(code=error.code, message=error.message, data=error.data)
    return from_wire(LATEST.lift_error(sent))


def read_legacy(raw: Raw, method: str, result: type[R]) -> R:
    """Decode a result of a revision without rounds.

    Raises:
        RemoteProtocolError: it does not fit its type.
    """
    try:
        return _decode(raw, method, result)
    except (DecodeError, UnicodeDecodeError) as error:
        raise _unreadable(method, error) from None


def read_modern(raw: Raw, method: str, result: type[R]) -> R | InputRequiredResult:
    """Decode a result, or the round in its place.

    Raises:
        BecameTask: the call goes on as a task.
        RemoteProtocolError: it fits neither, or has an unknown ``resultType``.
    """
    if _may_be_round(raw) and _result_type(raw) == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    try:
        done = _decode(raw, method, result)
    except (DecodeError, UnicodeDecodeError) as error:
        found = _result_type(raw)
        if found == INPUT_REQUIRED:
            return read_legacy(raw, method, InputRequiredResult)
        if found == TASK and method == "tools/call":
            raise BecameTask(read_legacy(raw, method, CreateTaskResult)) from None
        raise _unreadable(method, error) from None
    kind = getattr(done, "result_type", None)
    if kind in (None, "complete"):
        return done
    if kind == INPUT_REQUIRED:
        return read_legacy(raw, method, InputRequiredResult)
    # 2026-07-28 basic: an absent resultType is complete, an unknown one is invalid.
    raise RemoteProtocolError(f"The server's answer to {method} has the unknown resultType {kind!r}")


def _decode(raw: Raw, method: str, result: type[R]) -> R:
    try:
        return decode(raw, result)
    except DecodeError:
        readable = readable_list(raw, result, partial(_left_out, method))
        if readable is raw:
            raise
    return decode(readable, result)


def _left_out(method: str, problems: str) -> None:
    log.warning("the server's answer to %s has unreadable entries, which are left out: %s", method, problems)


def _unreadable(method: str, error: Exception) -> RemoteProtocolError:
    return RemoteProtocolError(f"The server's answer to {method} cannot be read: {problem_of(error)}")


class _Peek(Struct, frozen=True, rename="camel"):
    result_type: str | None = None


_peek = json.Decoder(_Peek).decode


def _result_type(raw: Raw) -> str | None:
    """Return ``resultType`` of an undecoded result without decoding the rest; ``None`` if it has none."""
    try:
        return _peek(raw).result_type
    except DecodeError:
        return None
