"""Somebody who listens: providers of the OpenTelemetry SDK that keep in memory what they are told."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Listener:
    """What was told so far."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.reader = InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.meters = MeterProvider([self.reader])

    @property
    def spans(self) -> list[ReadableSpan]:
        """The spans that have ended, in that order."""
        return list(self.exporter.get_finished_spans())

    def span(self, name: str, kind: str | None = None) -> ReadableSpan:
        """Return the only span of this name (and kind, such as "SERVER")."""
        (found,) = self.named(name, kind)
        return found

    def named(self, name: str, kind: str | None = None) -> list[ReadableSpan]:
        """Return the spans of this name."""
        return [each for each in self.spans if each.name == name and kind in (None, each.kind.name)]

    def points(self, name: str) -> list[Any]:
        """Return the data points of a metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
        found = [metric for scope in scopes for metric in scope.metrics if metric.name == name]
        return [point for metric in found for point in metric.data.data_points]


@contextmanager
def listening() -> Iterator[Listener]:
    """Be there as the providers of the process for a while, which the API allows once only."""
    listener = Listener()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trace, "_TRACER_PROVIDER", listener.tracers)
        patch.setattr("opentelemetry.metrics._internal._METER_PROVIDER", listener.meters)
        yield listener
    listener.tracers.shutdown()
    listener.meters.shutdown()


def parent_of(span: ReadableSpan) -> int | None:
    """Return the id of a span's parent."""
    return span.parent.span_id if span.parent is not None else None


def id_of(span: ReadableSpan) -> int:
    """Return the id of a span."""
    assert span.context is not None
    return span.context.span_id


def trace_of(span: ReadableSpan) -> int:
    """Return the id of the trace a span belongs to."""
    assert span.context is not None
    return span.context.trace_id
