"""One operation, told to OpenTelemetry: a span while it runs, and a duration once it is over.

Owns the tracer and the instruments, and how the context of a trace travels. Imported only where OpenTelemetry is there
already. What an operation is called, and what is said of it, is its owner's business: never content.
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

__all__ = ["CARRIED", "Attributes", "Kind", "Measure", "Operation", "Telemetry", "configured", "running"]

Attributes: TypeAlias = "dict[str, str | int | float]"
Kind = Literal["client", "server"]

CARRIED = ("traceparent", "tracestate", "baggage")
"""The members of ``_meta`` that are reserved for trace context (2026-07-28 basic, ``_meta``); others are not ours."""

MAX_CARRIED = 8_192
"""Characters of one such member that are looked at or sent: the bytes that W3C Baggage says a baggage may have."""

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
        """Begin an operation.

        Its parent is what ``carrier`` says, the context a peer has sent; else ``inside``; else what runs here now.
        """
        here = trace.get_current_span()
        parent, links = inside, ()
        if carrier:
            # Not on top of what is here: a task that reads for long may have been started in a trace of its own.
            parent = propagate.extract(carrier, Context())
            if here.is_recording():
                # GenAI conventions, MCP: the ambient context (a request of HTTP) is no parent, but worth a link.
                links = (Link(here.get_span_context()),)
        elif parent is None:
            parent = get_current() if kind == "client" or _is_live(here) else Context()
        try:
            span = self._tracer.start_span(name, parent, _KINDS[kind], attributes, links)
        except Exception:
            # A processor of the program's: what is served must not depend on who listens.
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
            # An API that is older than this advice.
            return self._meter.create_histogram(name, unit, description)

    @staticmethod
    def note(name: str, attributes: Attributes) -> None:
        """Note an event on what runs here."""
        trace.get_current_span().add_event(name, attributes)

    @staticmethod
    def carried() -> dict[str, str]:
        """Return the context that is current here as members of ``_meta``, by the propagators of the program."""
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        return {name: carrier[name] for name in CARRIED if 0 < len(carrier.get(name, "")) <= MAX_CARRIED}


class Operation:
    """Something that has begun. ``end`` it once; what is said later has no effect."""

    __slots__ = ("_began", "_is_over", "context", "kind", "span")

    def __init__(self, span: Span, kind: Kind, context: Context) -> None:
        self.span = span
        self.kind: Kind = kind
        self.context = set_value(_KEY, self, context)
        """What is current while it runs."""
        self._began = perf_counter()
        self._is_over = False

    def enter(self) -> None:
        """Make this the current operation, for as long as the context of the caller lasts."""
        attach(self.context)

    @contextmanager
    def entered(self) -> Generator[None]:
        """Make this the current operation for a while."""
        token = attach(self.context)
        try:
            yield
        finally:
            detach(token)

    @contextmanager
    def watched(self, end: Callable[[BaseException], object]) -> Generator[None]:
        """Make this the current operation; ``end`` is told which exception ends it, if any does."""
        with self.entered():
            try:
                yield
            except BaseException as error:
                end(error)
                raise

    def end(self, error: str | None = None) -> float | None:
        """End it, with the type of its error if it failed; return its seconds, or ``None`` if it was over."""
        if self._is_over:
            return None
        self._is_over = True
        if error is not None:
            self.span.set_attribute("error.type", error)
            # Without a description: the text of an error may be content.
            self.span.set_status(Status(StatusCode.ERROR))
        try:
            self.span.end()
        except Exception:
            log.exception("a span could not be ended")
        return perf_counter() - self._began


def running() -> Operation | None:
    """Return the operation of ours that runs here."""
    return cast("Operation | None", get_value(_KEY))


def configured() -> Telemetry | None:
    """Return the telemetry of the providers in force; ``None`` if neither is more than the API's placeholder."""
    tracers, meters = trace.get_tracer_provider(), metrics.get_meter_provider()
    if _is_placeholder(tracers) and _is_placeholder(meters):
        return None
    return _telemetry(tracers, meters)


@lru_cache(maxsize=1)
def _telemetry(tracers: trace.TracerProvider, meters: metrics.MeterProvider) -> Telemetry:
    """Make it once: an instrument that is made twice is warned of."""
    return Telemetry(tracers, meters)


def _is_live(span: Span) -> bool:
    """Tell a span that has ended, in which a task was once started, from one that runs, recorded or not."""
    return span.is_recording() or isinstance(span, trace.NonRecordingSpan)


def _is_placeholder(provider: object) -> bool:
    return type(provider).__module__.startswith(("opentelemetry.trace", "opentelemetry.metrics"))
