"""One operation, reported to OpenTelemetry: a span while it runs, and its duration at the end.

Owns the tracer, the instruments, and the propagation of trace context. Imported only where OpenTelemetry is loaded
already. The caller names an operation and its attributes, which never include content.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from time import perf_counter
from typing import Literal, NamedTuple, TypeAlias, cast

from opentelemetry import metrics, propagate, trace
from opentelemetry.context import Context, attach, detach, get_current, get_value, set_value
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode

Attributes: TypeAlias = "dict[str, str | int | float]"
Kind = Literal["client", "server"]

CARRIED = ("traceparent", "tracestate", "baggage")
"""The members of ``_meta`` reserved for trace context (2026-07-28 basic, ``_meta``); others are never touched."""

MAX_CARRIED = 8_192
"""Most characters of one such member that are read or sent: the size that W3C Baggage allows for a baggage."""

log = logging.getLogger("antiphon.telemetry")

_KINDS = {"client": SpanKind.CLIENT, "server": SpanKind.SERVER}
_KEY = "antiphon.operation"


class Measure(NamedTuple):
    """A histogram: its name, unit, description, and the bounds of its buckets."""

    name: str
    unit: str
    description: str
    bounds: tuple[float, ...]


class Telemetry:
    """The tracer and the instruments of one pair of providers."""

    def __init__(self, tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> None:
        from antiphon import __version__

        self._tracer = tracers.get_tracer("antiphon", __version__)
        self._meter = meters.get_meter("antiphon", __version__)
        self._histograms: dict[str, metrics.Histogram] = {}

    def begin(
        self,
        name: str,
        kind: Kind,
        attributes: Attributes,
        *,
        carrier: Mapping[str, str] | None = None,
        inside: Context | None = None,
    ) -> Operation:
        """Begin an operation under the context that a peer sent (``carrier``), else ``inside``, else the current."""
        here = trace.get_current_span()
        parent, links = inside, ()
        if carrier:
            # Not based on the current context: the task that reads may have been started within another
            # trace.
            parent = propagate.extract(carrier, Context())
            if here.is_recording():
                # GenAI conventions, MCP: the ambient context (such as an HTTP request) is not the
                # parent, but is linked.
                links = (Link(here.get_span_context()),)
        elif parent is None:
            # A task may have been started within a span that has ended since.
            has_ended = kind != "client" and not here.is_recording() and not isinstance(here, trace.NonRecordingSpan)
            parent = Context() if has_ended else get_current()
        try:
            span = self._tracer.start_span(name, parent, _KINDS[kind], attributes, links)
        except Exception:
            # A span processor of the program failed; requests must be served nevertheless.
            log.exception("the span %s could not be started", name)
            span = trace.INVALID_SPAN
        return Operation(span, kind, trace.set_span_in_context(span, parent))

    def record(self, measure: Measure, value: float, attributes: Attributes, inside: Context | None = None) -> None:
        """Record a value."""
        histogram = self._histograms.get(measure.name)
        if histogram is None:
            histogram = self._histograms[measure.name] = self._histogram(measure)
        histogram.record(value, attributes, inside)

    def _histogram(self, measure: Measure) -> metrics.Histogram:
        name, unit, description, bounds = measure
        try:
            return self._meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)
        except TypeError:
            # This version of the API does not know this parameter yet.
            return self._meter.create_histogram(name, unit, description)

    @staticmethod
    def note(name: str, attributes: Attributes) -> None:
        """Add an event to the current operation."""
        trace.get_current_span().add_event(name, attributes)

    @staticmethod
    def carried() -> dict[str, str]:
        """Return the current trace context as members of ``_meta``, by the propagators of the program."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return {name: carrier[name] for name in CARRIED if 0 < len(carrier.get(name, "")) <= MAX_CARRIED}


class Operation:
    """An operation that has begun. Call ``end`` once; further calls have no effect."""

    __slots__ = ("_began", "_is_over", "context", "kind", "span")

    def __init__(self, span: Span, kind: Kind, context: Context) -> None:
        self.span = span
        self.kind: Kind = kind
        self.context = set_value(_KEY, self, context)
        """The context that is current while it runs."""
        self._began = perf_counter()
        self._is_over = False

    def enter(self) -> None:
        """Make this the current operation for the rest of the caller's context."""
        attach(self.context)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Make this the current operation within a ``with`` block."""
        token = attach(self.context)
        try:
            yield
        finally:
            detach(token)

    @contextmanager
    def watched(self, end: Callable[[BaseException], object]) -> Generator[None]:
        """Make this the current operation; ``end`` is called with the exception that ends it, if any."""
        with self.entered():
            try:
                yield
            except BaseException as error:
                end(error)
                raise

    def end(self, error: str | None = None) -> float | None:
        """End it, with the type of its error if it failed. Returns its seconds, or ``None`` if it had ended before."""
        if self._is_over:
            return None
        self._is_over = True
        if error is not None:
            self.span.set_attribute("error.type", error)
            # Without a description, because the text of an error may be content.
            self.span.set_status(Status(StatusCode.ERROR))
        try:
            self.span.end()
        except Exception:
            log.exception("a span could not be ended")
        return perf_counter() - self._began


def find_running_operation() -> Operation | None:
    """Return the operation of this library that runs here."""
    return cast("Operation | None", get_value(_KEY))


def find_configured() -> Telemetry | None:
    """Return the telemetry of the configured providers; ``None`` if both are the API's placeholders."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    placeholders = ("opentelemetry.trace", "opentelemetry.metrics")
    if all(type(provider).__module__.startswith(placeholders) for provider in (tracers, meters)):
        return None
    return _make_telemetry(tracers, meters)


_make_telemetry = lru_cache(maxsize=1)(Telemetry)
"""Makes it once, because making an instrument twice logs a warning."""
