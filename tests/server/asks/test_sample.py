"""What an author reads of an answer, and goes on with."""

from __future__ import annotations

from typing import Any

import pytest

from antiphon.errors import LocalProtocolError, ToolError
from antiphon.server.asks.sample import Sample
from antiphon.wire.content import ImageContent, TextContent, ToolResultContent, ToolUseContent
from antiphon.wire.sampling import CreateMessageResult, SamplingMessage, check_conversation


def sample(*content: Any, **members: Any) -> Sample[None]:
    """Make a sample of blocks."""
    answer = CreateMessageResult(role="assistant", content=list(content), model="m", **members)
    asked = SamplingMessage(role="user", content=TextContent(text="q"))
    return Sample([asked, SamplingMessage(role="assistant", content=answer.content)], answer, None)


def use(id: str) -> ToolUseContent:
    """Make a use of a tool."""
    return ToolUseContent(id=id, name="t", input={})


def test_the_text_of_a_sample_is_all_its_text() -> None:
    """Joined by newlines."""
    assert sample(TextContent(text="a"), TextContent(text="b")).text == "a\nb"


def test_one_block_is_a_list_of_one() -> None:
    """However it travelled."""
    block = TextContent(text="a")
    assert Sample([], CreateMessageResult(role="assistant", content=block, model="m"), None).content == [block]


def test_a_sample_tells_model_and_stop_reason() -> None:
    """By the client's names."""
    one = sample(TextContent(text="a"), stop_reason="maxTokens")
    assert (one.model, one.stop_reason, one.by, one.turns) == ("m", "maxTokens", "client", 1)
    assert sample(TextContent(text="a")).stop_reason is None
    assert repr(one) == "Sample(model='m', stop_reason='maxTokens', text='a')"


def test_a_value_is_shown() -> None:
    """Where there is one."""
    answer = CreateMessageResult(role="assistant", content=TextContent(text="1"), model="m")
    assert repr(Sample([], answer, 1)) == "Sample(model='m', stop_reason=None, text='1', value=1)"


def test_tool_uses_are_picked_out() -> None:
    """In order, the text beside."""
    one = sample(use("0"), TextContent(text="a"), use("1"))
    assert one.tool_uses == [use("0"), use("1")]
    assert one.text == "a"


def test_results_of_any_kind_answer_the_uses() -> None:
    """In the order of the uses, in a message that holds nothing else."""
    picture = ImageContent.of(b"p", "image/png")
    one = sample(*[use(id) for id in "abcde"])
    messages = one.with_results({"b": {"n": 1}, "a": "text", "c": picture, "d": ToolError("no such thing"), "e": None})
    check_conversation(messages)
    assert messages[:-1] == one.messages
    results = [block for block in messages[-1].blocks if isinstance(block, ToolResultContent)]
    assert [(result.tool_use_id, result.is_error) for result in results] == [
        ("a", False), ("b", False), ("c", False), ("d", True), ("e", False),
    ]  # fmt: skip
    assert [result.text for result in results] == ["text", '{"n":1}', "", "no such thing", "null"]
    assert results[2].content == [picture]


@pytest.mark.parametrize(("given", "problem"), [({}, r"no result for \['a'\]"), ({"a": 1, "b": 2}, r"no use \['b'\]")])
def test_every_use_is_answered_and_nothing_else(given: Any, problem: str) -> None:
    """A conversation that could not be sent is not made."""
    with pytest.raises(LocalProtocolError, match=problem):
        sample(use("a")).with_results(given)
