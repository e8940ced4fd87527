"""The provider that repeats."""

from __future__ import annotations

import pytest

from antiphon.errors import SamplingFailed
from antiphon.host.providers import Echo, Manual, Scripted
from antiphon.wire.content import ImageContent
from antiphon.wire.sampling import SamplingMessage, ToolChoice, text_answer
from antiphon.wire.tools import Tool
from tests.host.asks import request, says


async def test_it_repeats_the_last_text_of_the_user():
    """Labelled, so that nobody takes it for a model."""
    asked = request(messages=[says("first"), says("between", "assistant"), says("last")])
    result = await Echo().complete(asked)
    assert (result.text, result.model, result.stop_reason) == ("[echo] last", "echo", "endTurn")
    assert await Echo().complete(asked) == result


async def test_it_obeys_max_tokens():
    """Four characters a token, and it says why it stopped."""
    result = await Echo().complete(request("x" * 100, max_tokens=5))
    assert len(result.text) == 20
    assert result.stop_reason == "maxTokens"


async def test_it_says_that_it_uses_no_tools():
    """Even where one is required."""
    asked = request("q", tools=[Tool(name="f", input_schema={})], tool_choice=ToolChoice(mode="required"))
    assert "echo uses none" in (await Echo().complete(asked)).text


async def test_it_answers_where_there_is_no_text():
    """A picture alone is no text."""
    picture = SamplingMessage(role="user", content=ImageContent(data="AA==", mime_type="image/png"))
    assert (await Echo().complete(request(messages=[picture]))).text == "[echo] (no text)"


async def test_answers_come_in_order_and_requests_are_kept():
    """Texts, results and failures."""
    provider = Scripted(["one", text_answer("two", "m"), ValueError("three")])
    assert (await provider.complete(request("a"))).text == "one"
    assert (await provider.complete(request("b"))).model == "m"
    with pytest.raises(ValueError, match="three"):
        await provider.complete(request("c"))
    assert [asked.messages[0].text for asked in provider.requests] == ["a", "b", "c"]


async def test_a_script_that_is_over_says_so():
    """No silent repetition."""
    with pytest.raises(LookupError, match="request 1"):
        await Scripted([]).complete(request())


async def test_it_never_completes_by_itself():
    """The answer comes from the review or not at all."""
    with pytest.raises(SamplingFailed):
        await Manual().complete(request())
