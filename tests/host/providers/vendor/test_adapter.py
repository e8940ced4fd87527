from __future__ import annotations

import asyncio

import pytest
from pydantic_ai import exceptions as theirs

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.vendor.adapter import Vendor, convert_failure
from antiphon.wire.content import TextContent, ToolUseContent
from antiphon.wire.sampling import ToolChoice
from tests.host.asks import request, says
from tests.host.providers.vendor.ask import VENDORS, WEATHER, asked, history, model
from tests.support.vendors import gemini, openai
from tests.support.vendors.site import KEY, cut, failing, pouring, serving, silent, text

every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.NAME)

MODEL = Model(name="mine", provider="openai", model="x")


@every_vendor
async def test_a_text_comes_back(vendor):
    """With the model's own name, why it ended, and what it took."""
    async with serving(vendor, vendor.answer("A warm sweater")) as site:
        done = await asked(vendor, site)
    assert done.result.content == TextContent(text="A warm sweater")
    assert (done.result.role, done.result.model, done.result.stop_reason) == ("assistant", vendor.MODEL, "endTurn")
    assert done.usage == Usage(input_tokens=11, output_tokens=7)
    assert done.by == "mine"


@every_vendor
async def test_all_of_a_request_arrives(vendor):
    """System prompt, bounds, temperature, stop sequences, tools with their schemas."""
    params = request(
        "Hello",
        max_tokens=77,
        system_prompt="Be brief",
        temperature=0.5,
        stop_sequences=["END"],
        tools=[WEATHER],
        tool_choice=ToolChoice(mode="auto"),
    )
    async with serving(vendor, vendor.answer("Hi")) as site:
        await asked(vendor, site, params)
    (seen,) = site.seen
    assert vendor.bound(seen.body) == 77
    facts = vendor.facts(seen.body)
    assert (facts["system"], facts["temperature"], facts["stop"]) == (["Be brief"], 0.5, ["END"])
    assert [(name, schema["properties"]["city"]["type"].lower()) for name, schema in facts["tools"]] == [
        ("weather", "string")
    ]
    assert "Hello" in str(seen.body)


@every_vendor
@pytest.mark.parametrize("mode", ["required", "none"])
async def test_a_tool_choice_arrives(vendor, mode):
    """In the vendor's word for it."""
    params = request(tools=[WEATHER], tool_choice=ToolChoice(mode=mode))
    async with serving(vendor, vendor.answer("Hi")) as site:
        await asked(vendor, site, params)
    assert vendor.facts(site.seen[0].body)["choice"] == mode


@every_vendor
async def test_a_tool_use_comes_back(vendor):
    """It is for the server to run: the host only carries it."""
    async with serving(vendor, vendor.answer(("weather", {"city": "Basel"}), stop=vendor.TOOL_STOP)) as site:
        done = await asked(vendor, site, request(tools=[WEATHER]))
    assert isinstance(done.result.content, ToolUseContent)
    assert (done.result.content.name, done.result.content.input) == ("weather", {"city": "Basel"})
    assert done.result.content.id
    assert done.result.stop_reason == "toolUse"


@every_vendor
async def test_a_conversation_with_tools_arrives(vendor):
    """The result is tied to its use."""
    async with serving(vendor, vendor.answer("Take a scarf")) as site:
        done = await asked(vendor, site, request(messages=history(), tools=[WEATHER]))
    assert done.result.text == "Take a scarf"
    assert vendor.results(site.seen[0].body) == [("use-1", "Fog, 4 degrees")]


@pytest.mark.parametrize(
    ("vendor", "raw", "reason"),
    [(vendor, raw, reason) for vendor in VENDORS for raw, reason in vendor.STOPS.items()],
    ids=str,
)
async def test_why_it_ended_comes_back(vendor, raw, reason):
    """In the protocol's word for it."""
    async with serving(vendor, vendor.answer("So", stop=raw)) as site:
        done = await asked(vendor, site)
    assert done.result.stop_reason == reason


@every_vendor
async def test_a_refusal_is_a_failure(vendor):
    """It is no answer, and its words stay here."""
    async with serving(vendor, vendor.refusal()) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert failure.value.kind == "refused"
    assert "cannot help" not in str(failure.value)


@every_vendor
async def test_a_service_that_ignores_the_bound_is_cut(vendor):
    """``max_tokens`` is obeyed by us if by nobody else."""
    async with serving(vendor, vendor.answer("word " * 100, tokens=(5, 100))) as site:
        done = await asked(vendor, site, request(max_tokens=20))
    assert len(done.result.text) == 100
    assert done.result.stop_reason == "maxTokens"


@every_vendor
async def test_a_rate_limit_says_how_long(vendor):
    """So that the next attempt is not too early."""
    body = vendor.error("slow down", 429)
    async with serving(vendor, failing(429, body, Retry_After="7")) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert (failure.value.kind, failure.value.retry_after) == ("rate-limit", 7.0)
    assert len(site.seen) == 1, "trying again is not the adapter's business"


@every_vendor
@pytest.mark.parametrize(
    ("status", "kind"),
    [(500, "unavailable"), (503, "unavailable"), (401, "auth"), (404, "not-found"), (400, "rejected")],
)
async def test_an_error_has_a_kind(vendor, status, kind):
    """By its status."""
    async with serving(vendor, failing(status, vendor.error("no", status))) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert (failure.value.kind, failure.value.charged) == (kind, False)


@every_vendor
@pytest.mark.parametrize("status", [400, 401, 429, 500])
async def test_nothing_a_vendor_writes_passes(vendor, status):
    """An error that quotes the key, the prompt and an address says none of them here, nor does its cause."""
    written = f"Incorrect API key provided: {KEY}. See http://internal.example/?key={KEY} for: Describe my diary"
    body = vendor.error(written, status, word=f"error_{KEY}")
    async with serving(vendor, failing(status, body, X_Key=KEY)) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site, request("Describe my diary"))
    told = f"{failure.value!s} {failure.value!r} {failure.value.args} {failure.value.__cause__}"
    assert failure.value.__suppress_context__
    assert not any(secret in told for secret in (KEY, "internal.example", "diary", "0123456789", "127.0.0.1"))
    assert "mine at" in told


@every_vendor
async def test_a_cut_connection_is_a_failure(vendor):
    """In the middle of an answer."""
    async with serving(vendor, cut) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(vendor, site)
    assert (failure.value.kind, failure.value.charged) == ("connection", True)


@every_vendor
async def test_nobody_there_is_a_failure(vendor):
    """The port is closed."""
    async with serving(vendor, silent) as site:
        pass
    with pytest.raises(ProviderFailure) as failure:
        await asked(vendor, site)
    assert (failure.value.kind, failure.value.charged) == ("connection", False)


@every_vendor
@pytest.mark.parametrize("body", ["", "{", "null", "[]", '{"id": 7}', "<html>busy</html>", '{"choices": "none"}'])
async def test_an_answer_that_is_none_is_a_failure(vendor, body):
    """Whatever a vendor sends instead of an answer is a failure of a kind, never something else."""
    async with serving(vendor, text(body)) as site:
        ends = await asyncio.gather(asked(vendor, site), return_exceptions=True)
    (end,) = ends
    assert isinstance(end, ProviderFailure)
    assert end.kind in {"invalid", "connection", "unavailable", "rejected"}


async def test_arguments_that_are_no_object_are_a_failure():
    """A model can write anything where a tool's arguments belong."""
    made = openai.answer(("weather", {}), stop="tool_calls")
    made["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] = '{"city": '
    async with serving(openai, made) as site:
        with pytest.raises(ProviderFailure, match="not a JSON object") as failure:
            await asked(openai, site, request(tools=[WEATHER]))
    assert failure.value.kind == "invalid"


@every_vendor
async def test_cancelling_hangs_up(vendor):
    """The vendor sees the connection go."""
    async with serving(vendor, silent) as site:
        client = Vendor(model(vendor, site), KEY)
        asking = asyncio.create_task(client.generate(request()))
        await site.arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await site.gone.wait()
        await client.aclose()


async def test_hidden_reasoning_is_no_part_of_the_answer():
    """What a model thinks aloud stays here."""
    made = gemini.answer("42")
    made["candidates"][0]["content"]["parts"].insert(0, {"text": "Let me think", "thought": True})
    async with serving(gemini, made) as site:
        done = await asked(gemini, site)
    assert done.result.text == "42"


@every_vendor
async def test_messages_of_both_roles_arrive_in_order(vendor):
    """One after the other, as they were said."""
    messages = [says("One"), says("Two", role="assistant"), says("Three")]
    async with serving(vendor, vendor.answer("Four")) as site:
        await asked(vendor, site, request(messages=messages))
    sent = str(site.seen[0].body)
    assert sent.index("One") < sent.index("Two") < sent.index("Three")


class Listening:
    """Hears how an answer grows."""

    def __init__(self) -> None:
        self.heard: list[str] = []
        self.came = asyncio.Event()

    def begin(self, model: str | None) -> None:
        self.heard.clear()

    def add(self, text: str) -> None:
        self.heard.append(text)
        self.came.set()


async def streamed(vendor, site, growth):
    """Ask a vendor once, and listen."""
    client = Vendor(model(vendor, site), KEY)
    try:
        return await client.generate(request("Hello"), growth)
    finally:
        await client.aclose()


@every_vendor
async def test_an_answer_is_told_while_it_comes(vendor):
    """Piece by piece, before there is more; in the end it is the answer that comes in one piece elsewhere."""
    more, growth = asyncio.Event(), Listening()
    events = vendor.stream("A warm ", more, "sweater")
    async with serving(vendor, pouring(*events)) as site:
        asking = asyncio.create_task(streamed(vendor, site, growth))
        await growth.came.wait()
        assert growth.heard == ["A warm "]
        more.set()
        done = await asking
    assert "".join(growth.heard) == done.result.text == "A warm sweater"
    assert (done.result.model, done.result.stop_reason, done.by) == (vendor.MODEL, "endTurn", "mine")
    assert done.usage == Usage(input_tokens=11, output_tokens=7)


@every_vendor
@pytest.mark.parametrize("done", [True, False])
async def test_half_an_answer_is_none(vendor, done):
    """A stream that ends, or is cut off, before it said why it ends: what has come may cost, and is not tried again."""
    growth = Listening()
    async with serving(vendor, pouring(*vendor.stream("Half of", stop=None), done=done)) as site:
        with pytest.raises(ProviderFailure) as caught:
            await streamed(vendor, site, growth)
    assert caught.value.charged


@every_vendor
async def test_an_error_instead_of_a_stream_is_told_as_any(vendor):
    """The same kind, and nothing charged: no model has worked."""
    async with serving(vendor, failing(429, vendor.error("slow down", 429))) as site:
        with pytest.raises(ProviderFailure) as caught:
            await streamed(vendor, site, Listening())
    assert (caught.value.kind, caught.value.charged) == ("rate-limit", False)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (theirs.ModelQuotaExceededError("x", "secret"), "quota"),
        (theirs.ModelTimeoutError("x", "secret"), "timeout"),
        (theirs.ModelConnectionError("x", "secret"), "connection"),
        (theirs.ModelContextWindowExceededError("x", "secret"), "context"),
        (theirs.ModelOverloadedError("x", "secret"), "unavailable"),
        (theirs.ContentFilterError("secret"), "refused"),
        (theirs.UnexpectedModelBehavior("secret"), "invalid"),
        (theirs.UserError("secret"), "unsupported"),
        (theirs.ModelHTTPError(502, "x", "secret"), "unavailable"),
        (theirs.ModelHTTPError(418, "x", "secret"), "rejected"),
        (TimeoutError("secret"), "timeout"),
        (ConnectionResetError("secret"), "connection"),
        (KeyError("secret"), "invalid"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else "",
)
def test_an_error_has_a_kind_and_no_text(error: Exception, kind: str):
    """Whatever their library raises."""
    made = convert_failure(error, MODEL)
    assert made.kind == kind
    assert "secret" not in str(made)
    assert str(made).startswith("mine at openai: ")


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("insufficient_quota", True),
        ("sk-abcdefghijklmnop", False),
        ("AKIAABCDEFGHIJKLMNOP", False),
        ("see http://x.y", False),
        ("a" * 49, False),
        (7, False),
        (None, False),
    ],
)
def test_only_a_plain_word_is_told(code: object, told: bool):
    """A code is chosen by the vendor, and could be anything."""
    error = theirs.ModelHTTPError(429, "x")
    error.provider_error_code = code
    assert (str(code) in str(convert_failure(error, MODEL))) is told
