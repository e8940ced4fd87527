"""Requests reported to OpenTelemetry by its conventions for MCP: those of a peer that are served, and our own.

Owns their names and attributes, and the report of how each ended. Whether telemetry is configured is checked
once per connection; without it a connection uses none of this code. Never reported: arguments, results, URIs, texts of
errors, session ids.

Source: OpenTelemetry, "Semantic conventions for Model Context Protocol (MCP)".
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar, cast
from urllib.parse import urlsplit

import msgspec
from msgspec import Raw, Struct

from antiphon.engine.reader import Handler
from antiphon.errors import CallTimeout, PeerError
from antiphon.protocol.events import Request
from antiphon.telemetry import find_current_telemetry
from antiphon.wire.common import RequestMeta
from antiphon.wire.envelope import RequestId
from antiphon.wire.revisions import Revision
from antiphon.wire.rounds import InputRequiredResult

if TYPE_CHECKING:
    from antiphon.telemetry.operations import Attributes, Kind, Measure, Operation, Telemetry

T = TypeVar("T")

MAX_NAMES = 1_000
"""Most names of tools and prompts in the metrics of a process's own calls, because servers choose the names."""

_ENDLESS = frozenset({"subscriptions/listen"})
"""Requests that last until one side leaves, so that their duration is meaningless."""

_NAMED = {"tools/call": "gen_ai.tool.name", "prompts/get": "gen_ai.prompt.name"}

_names: set[str] = set()


class _Peeked(Struct, rename="camel"):
    name: object = None
    is_error: bool = False


_peek = msgspec.json.Decoder(_Peeked).decode


def make_watch(
    channel: object, *, over: str | None = None, url: str | None = None, knows: Callable[[str, str], bool] | None = None
) -> ConnectionWatch | None:
    """Return the telemetry of a connection; ``None`` if none is configured.

    ``over``: ``"pipe"`` or ``"tcp"``, by default taken from the channel. ``url``: that of the server. ``knows``:
    whether the tool or prompt that a peer's request names exists (method, name); only then is the name reported, so
    that peers cannot create series of metrics.
    """
    telemetry = find_current_telemetry()
    if telemetry is None:
        return None
    where: Attributes = {}
    over = over or getattr(channel, "network", None)
    if over is not None:
        where["network.transport"] = over
    if url is not None:
        # Without path and query, where secrets may be.
        parts = urlsplit(url)
        where["network.protocol.name"] = "websocket" if parts.scheme in ("ws", "wss") else "http"
        where["server.address"] = parts.hostname or ""
        where["server.port"] = parts.port or (443 if parts.scheme in ("https", "wss") else 80)
    return ConnectionWatch(telemetry, channel, where, knows)


class ConnectionWatch(Struct, eq=False):
    """Reports the requests on one connection."""

    _telemetry: Telemetry
    _channel: object
    _where: Attributes
    _knows: Callable[[str, str], bool] | None
    _calls: set[Operation] = set()
    """Our open calls; an ask without trace context belongs to the only one, if there is only one."""

    # --- requests of the peer -----------------------------------------------------------------------------------

    def serving(self, handlers: Mapping[str, Handler]) -> dict[str, Handler]:
        """Return the handlers of a connection, wrapped to be reported."""
        return {
            method: handler if method in _ENDLESS else partial(self._serve, handler)
            for method, handler in handlers.items()
        }

    def _serve(self, handler: Handler, request: Request, owner: Any) -> Any:
        told = self._begin("server", request.method.name, _get_name(request.params), request.revision, request.meta)
        told.operation.span.set_attribute("jsonrpc.request.id", str(request.id))
        request.on_end = told.answered
        with told.operation.entered():
            outcome = handler(request, owner)
        return told.served(outcome) if isinstance(outcome, CoroutineType) else outcome

    def answering(self, answer: Callable[..., Awaitable[T]], revision: Revision | None) -> Callable[..., Awaitable[T]]:
        """Return a wrapped function ``(ask, ...)`` that answers an ask of a round; its row is ``ask.spec``."""

        async def answer_watched(ask: Any, *rest: Any) -> T:
            told = self._begin("server", ask.spec.name, None, revision, None)
            with told.operation.watched(told.failed):
                answered = await answer(ask, *rest)
            told.ended(answered)
            return answered

        return answer_watched

    # --- our requests -------------------------------------------------------------------------------------------

    async def call(self, made: Awaitable[T], method: str, params: object, revision: Callable[[], Revision | None]) -> T:
        """Await a call of ours with all its requests, as one operation."""
        told = self._begin("client", method, _get_name(params), revision(), None)
        self._calls.add(told.operation)
        try:
            with told.operation.watched(told.failed):
                result = await made
        finally:
            self._calls.discard(told.operation)
        told.ended(result)
        return result

    @contextmanager
    def asking(self, method: str, revision: Revision) -> Generator[None]:
        """Report an ask of ours as long as it is out."""
        told = self._begin("client", method, None, revision, None)
        with told.operation.watched(told.failed):
            yield
        told.ended(None)

    def carries(self, id: RequestId) -> dict[str, str]:
        """Return the trace context for the ``_meta`` of a request of ours (``Session.carries``)."""
        from antiphon.telemetry.operations import find_running_operation

        operation = find_running_operation()
        if operation is not None and operation.kind == "client":
            operation.span.set_attribute("jsonrpc.request.id", str(id))
        return self._telemetry.carried()

    # --- attributes ---------------------------------------------------------------------------------------------

    def _begin(
        self, kind: Kind, method: str, name: str | None, revision: Revision | None, meta: RequestMeta | None
    ) -> ReportedSpan:
        labels: Attributes = {"mcp.method.name": method, **self._where}
        if revision is not None:
            labels["mcp.protocol.version"] = revision.name
        if method == "tools/call":
            labels["gen_ai.operation.name"] = "execute_tool"
        facts, title = dict(labels), method
        if name is not None and method in _NAMED and (self._knows is None or self._knows(method, name)):
            title = f"{method} {name}"
            facts[_NAMED[method]] = name
            if self._knows is not None or _is_counted(name):
                labels[_NAMED[method]] = name
        session: object = getattr(self._channel, "session_id", None)
        if isinstance(session, str):
            # Anyone who has the id itself can send messages in the session.
            facts["mcp.session.id"] = hashlib.sha256(session.encode()).hexdigest()[:32]
        carrier = _get_trace_context(meta)
        only = next(iter(self._calls)) if kind == "server" and not carrier and len(self._calls) == 1 else None
        inside = only.context if only is not None else None
        operation = self._telemetry.begin(title, kind, facts, carrier=carrier, inside=inside)
        return ReportedSpan(self._telemetry, operation, kind, labels)


def _get_trace_context(meta: RequestMeta | None) -> dict[str, str]:
    """Return the trace context of a request. Without a parent the rest of it is of no use."""
    if meta is None or meta.traceparent is None:
        return {}
    from antiphon.telemetry.operations import CARRIED, MAX_CARRIED

    given = {name: getattr(meta, name) for name in CARRIED}
    return {name: value for name, value in given.items() if value is not None and len(value) <= MAX_CARRIED}


def _get_name(params: object) -> str | None:
    name = _read_member(params, "name")
    return name if isinstance(name, str) else None


def _is_counted(name: str) -> bool:
    if name not in _names and len(_names) < MAX_NAMES:
        _names.add(name)
    return name in _names


_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


class ReportedSpan:
    """One operation that is being reported, and how it ended."""

    __slots__ = ("_labels", "_measure", "_telemetry", "operation")

    def __init__(self, telemetry: Telemetry, operation: Operation, kind: Kind, labels: Attributes) -> None:
        self.operation = operation
        self._telemetry = telemetry
        self._measure = _make_measure(kind)
        self._labels = labels

    async def served(self, outcome: CoroutineType[Any, Any, T]) -> T:
        """Await the handler of a peer's request within the operation."""
        # Never left: the context is a copy that ends with the handler (``reader.drive_handler``).
        self.operation.enter()
        try:
            return await outcome
        except Exception:
            raise
        except BaseException as error:
            # After this there may be no reply, and so no other report of how it ended.
            self.failed(error)
            raise

    def answered(self, request: Request, outcome: object) -> None:
        """End it with the outcome of a request (``Request.on_end``)."""
        if outcome is None:
            self._end("cancelled")
        elif isinstance(outcome, BaseException):
            self._end(str(request.code) if request.code is not None else _kind_of(outcome), request.code)
        else:
            self.ended(outcome)

    def failed(self, error: BaseException) -> None:
        """End it with an exception."""
        self._end(_kind_of(error), error.code if isinstance(error, PeerError) else None)

    def ended(self, result: object) -> None:
        """End it with a result, which may report a tool's failure, and may be paired with the number of its rounds."""
        if isinstance(result, tuple):
            result = cast("tuple[object, ...]", result)[0]
        if isinstance(result, InputRequiredResult):
            self.operation.span.set_attribute("antiphon.asks", len(result.input_requests or ()))
        self._end(
            "tool_error"
            if self._labels["mcp.method.name"] == "tools/call" and _read_member(result, "is_error")
            else None
        )

    def _end(self, error: str | None, code: int | None = None) -> None:
        labels = self._labels
        if code is not None:
            labels["rpc.response.status_code"] = str(code)
            self.operation.span.set_attribute("rpc.response.status_code", str(code))
        seconds = self.operation.end(error)
        if seconds is not None:
            if error is not None:
                labels["error.type"] = error
            self._telemetry.record(self._measure, seconds, labels, self.operation.context)


def _make_measure(kind: Kind) -> Measure:
    from antiphon.telemetry.operations import Measure

    place = "sender" if kind == "client" else "receiver"
    return Measure(
        f"mcp.{kind}.operation.duration", "s", f"The duration of an MCP request as observed on the {place}.", _BOUNDS
    )


def _kind_of(error: BaseException) -> str:
    if isinstance(error, PeerError):
        return str(error.code)
    if isinstance(error, CallTimeout | TimeoutError):
        return "timeout"
    if isinstance(error, asyncio.CancelledError | GeneratorExit):
        return "cancelled"
    return type(error).__name__


def _read_member(value: object, name: str) -> object:
    """Return a member of params or of a result, which may be encoded, as that of a parked call is."""
    if isinstance(value, Raw):
        with suppress(msgspec.MsgspecError):
            return getattr(_peek(value), name)
    return getattr(value, name, None)
