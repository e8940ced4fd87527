"""Whether anybody listens, what an operation tells, and how a context travels."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import SpanProcessor
from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags

from antiphon.telemetry import find_current_telemetry
from antiphon.telemetry.operations import MAX_CARRIED, Measure, find_running_operation
from tests.support.telemetry import id_of, listening, parent_of, trace_of

SECONDS = Measure("test.duration", "s", "A test.", (0.1, 1.0))
PARENT = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-00f067aa0ba902b7-01"}


def test_nobody_listens_by_default():
    """The API alone, which other libraries bring along, is no reason to do anything."""
    assert find_current_telemetry() is None


def test_opentelemetry_is_never_imported_first():
    """Serving and calling without it loads nothing of it."""
    program = (
        "import asyncio, sys\nfrom antiphon import Client, Server\nserver = Server('s')\n"
        "@server.tool\ndef hi() -> str:\n    return 'hi'\n"
        "async def main():\n    async with Client(server) as client:\n        await client.call_tool('hi')\n"
        "asyncio.run(main())\nprint([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"


def test_the_same_telemetry_serves_as_long_as_its_providers_do():
    """Instruments are made once; other providers get their own."""
    with listening():
        first = find_current_telemetry()
        assert first is not None and find_current_telemetry() is first
    with listening():
        assert find_current_telemetry() is not first


def test_an_operation_is_a_span_and_what_is_said_later_has_no_effect():
    """The first end is true."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        operation = telemetry.begin("work", "client", {"a": 1})
        assert operation.end("timeout") is not None
        assert operation.end() is None
    span = heard.span("work", "CLIENT")
    assert span.attributes == {"a": 1, "error.type": "timeout"}
    assert span.status.is_ok is False and span.status.description is None


def test_an_operation_is_the_parent_of_what_runs_in_it():
    """And is current only there."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        outer = telemetry.begin("outer", "server", {})
        with outer.entered():
            assert find_running_operation() is outer
            telemetry.begin("inner", "client", {}).end()
        assert find_running_operation() is None
        outer.end()
    assert parent_of(heard.span("inner")) == id_of(heard.span("outer"))


def test_an_exception_is_told_to_whoever_ends_the_operation():
    """It goes on as it was."""
    told: list[BaseException] = []
    with listening():
        telemetry = find_current_telemetry()
        assert telemetry is not None
        with pytest.raises(ValueError, match="no"), telemetry.begin("work", "client", {}).watched(told.append):
            raise ValueError("no")
    assert [type(error) for error in told] == [ValueError]


def test_a_context_a_peer_has_sent_is_the_parent_and_what_runs_here_a_link():
    """2026-07-28 basic, ``_meta``; the GenAI conventions want the link."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        with heard.tracers.get_tracer("http").start_as_current_span("POST"):
            carrier = {**PARENT, "tracestate": "vendor=1", "baggage": "user=7"}
            operation = telemetry.begin("work", "server", {}, carrier=carrier)
            assert baggage.get_baggage("user", operation.context) == "7"
            operation.end()
    span = heard.span("work")
    assert f"{trace_of(span):032x}" == PARENT["traceparent"][3:35]
    assert [link.context.span_id for link in span.links] == [id_of(heard.span("POST"))]


def test_a_span_that_has_ended_is_no_parent_of_what_a_task_serves_later():
    """A task that reads for long may have been started within one."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        ended = heard.tracers.get_tracer("app").start_span("start")
        ended.end()
        token = context.attach(trace.set_span_in_context(ended))
        telemetry.begin("work", "server", {}).end()
        context.detach(token)
    assert parent_of(heard.span("work")) is None


def test_a_trace_that_is_not_sampled_stays_so():
    """Whoever decided it, decided for all of it."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        unsampled = NonRecordingSpan(SpanContext(1, 2, is_remote=False, trace_flags=TraceFlags(0)))
        token = context.attach(trace.set_span_in_context(unsampled))
        telemetry.begin("work", "server", {}).end()
        context.detach(token)
    assert heard.spans == []


def test_the_current_context_is_carried_as_the_protocol_names_it():
    """With what baggage the program has put there."""
    with listening():
        telemetry = find_current_telemetry()
        assert telemetry is not None
        operation = telemetry.begin("work", "client", {})
        with operation.entered():
            token = context.attach(baggage.set_baggage("user", "7"))
            carried = telemetry.carried()
            context.detach(token)
        operation.end()
    assert set(carried) == {"traceparent", "baggage"}
    assert carried["baggage"] == "user=7"


def test_what_is_too_long_is_not_carried(monkeypatch: pytest.MonkeyPatch):
    """Nor is what a propagator writes under other names."""

    def inject(carrier: dict[str, str]) -> None:
        carrier.update({"baggage": "x" * (MAX_CARRIED + 1), "b3": "1"})

    monkeypatch.setattr("antiphon.telemetry.operations.propagate.inject", inject)
    with listening():
        telemetry = find_current_telemetry()
        assert telemetry is not None
        assert telemetry.carried() == {}


def test_values_are_recorded_with_their_bounds():
    """One histogram for each measure."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        telemetry.record(SECONDS, 0.5, {"a": "b"})
        telemetry.record(SECONDS, 2.0, {"a": "b"})
        (point,) = heard.points("test.duration")
    assert (point.count, point.sum, tuple(point.explicit_bounds)) == (2, 2.5, SECONDS.bounds)


def test_who_listens_cannot_break_what_is_served(caplog: pytest.LogCaptureFixture):
    """A processor that raises is logged, and the operation goes on."""

    class Broken(SpanProcessor):
        def on_start(self, span, parent_context=None):
            if span.name == "start":
                raise ValueError("start")

        def on_end(self, span):
            raise ValueError("end")

    with listening() as heard:
        heard.tracers.add_span_processor(Broken())
        telemetry = find_current_telemetry()
        assert telemetry is not None
        assert telemetry.begin("start", "server", {}).end() is not None
        assert telemetry.begin("end", "server", {}).end() is not None
    assert [record.name for record in caplog.records] == ["antiphon.telemetry"] * 2


@given(st.fixed_dictionaries({"traceparent": st.text()}, optional={"tracestate": st.text(), "baggage": st.text()}))
def test_whatever_a_peer_sends_an_operation_begins(carrier: dict[str, str]):
    """Peers are hostile."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        telemetry.begin("work", "server", {}, carrier=carrier).end()
    assert len(heard.named("work")) == 1


def test_an_event_is_noted_on_what_runs_here():
    """With nothing but its attributes."""
    with listening() as heard:
        telemetry = find_current_telemetry()
        assert telemetry is not None
        operation = telemetry.begin("work", "client", {})
        with operation.entered():
            telemetry.note("something", {"a": 1})
        operation.end()
    (event,) = heard.span("work").events
    assert (event.name, event.attributes) == ("something", {"a": 1})
