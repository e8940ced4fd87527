"""What is told of completions and reviews, and what is not."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from antiphon.errors import InternalError, Rejected
from antiphon.host import Deny, Host, NoReviewer, Scripted
from antiphon.host.host_telemetry import watch_completion, watch_review
from antiphon.host.model_catalogue import Model, ModelCatalogue
from antiphon.host.models.models import Models
from antiphon.host.providers.base import Completion, ProviderFailure, Usage
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.sampling import text_answer
from tests.host.asks import Person, approve, origin, request
from tests.support.telemetry import Listener, id_of, listening, parent_of

SECRET = "the secret of the request"


class Metering:
    """A provider that says what it took, or fails."""

    name, tools, personal = "acme", False, False

    def __init__(self, error: Exception | None = None) -> None:
        self.error = error

    async def complete(self, params: Any, *, model: str | None = None) -> Any:
        """Complete."""
        return (await self.generate(params, model=model)).result

    async def generate(self, params: Any, *, model: str | None = None, fallbacks: tuple[str, ...] = ()) -> Completion:
        """Complete, and say what it took."""
        if self.error is not None:
            raise self.error
        return Completion(result=text_answer(SECRET, "acme-1"), usage=Usage(input_tokens=11, output_tokens=5))


def everything_told(heard: Listener) -> str:
    """Write down all that was told."""
    spans = [(each.name, dict(each.attributes or {}), each.status.description) for each in heard.spans]
    events = [(event.name, dict(event.attributes or {})) for each in heard.spans for event in each.events]
    return repr((spans, events))


async def test_without_listeners_nothing_is_wrapped():
    """What is awaited is the provider's own."""
    completing = Metering().generate(request())
    assert watch_completion(completing, Metering(), request(), None) is completing
    await completing
    assert await watch_review(asyncio.sleep(0, 7)) == 7


async def test_a_completion_is_a_span():
    """By the conventions, with what was asked of the model but not what it was asked."""
    with listening() as heard:
        await Host(Metering(), review="never")(request(SECRET, max_tokens=50, temperature=0.5), origin())
    span = heard.span("chat acme", "CLIENT")
    assert dict(span.attributes or {}) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "acme",
        "gen_ai.request.model": "acme",
        "gen_ai.request.max_tokens": 50,
        "gen_ai.request.temperature": 0.5,
        "gen_ai.response.model": "acme-1",
        "gen_ai.response.finish_reasons": ("endTurn",),
        "gen_ai.usage.input_tokens": 11,
        "gen_ai.usage.output_tokens": 5,
    }
    assert SECRET not in everything_told(heard)


async def test_its_duration_and_its_tokens_are_recorded():
    """By provider and model."""
    with listening() as heard:
        await Host(Metering(), review="never")(request(), origin())
        (duration,) = heard.points("gen_ai.client.operation.duration")
        tokens = {
            point.attributes["gen_ai.token.type"]: point.sum for point in heard.points("gen_ai.client.token.usage")
        }
    labels = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme", "gen_ai.request.model": "acme"}
    assert (duration.count, dict(duration.attributes)) == (1, labels)
    assert tokens == {"input": 11, "output": 5}


async def test_a_model_of_a_catalogue_is_told_as_its_vendor_calls_it():
    """And the vendor as the conventions do."""
    models = (
        Model(name="mine", provider="echo", model="echo"),
        Model(name="other", provider="google", model="gemini-x"),
    )
    provider = Models(ModelCatalogue(models, default="mine"), {})
    answered = Completion(result=text_answer("x", "m"))
    with listening() as heard:
        for model in (None, "other", "gone"):
            await watch_completion(asyncio.sleep(0, answered), provider, request(), model)
    told = [(span.name, (span.attributes or {})["gen_ai.provider.name"]) for span in heard.spans]
    assert told == [("chat echo", "echo"), ("chat gemini-x", "gcp.gemini"), ("chat gone", "mine")]


@pytest.mark.parametrize(
    ("error", "kind"), [(ProviderFailure("rate-limit", SECRET), "rate-limit"), (ValueError(SECRET), "ValueError")]
)
async def test_a_failure_is_told_by_its_kind(error: Exception, kind: str):
    """Its text may repeat the request."""
    with listening() as heard:
        with pytest.raises(InternalError):
            await Host(Metering(error), review="never")(request(), origin())
        (duration,) = heard.points("gen_ai.client.operation.duration")
    assert (heard.span("chat acme").attributes or {})["error.type"] == duration.attributes["error.type"] == kind
    assert SECRET not in everything_told(heard)


async def test_a_provider_that_takes_too_long_is_a_timeout():
    """Not a cancellation, which is how the provider sees it."""

    class Slow(Metering):
        async def generate(self, params: Any, **_: Any) -> Completion:
            await asyncio.Event().wait()
            raise AssertionError

    with listening() as heard, pytest.raises(InternalError):
        await Host(Slow(), review="never", generate_timeout=0.01)(request(), origin())
    assert (heard.span("chat acme").attributes or {})["error.type"] == "timeout"


async def test_a_review_is_an_event_of_what_it_holds_up():
    """With how long it took and what was decided, and a histogram of it."""
    with listening() as heard:
        with heard.tracers.get_tracer("app").start_as_current_span("ask"):
            await Host(Scripted([SECRET]), reviewer=Person(approve))(request(SECRET), origin())
        (point,) = heard.points("antiphon.host.review.duration")
    ask = heard.span("ask")
    (event,) = ask.events
    assert event.name == "antiphon.review"
    assert (event.attributes or {})["antiphon.review.decision"] == "approve"
    assert dict(point.attributes) == {"antiphon.review.decision": "approve"}
    assert parent_of(heard.span("chat scripted")) == id_of(ask)
    assert SECRET not in everything_told(heard)


@pytest.mark.parametrize(
    ("decision", "told"),
    [
        (Deny(reason=SECRET), "deny"),
        (TimeoutError(), "expired"),
        (NoReviewer(), "failed"),
        (asyncio.CancelledError(), "withdrawn"),
    ],
)
async def test_every_end_of_a_review_is_told(decision: Any, told: str):
    """Also where nobody decided."""

    def decide(_item: Any) -> Any:
        if isinstance(decision, asyncio.CancelledError):
            asking.cancel()
        if isinstance(decision, BaseException):
            raise decision
        return decision

    with listening() as heard:
        asking = asyncio.ensure_future(Host(Scripted(["x"]), reviewer=Person(decide))(request(), origin()))
        with pytest.raises((Rejected, asyncio.CancelledError)):
            await asking
        (point,) = heard.points("antiphon.host.review.duration")
    assert dict(point.attributes) == {"antiphon.review.decision": told}


async def test_a_form_is_told_by_what_the_person_did():
    """Not by what they wrote."""
    form = ElicitRequestParams.form("Who?", {"properties": {"name": {"type": "string"}}})
    person = Person(approve, fill=ElicitResult(action="accept", content={"name": SECRET}))
    with listening() as heard:
        with heard.tracers.get_tracer("app").start_as_current_span("ask"):
            await Host(reviewer=person).elicit(form, origin())
        (point,) = heard.points("antiphon.host.review.duration")
    assert point.attributes["antiphon.review.decision"] == "accept"
    assert SECRET not in everything_told(heard)
