"""The provider that repeats."""

from __future__ import annotations

from antiphon.host.providers import Echo
from antiphon.wire.content import ImageContent
from antiphon.wire.sampling import SamplingMessage, ToolChoice
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
