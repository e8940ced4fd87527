"""One request reported to OpenTelemetry, from its begin to its end.

``telemetry`` chooses its name and attributes.

Source: OpenTelemetry, "Semantic conventions for Model Context Protocol (MCP)".
"""

from __future__ import annotations

import asyncio
from types import CoroutineType
from typing import TYPE_CHECKING, Any, TypeVar, cast

import msgspec
from msgspec import Raw, Struct

from antiphon.errors import CallTimeout, PeerError
from antiphon.protocol.events import Request
from antiphon.wire.rounds import InputRequiredResult

if TYPE_CHECKING:
    from antiphon.telemetry.operations import Attributes, Kind, Measure, Operation, Telemetry

__all__ = ["Told"]

T = TypeVar("T")

_BOUNDS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300)


class _Peek(Struct, rename="camel"):
    is_error: bool = False


_peek = msgspec.json.Decoder(_Peek).decode


class Told:
    """One operation that is being reported, and how it ended."""

    __slots__ = ("_labels", "_measure", "_telemetry", "operation")

    def __init__(self, telemetry: Telemetry, operation: Operation, kind: Kind, labels: Attributes) -> None:
        self.operation = operation
        self._telemetry = telemetry
        self._measure = _measure(kind)
        self._labels = labels

    async def served(self, outcome: CoroutineType[Any, Any, T]) -> T:
        """Await the handler of a peer's request within the operation."""
        # Never left: the context is a copy that ends with the handler (``reader.drive``).
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
        self._end("tool_error" if self._labels["mcp.method.name"] == "tools/call" and _is_error(result) else None)

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


def _measure(kind: Kind) -> Measure:
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


def _is_error(result: object) -> bool:
    if isinstance(result, Raw):
        # The result of a parked call is already encoded.
        try:
            return _peek(result).is_error
        except msgspec.MsgspecError:
            return False
    return bool(getattr(result, "is_error", False))
