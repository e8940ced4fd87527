from __future__ import annotations

import base64

import pytest
from pydantic_ai.messages import BinaryContent, FilePart, ModelResponse, TextPart, ThinkingPart, ToolCallPart
from pydantic_ai.usage import RequestUsage

from antiphon.host.model_catalogue import Model
from antiphon.host.providers.base import ProviderFailure, Usage
from antiphon.host.providers.vendor.translation import convert_completion, convert_request
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import Tool
from tests.host.asks import request, says
from tests.host.providers.vendor.ask import PICTURE, PNG, VENDORS, WEATHER, asked, history
from tests.support.vendors import anthropic, gemini, openai
from tests.support.vendors.site import serving

MODEL = Model(name="mine", provider="openai", model="x")
every_vendor = pytest.mark.parametrize("vendor", VENDORS, ids=lambda vendor: vendor.NAME)


def user(*blocks) -> SamplingMessage:
    """Make a message of the user."""
    return SamplingMessage(role="user", content=list(blocks))


def result(*blocks, **more) -> list[SamplingMessage]:
    """Make a conversation that ends in the result of a tool."""
    return [*history()[:2], user(ToolResultContent(tool_use_id="use-1", content=list(blocks), **more))]


@every_vendor
async def test_a_picture_arrives(vendor):
    """Bit by bit, with its type, beside the text."""
    params = request(messages=[user(TextContent(text="What is this?"), PICTURE)])
    async with serving(vendor, vendor.answer("A dot")) as site:
        await asked(vendor, site, params)
    ((kind, data),) = vendor.images(site.seen[0].body)
    assert (kind, base64.b64decode(data)) == ("image/png", PNG)
    assert "What is this?" in str(site.seen[0].body)


@every_vendor
async def test_a_picture_in_the_result_of_a_tool_arrives(vendor):
    """Together with its text."""
    params = request(messages=result(TextContent(text="the sky:"), PICTURE), tools=[WEATHER])
    async with serving(vendor, vendor.answer("Fog")) as site:
        await asked(vendor, site, params)
    ((kind, data),) = vendor.images(site.seen[0].body)
    assert (kind, base64.b64decode(data)) == ("image/png", PNG)
    assert "the sky:" in str(site.seen[0].body)


@pytest.mark.parametrize("vendor", [openai, gemini], ids=lambda vendor: vendor.NAME)
async def test_sound_arrives(vendor):
    """Where the vendor takes it."""
    sound = AudioContent.of(b"RIFF1234WAVE", "audio/wav")
    async with serving(vendor, vendor.answer("A beep")) as site:
        await asked(vendor, site, request(messages=[user(sound)]))
    assert sound.data in str(site.seen[0].body)


async def test_sound_for_a_vendor_that_takes_none_is_unsupported():
    """Nothing is sent, and nothing is left out."""
    async with serving(anthropic, anthropic.answer("?")) as site:
        with pytest.raises(ProviderFailure) as failure:
            await asked(anthropic, site, request(messages=[user(AudioContent.of(b"x", "audio/wav"))]))
    assert (failure.value.kind, site.seen) == ("unsupported", [])


async def test_a_tool_that_failed_says_so():
    """In the vendor's own way."""
    params = request(messages=result(TextContent(text="no such city"), is_error=True), tools=[WEATHER])
    async with serving(anthropic, anthropic.answer("Hm")) as site:
        await asked(anthropic, site, params)
    (block,) = site.seen[0].body["messages"][-1]["content"]
    assert (block["type"], block["is_error"]) == ("tool_result", True)


@every_vendor
@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (result(structured_content={"degrees": 4}), '{"degrees":4}'),
        (result(ResourceLink(uri="file:///sky.png", name="sky")), "[link to file:///sky.png: sky]"),
        (result(EmbeddedResource(resource=ResourceContents.of("note://1", "Fog"))), "[note://1]\nFog"),
        (result(), ""),
    ],
    ids=["structured", "link", "resource", "nothing"],
)
async def test_a_result_is_text_for_the_model(vendor, params, expected):
    """Whatever it is made of."""
    async with serving(vendor, vendor.answer("So")) as site:
        await asked(vendor, site, request(messages=params, tools=[WEATHER]))
    ((_, text),) = vendor.results(site.seen[0].body)
    assert text == expected


@pytest.mark.parametrize(
    "block",
    [
        ImageContent(data="not base64!", mime_type="image/png"),
        ImageContent(data="AAAA", mime_type="text/html"),
        ImageContent(data="AAAA", mime_type="audio/wav"),
        AudioContent(data="AAAA", mime_type="image/png"),
        UnknownContent("video", {"data": "AAAA"}),
        EmbeddedResource(resource=ResourceContents.of("file:///x", b"\0")),
    ],
    ids=["base64", "html", "sound as picture", "picture as sound", "unknown", "blob"],
)
def test_media_of_a_wrong_type_never_leaves(block):
    """Validation refuses most of it before; here nothing passes either."""
    with pytest.raises(ProviderFailure) as failure:
        convert_request(request(messages=[user(block)]), MODEL)
    assert failure.value.kind == "unsupported"


@pytest.mark.parametrize("blocks", [[PICTURE], [TextContent(text="See"), PICTURE]])
def test_a_picture_of_the_assistants_is_not_left_out_in_silence(blocks):
    """Vendors take none: better no answer than one to something else."""
    messages = [says("Draw"), SamplingMessage(role="assistant", content=blocks), says("Again")]
    with pytest.raises(ProviderFailure, match="from the user only"):
        convert_request(request(messages=messages), MODEL)


def test_the_bound_is_always_there():
    """And no larger than the model's own."""
    assert convert_request(request(max_tokens=50), MODEL).settings.get("max_tokens") == 50
    small = Model(name="mine", provider="p", model="x", max_output=20)
    assert convert_request(request(max_tokens=50), small).settings.get("max_tokens") == 20


def test_a_conversation_may_begin_with_the_assistant():
    """The system prompt comes first all the same."""
    params = request(messages=[says("Welcome", role="assistant"), says("Hi")], system_prompt="Be kind")
    first, second, third = convert_request(params, MODEL).messages
    assert [message.kind for message in (first, second, third)] == ["request", "response", "request"]
    assert first.parts[0].part_kind == "system-prompt"


@every_vendor
async def test_a_tool_of_any_name_can_be_used(vendor):
    """Vendors take letters, digits, hyphens and underscores; the server gets its own name back."""
    tools = [Tool(name=name, input_schema=WEATHER.input_schema) for name in ("a.b/c", "a_b_c", "x" * 90)]
    use = ToolUseContent(id="id:with/all sorts", name="a.b/c", input={"city": "Basel"})
    messages = [
        says("Weather?"),
        SamplingMessage(role="assistant", content=use),
        user(ToolResultContent(tool_use_id=use.id, content=[TextContent(text="Fog")])),
    ]
    made = vendor.answer(("a_b_c_2", {"city": "Bern"}), stop=vendor.TOOL_STOP)
    async with serving(vendor, made) as site:
        done = await asked(vendor, site, request(messages=messages, tools=tools))
    sent = [name for name, _ in vendor.facts(site.seen[0].body)["tools"]]
    assert sent == ["a_b_c_2", "a_b_c", "x" * 58]
    ((back, _),) = vendor.results(site.seen[0].body)
    assert back == "id_with_all_sorts"
    assert done.result.content.name == "a.b/c"


def answered(*parts, max_tokens=100, usage=None, **more):
    """Translate an answer of these parts."""
    response = ModelResponse(parts=list(parts), usage=usage or RequestUsage(), **more)
    return convert_completion(response, request(max_tokens=max_tokens), MODEL, {})


def test_one_block_stands_alone():
    """And several are a list."""
    assert answered(TextPart("Hi")).result.content == TextContent(text="Hi")
    both = answered(TextPart("Look:"), ToolCallPart("see", {"at": 1}, tool_call_id="7"))
    assert both.result.content == [TextContent(text="Look:"), ToolUseContent(id="7", name="see", input={"at": 1})]


def test_media_come_back():
    """Pictures and sound; anything else is left out."""
    files = [FilePart(BinaryContent(PNG, media_type=kind)) for kind in ("image/png", "audio/wav", "video/mp4")]
    assert answered(*files).result.content == [ImageContent.of(PNG, "image/png"), AudioContent.of(PNG, "audio/wav")]


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
