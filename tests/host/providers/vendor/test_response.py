from __future__ import annotations

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from antiphon.host.catalogue import Model
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.vendor.response import completion
from antiphon.wire.content import AudioContent, ImageContent, TextContent, ToolUseContent
from tests.host.asks import request
from tests.host.providers.vendor.ask import PNG

MODEL = Model(name="mine", provider="openai", model="x")


def answered(*parts, max_tokens=100, usage=None, **more):
    """Translate an answer of these parts."""
    response = ModelResponse(parts=list(parts), usage=usage or RequestUsage(), **more)
    return completion(response, request(max_tokens=max_tokens), MODEL, {})


def test_one_block_stands_alone():
    """And several are a list."""
    assert answered(TextPart("Hi")).result.content == TextContent(text="Hi")
    both = answered(TextPart("Look:"), ToolCallPart("see", {"at": 1}, tool_call_id="7"))
    assert both.result.content == [TextContent(text="Look:"), ToolUseContent(id="7", name="see", input={"at": 1})]


def test_media_come_back():
    """Pictures and sound; anything else is left out."""
    files = [FilePart(BinaryContent(PNG, media_type=kind)) for kind in ("image/png", "audio/wav", "video/mp4")]
    assert answered(*files).result.content == [
        ImageContent.of(PNG, "image/png"),
        AudioContent.of(PNG, "audio/wav"),
    ]


@pytest.mark.parametrize("parts", [[], [TextPart("")], [ThinkingPart("Hm")]])
def test_nothing_said_is_an_empty_text(parts):
    """An answer has at least one block."""
    assert answered(*parts, finish_reason="length").result.content == TextContent(text="")


def test_no_count_is_no_usage():
    """Unknown is not nothing."""
    assert answered(TextPart("Hi")).usage is None
    counted = answered(TextPart("Hi"), usage=RequestUsage(input_tokens=3, output_tokens=2)).usage
    assert counted == Usage(input_tokens=3, output_tokens=2)


def test_a_service_that_counts_nothing_is_bounded_too():
    """By characters."""
    done = answered(TextPart("x" * 1000), max_tokens=10).result
    assert (len(done.text), done.stop_reason) == (320, "maxTokens")


def test_hidden_reasoning_does_not_count_as_text():
    """An answer within the bound is not cut for what was thought before it."""
    usage = RequestUsage(output_tokens=150, details={"reasoning_tokens": 100})
    assert answered(TextPart("x" * 200), usage=usage).result.text == "x" * 200


def test_a_cut_goes_through_all_blocks():
    """Uses of tools stay whole."""
    call = ToolCallPart("see", {}, tool_call_id="7")
    done = answered(TextPart("a" * 40), call, TextPart("b" * 40), max_tokens=10, usage=RequestUsage(output_tokens=20))
    assert done.result.content == [TextContent(text="a" * 40), ToolUseContent(id="7", name="see", input={})]


@pytest.mark.parametrize(("finish", "kind"), [("content_filter", "refused"), ("error", "invalid")])
def test_an_end_without_an_answer_is_a_failure(finish, kind):
    """Of its kind."""
    with pytest.raises(ProviderFailure) as failure:
        answered(finish_reason=finish)
    assert failure.value.kind == kind


def test_a_filter_that_cuts_says_so():
    """What was said before stays an answer."""
    assert answered(TextPart("Once"), finish_reason="content_filter").result.stop_reason == "contentFilter"


def test_the_name_of_a_model_is_bounded():
    """It is written by a stranger."""
    assert len(answered(TextPart("Hi"), model_name="x" * 5000).result.model) == 200
    assert answered(TextPart("Hi")).result.model == "x"
