"""One run of a handler: the request it serves, and how it asks the client.

Every ask is checked here before anything is sent, and sent in the way of the era. ``HandlerCall`` is the legacy and the
simple case: one request, open as long as the handler runs. ``RoundCall`` is the modern case, in which the request
changes from round to round. ``Context`` works on both alike. A client's answer is decoded to the type that was asked
for, and refused if it does not fit.

Also the deadlines of tools (``within``): those a client calls, and those a model uses in sampling. The time that a
client takes to answer does not count: an ask stops the clocks of all tools it is made within, and no others.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from functools import partial
from types import CoroutineType
from typing import Any, TypeVar, cast

from msgspec import DecodeError, Raw, Struct

from antiphon import errors
from antiphon.channel import Releases
from antiphon.engine.connection import Connection
from antiphon.machine.asyncio_tasks import run_on
from antiphon.machine.call_time import hold_variable
from antiphon.protocol.events import Request
from antiphon.protocol.server_session import NO_SESSIONS, ServerSession
from antiphon.server.core import Core
from antiphon.server.rate_limits import PROGRESS_RATE, Bucket
from antiphon.wire.common import Wire
from antiphon.wire.envelope import decode_wire
from antiphon.wire.lists import readable_list
from antiphon.wire.lossless import Received, relay_object
from antiphon.wire.methods import METHODS, MethodSpec, unknown_request
from antiphon.wire.task import TASKS

log = logging.getLogger("antiphon.server")


class CallAnswer(Struct, frozen=True, eq=False):
    """An answer that came with a request: undecoded, and decoded."""

    raw: Raw
    value: Wire


def read_answer(key: str, answer: Raw, spec: MethodSpec) -> CallAnswer:
    """Decode an answer in a retry; raises ``InvalidParams``, naming the key, if it does not fit its ask."""
    try:
        return CallAnswer(answer, _decode_answer(answer, spec))
    except DecodeError as error:
        raise errors.InvalidParams(f"Invalid params: inputResponses.{key}: {error}") from None


def read_given(answer: Raw, spec: MethodSpec) -> CallAnswer | None:
    """Decode an answer that came before its ask; ``None`` if it does not fit, so that it is asked for."""
    try:
        return CallAnswer(answer, _decode_answer(answer, spec))
    except DecodeError:
        return None


def read_reply(answer: Raw, spec: MethodSpec) -> Wire:
    """Decode the reply to an ask; raises ``RemoteProtocolError`` if it does not fit."""
    try:
        return _decode_answer(answer, spec)
    except DecodeError as error:
        raise errors.RemoteProtocolError(f"The client's answer to {spec.name} cannot be read: {error}") from None


def _decode_answer(answer: Raw, spec: MethodSpec) -> Wire:
    kind = spec.result or Wire
    try:
        return decode_wire(answer, kind)
    except DecodeError:
        report = partial(log.warning, "the client's answer to %s has unreadable entries, left out: %s", spec.name)
        readable = readable_list(answer, kind, report)
        if readable is answer:
            raise
    return decode_wire(readable, kind)


R = TypeVar("R", bound=Wire)

UNAVAILABLE: dict[str, type[errors.MissingCapability]] = {
    "sampling": errors.SamplingUnavailable,
    "elicitation": errors.ElicitationUnavailable,
}
"""The errors for a client that lacks a capability, where they have a class of their own."""

_HANDSHAKE = 60.0
"""Seconds that a legacy client has to complete the handshake while an ask waits for it."""


_STEP: ContextVar[str | None] = ContextVar("antiphon_step", default=None)
"""The step that is being run."""


class CallAbandoned(asyncio.CancelledError):
    """This copy of a call has ended without its client; another process may have continued the call.

    Raised by asks, ``Context.step`` and ``Context.progress`` in the cleanup of a cancelled handler, so that it cannot
    undo what the other process did. It is a ``CancelledError``, so ``except Exception`` does not catch it.
    """


class HandlerCall:
    """A handler that runs for a request."""

    __slots__ = ("_reports", "connection", "core", "failure", "first", "has_asked", "headers", "request")

    def __init__(self, core: Core, connection: Connection[ServerSession], request: Request) -> None:
        self.core = core
        self.connection = connection
        self.headers = connection.headers
        """Headers of the request being served; copied, since the connection goes on to serve other requests."""
        self.first = request
        """The request that began the call."""
        self.request: Request | None = request
        """The request being served; ``None`` between rounds."""
        self._reports: Bucket | None = None
        self.has_asked = False
        """Whether the handler has asked the client, so that its result depends on the answers."""
        self.failure: type[Exception] | None = None
        """The class of the exception that a tool raised last; the client may be told less."""

    @property
    def facts(self) -> Request:
        """The request to read facts from: the one being served, or else the last one."""
        return self.request or self.first

    async def ask(
        self, method: str, params: Wire, result: type[R], *, key: str | None = None, timeout: float | None = None
    ) -> R:
        """Ask the client, and wait for its answer, at most ``timeout`` seconds, or as long as the call lives.

        ``key`` names the ask on the wire if it is sent in a round. ``MissingCapability`` and ``NotInRevision``
        mean that nothing was sent.
        """
        if self.is_elsewhere:
            return await run_on(self.connection.loop, self.ask(method, params, result, key=key, timeout=timeout))
        answer = (await self._check_and_put(method, params, None, key, timeout)).value
        assert isinstance(answer, result)
        return answer

    async def forward(self, method: str, ask: Received, *, key: str | None = None) -> Received:
        """Pass on an ask of another server with all its members, known or not; return the answer as it came."""
        answer = await self._check_and_put(method, ask.read, ask, key or None, None)
        return relay_object(answer.raw, answer.value)

    def _check_and_put(
        self, method: str, params: Wire, original: Received | None, key: str | None, timeout: float | None
    ) -> Awaitable[CallAnswer]:
        if key is not None and (key.__class__ is not str or not key):
            # Answers come back under the key, so with an unusable one the question would be repeated for
            # ever.
            raise errors.LocalProtocolError(f"key= of {method} must be a text that is not empty, got {key!r}")
        self.has_asked = True
        spec, session, facts = METHODS.get(method), self.connection.session, self.request or self.first
        if spec is None:
            if facts.revision.modern:
                raise errors.NotInRevision(f"{method} is no ask of revision {facts.revision.name}")
            spec = unknown_request(method)
        try:
            lowered = session.check_ask(spec, params, facts)
        except errors.MissingCapability as error:
            kind = UNAVAILABLE.get(spec.needs or "", errors.MissingCapability)
            text = f"The client does not offer {_name_missing(error.data)}, which {method} needs"
            if not session.is_kept:
                text = f"{method}: {NO_SESSIONS}"
            raise kind(text, data=error.data) from None
        notice = session.deprecation(spec, facts.revision)
        if notice is not None:
            log.info("%s", notice)
        return self._send_ask(spec, lowered if original is None else original.carrying(lowered), key, timeout)

    async def _send_ask(
        self, spec: MethodSpec, params: Wire | Raw, key: str | None, timeout: float | None
    ) -> CallAnswer:
        """Send an ask with the params of ``check_ask``; return its answer: here by a request tied to the call's."""
        self.check_outside_steps(spec)
        if self.request is None:
            raise errors.LocalProtocolError(
                f"{spec.name}: the call has ended; await every ask before the handler returns"
            )
        if not self.request.revision.modern and not self.connection.ready.is_set():
            # 2025-11-25 basic/lifecycle: before "initialized" a server sends only pings and log messages.
            try:
                async with asyncio.timeout(_HANDSHAKE if timeout is None else min(timeout, _HANDSHAKE)):
                    await self.connection.ready.wait()
            except TimeoutError:
                why = f"{spec.name} was not sent: the client did not complete the handshake"
                raise errors.CallTimeout(why) from None
        ask, request = self.connection.session.ask, self.connection.request
        if not self.is_told:
            reply = await request(ask(spec, params, self.request, is_checked=True), timeout=timeout)
        else:
            with self.out(spec):
                reply = await request(ask(spec, params, self.request, is_checked=True), timeout=timeout)
        return CallAnswer(reply, read_reply(reply, spec))

    async def step(self, name: str, work: Callable[[str], Awaitable[bytes]], *, secret: bool = False) -> bytes:
        """Run a step. This call is never replayed, so nothing is recorded. See ``Context.step``."""
        return await self.taken(name, work, f"{os.urandom(16).hex()}/{name}")

    @staticmethod
    async def taken(name: str, work: Callable[[str], Awaitable[bytes]], key: str) -> bytes:
        """Run the work of a step, in which asks are forbidden, because no round is sent during a step."""
        with hold_variable(_STEP, name):
            return await work(key)

    @staticmethod
    def check_outside_steps(spec: MethodSpec) -> None:
        """Raise ``LocalProtocolError`` within a step."""
        if (name := _STEP.get()) is not None:
            raise errors.LocalProtocolError(
                f"{spec.name} is asked within the step {name!r}: ask first, then take the step"
            )

    async def go_on_as_task(self, *, required: bool) -> bool:
        """See ``Context.go_on_as_task``: this call cannot."""
        if required:
            raise make_undeclared_error()
        return False

    @property
    def is_elsewhere(self) -> bool:
        """Whether this runs on another event loop, as by ``asyncio.run`` in the thread of a plain function."""
        return asyncio.get_running_loop() is not self.connection.loop

    @property
    def is_told(self) -> bool:
        """Whether ``out`` has an effect, which is rare."""
        return CLOCK.get() is not None or self.connection.watch is not None

    @contextmanager
    def out(self, spec: MethodSpec) -> Generator[None]:
        """Pause the deadlines of tools while an ask is open, and report the ask to the telemetry."""
        watch = self.connection.watch
        with standing_still(), nullcontext() if watch is None else watch.asking(spec.name, self.facts.revision):
            yield

    def close_stream(self) -> None:
        """Close the stream of the request, if the transport has one and its client can resume it."""
        channel = self.connection.channel
        if self.request is not None and isinstance(channel, Releases):
            channel.release(self.request.id)

    async def progress(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress on the request being served."""
        if self.is_elsewhere:
            await run_on(self.connection.loop, self.progress(progress, total, message))
        elif self.request is not None:
            now = self.connection.loop.time()
            self._reports = self._reports or Bucket(PROGRESS_RATE, now)
            if self._reports.try_take(now) or progress == total:
                await self.send(self.connection.session.progress(self.request, progress, total, message))

    async def send(self, data: bytes | None) -> None:
        """Send a notification of this call, waiting while the peer reads too slowly."""
        if self.is_elsewhere:
            await run_on(self.connection.loop, self.send(data))
        elif data is not None and (wait := self.connection.send(data, self.request)) is not None:
            await wait


def make_undeclared_error() -> errors.MissingCapability:
    """Make the error for a client that does not declare the extension for tasks."""
    data: dict[str, Any] = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    return errors.MissingCapability(f"The client does not offer the extension {TASKS}", data=data)


class Handled(Struct, eq=False):
    """The body of a modern call.

    ``name`` and the digest ``code()`` bind its states; ``once``: it must never run twice; ``asks``: it may ask the
    client, so that it may take several requests; ``repeats``: it may run twice, since it only reads or its author says
    so.
    """

    name: str
    body: Callable[[HandlerCall], CoroutineType[Any, Any, Any]]
    code: Callable[[], bytes]
    once: bool = False
    asks: bool = True
    repeats: bool = False
    task: str = "never"
    """When it becomes a task (``features.tools.AsTask``)."""

    def around(
        self,
        name: str,
        body: Callable[[HandlerCall], CoroutineType[Any, Any, Any]],
        code: Callable[[], bytes],
        *,
        asks: bool,
    ) -> Handled:
        """Return this with a body around it: that of middleware, or of the server that mounts its server."""
        return Handled(name, body, code, once=self.once, asks=asks, repeats=self.repeats, task=self.task)


def _name_missing(data: Any) -> str:
    """Name what is missing as a capability path: ``sampling.tools``."""
    names: list[str] = []
    node: Any = data["requiredCapabilities"]
    while isinstance(node, dict) and node:
        name, node = next(iter(cast("dict[str, Any]", node).items()))
        names.append(name)
    return ".".join(names)


Awaited = TypeVar("Awaited")


class Clock:
    """The deadline of one run of a tool; ``outer`` is that of the tool it runs within."""

    __slots__ = ("_asks_out", "_left", "is_over", "limit", "outer")

    def __init__(self, seconds: float, outer: Clock | None) -> None:
        self.limit = asyncio.timeout(seconds)
        self.outer = outer
        self.is_over = False
        """Whether the tool has ended; a task that it made may go on."""
        self._asks_out = 0
        self._left = 0.0

    def stop(self) -> None:
        """Stop the clock. Asks may overlap; it continues when the last one is answered."""
        when = self.limit.when()
        if self._asks_out == 0 and when is not None and not self.is_over and not self.limit.expired():
            self._left = when - asyncio.get_running_loop().time()
            self.limit.reschedule(None)
        self._asks_out += 1

    def go_on(self) -> None:
        """End one ``stop``."""
        self._asks_out -= 1
        # The tool may have ended while its task still runs, or its deadline may have passed during cleanup.
        if self._asks_out == 0 and not self.is_over and not self.limit.expired():
            self.limit.reschedule(asyncio.get_running_loop().time() + self._left)


CLOCK: ContextVar[Clock | None] = ContextVar("antiphon_clock", default=None)
"""The innermost deadline around the running code; ``None`` if there is none."""


async def within(seconds: float, name: str, work: Awaitable[Awaited]) -> Awaited:
    """Await the work of the tool ``name``; raises ``ToolError`` if it takes longer than ``seconds``."""
    clock = Clock(seconds, CLOCK.get())
    before = CLOCK.set(clock)
    try:
        async with clock.limit:
            return await work
    except TimeoutError:
        if clock.limit.expired():
            raise errors.ToolError(f"{name} did not finish within {seconds:g} s") from None
        raise
    finally:
        clock.is_over = True
        CLOCK.reset(before)


@contextmanager
def standing_still() -> Generator[None]:
    """Stop all deadlines around this place while an ask is out."""
    clocks: list[Clock] = []
    clock = CLOCK.get()
    while clock is not None:
        clocks.append(clock)
        clock = clock.outer
    for one in clocks:
        one.stop()
    try:
        yield
    finally:
        for one in clocks:
            one.go_on()
