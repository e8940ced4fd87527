"""Requests that break the protocol or its bounds are refused, with the place named."""

from __future__ import annotations

import base64
import struct

import pytest

from antiphon.errors import InvalidParams
from antiphon.host.checks import validate as module
from antiphon.host.checks.validate import inspect_media, validate_request, validate_result
from antiphon.wire.content import (
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    TextContent,
    ToolResultContent,
    ToolUseContent,
    UnknownContent,
)
from antiphon.wire.sampling import (
    CreateMessageRequestParams,
    CreateMessageResult,
    ModelHint,
    ModelPreferences,
    SamplingMessage,
    ToolChoice,
)
from antiphon.wire.tools import Tool
from tests.host.asks import request, says


def uses(*ids: str) -> SamplingMessage:
    """Make a message that uses a tool once for each id."""
    return SamplingMessage(role="assistant", content=[ToolUseContent(id=each, name="f", input={}) for each in ids])


def results(*ids: str, **more) -> SamplingMessage:
    """Make a message that answers these uses."""
    blocks = [ToolResultContent(tool_use_id=each, content=[TextContent(text="ok")]) for each in ids]
    return SamplingMessage(role="user", content=blocks, **more)


def refused(params: CreateMessageRequestParams) -> str:
    """Return the place that is named."""
    with pytest.raises(InvalidParams) as caught:
        validate_request(params)
    assert caught.value.message.startswith(caught.value.data["place"] + ": ")
    return caught.value.data["place"]


def nested(depth: int) -> dict:
    """Make an object that nests this deep."""
    value: dict = {}
    for _ in range(depth):
        value = {"a": value}
    return value


def test_a_tool_loop_is_valid():
    """Uses answered in the next message, in any order, over several turns; ids may come again later."""
    validate_request(
        request(messages=[says("q"), uses("1", "2"), results("2", "1"), uses("1"), results("1"), says("ok")])
    )


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([], "messages"),
        ([says("q", role="system")], "messages[0].role"),
        ([SamplingMessage(role="user", content=[])], "messages[0].content"),
        ([uses("1")], "messages[0].content[0].id"),
        ([uses("1"), says("no result")], "messages[0].content[0].id"),
        ([uses("1", "2"), results("1")], "messages[0].content[1].id"),
        ([uses("1"), results("1", "1")], "messages[1].content[1].toolUseId"),
        ([uses("1"), results("2")], "messages[1].content[0].toolUseId"),
        ([results("1")], "messages[0].content[0].toolUseId"),
        ([uses("1"), results("1"), results("1")], "messages[2].content[0].toolUseId"),
        ([uses("1", "1"), results("1")], "messages[0].content[1].id"),
        ([SamplingMessage(role="user", content=ToolUseContent(id="1", name="f", input={}))], "messages[0].content"),
    ],
)
def test_tool_uses_and_results_must_balance(messages: list[SamplingMessage], place: str):
    """2025-11-25 client/sampling: every use is answered in the next message, once, by a user."""
    assert refused(request(messages=messages)) == place


def test_a_result_from_the_assistant_is_refused():
    """Only the user gives results."""
    forged = SamplingMessage(role="assistant", content=results("1").content)
    assert refused(request(messages=[uses("1"), forged])) == "messages[1].content[0]"


def test_a_message_with_results_holds_nothing_else():
    """2025-11-25: messages with tool results must contain only tool results."""
    mixed = SamplingMessage(role="user", content=[*results("1").blocks, TextContent(text="and")])
    assert refused(request(messages=[uses("1"), mixed])) == "messages[1].content[1]"


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"max_tokens": 0}, "maxTokens"),
        ({"max_tokens": True}, "maxTokens"),
        ({"temperature": float("nan")}, "temperature"),
        ({"temperature": float("inf")}, "temperature"),
        ({"temperature": 10**400}, "temperature"),
        ({"model_preferences": ModelPreferences(cost_priority=1.1)}, "modelPreferences.costPriority"),
        ({"model_preferences": ModelPreferences(speed_priority=-0.1)}, "modelPreferences.speedPriority"),
        (
            {"model_preferences": ModelPreferences(intelligence_priority=float("nan"))},
            "modelPreferences.intelligencePriority",
        ),
        ({"model_preferences": ModelPreferences(hints=[ModelHint()] * 300)}, "modelPreferences.hints"),
        ({"stop_sequences": ["x"] * 300}, "stopSequences"),
        ({"tools": [Tool(name=str(at), input_schema={}) for at in range(300)]}, "tools"),
        ({"tools": [Tool(name="f", input_schema={})] * 2}, "tools[1].name"),
        ({"tools": [Tool(name="", input_schema={})]}, "tools[0].name"),
        ({"tools": [Tool(name="f", input_schema=nested(70))]}, "tools[0]"),
        ({"tool_choice": ToolChoice(mode="required")}, "toolChoice.mode"),
        ({"metadata": nested(70)}, "metadata"),
        ({"messages": [says("q")] * 1001}, "messages"),
        ({"messages": [SamplingMessage(role="user", content=[TextContent(text="x")] * 1001)]}, "messages[0].content"),
        ({"messages": [says("x" * 11_000_000)]}, "messages[0].content.text"),
        ({"messages": [says("é" * 6_000_000)]}, "messages[0].content.text"),
    ],
)
def test_numbers_counts_and_sizes_are_bounded(more: dict, place: str):
    """What no honest request needs is refused."""
    assert refused(request(**more)) == place


@pytest.mark.parametrize(
    ("block", "place"),
    [
        (UnknownContent("hologram", {}), "messages[0].content"),
        (EmbeddedResource(resource=ResourceContents(uri="x:y", text="t")), "messages[0].content"),
        (ImageContent(data="####", mime_type="image/png"), "messages[0].content.data"),
        (ImageContent(data="PHN2Zz4=", mime_type="image/svg+xml"), "messages[0].content.data"),
    ],
)
def test_content_must_be_what_sampling_knows(block: object, place: str):
    """Unknown kinds and false media are refused."""
    assert refused(request(messages=[SamplingMessage(role="user", content=block)])) == place


def test_media_are_bounded_together(monkeypatch: pytest.MonkeyPatch):
    """Many small pictures are as heavy as a large one."""
    picture = ImageContent.of(b"\x89PNG\r\n\x1a\n" + b"\x00" * 100, "image/png")
    monkeypatch.setattr(module, "MAX_MEDIA", 250)
    assert (
        refused(request(messages=[SamplingMessage(role="user", content=[picture] * 3)]))
        == "messages[0].content[2].data"
    )


def test_the_inside_of_a_tool_result_is_checked():
    """A blob that is no base64, deep structure and unknown blocks have places too."""
    blob = EmbeddedResource(resource=ResourceContents(uri="x:y", blob="!"))
    for content, structured, place in (
        ([blob], None, "messages[1].content.content[0].resource.blob"),
        ([UnknownContent("hologram", {})], None, "messages[1].content.content[0]"),
        ([], nested(70), "messages[1].content.structuredContent"),
    ):
        result = ToolResultContent(tool_use_id="1", content=content, structured_content=structured)
        asked = request(messages=[uses("1"), SamplingMessage(role="user", content=result)])
        assert refused(asked) == place


def test_a_structure_that_holds_itself_is_refused():
    """Only our own code can make one, but it must not hang."""
    loop: dict = {}
    loop["again"] = loop
    assert refused(request(metadata=loop)) == "metadata"


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        (CreateMessageResult(role="user", content=TextContent(text="x"), model="m"), "role"),
        (CreateMessageResult(role="assistant", content=[], model="m"), "content"),
        (
            CreateMessageResult(role="assistant", content=ToolUseContent(id="1", name="rm", input={}), model="m"),
            "content.name",
        ),
        (CreateMessageResult(role="assistant", content=results("1").content, model="m"), "content[0]"),
        (CreateMessageResult(role="assistant", content=TextContent(text="x"), model=None), "model"),  # type: ignore[arg-type]
        (
            CreateMessageResult(role="assistant", content=TextContent(text="x"), model="m", stop_reason=5),  # type: ignore[arg-type]
            "stopReason",
        ),
    ],
)
def test_an_answer_must_be_one(answer: CreateMessageResult, place: str):
    """A provider cannot make the host send nonsense, or use a tool that nobody offered."""
    with pytest.raises(InvalidParams) as caught:
        validate_result(answer, request(tools=[Tool(name="f", input_schema={})]))
    assert caught.value.data == {"place": place}


def test_a_tool_that_was_offered_may_be_used():
    """A tool use is an answer."""
    answer = CreateMessageResult(role="assistant", content=ToolUseContent(id="1", name="f", input={}), model="m")
    validate_result(answer, request(tools=[Tool(name="f", input_schema={})]))


PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"
JPEG = b"\xff\xd8\xff\xe0\x00\x04ab\xff\xc0\x00\x11\x08"


def png(width: int, height: int) -> bytes:
    """Make the beginning of a picture of this size."""
    return PNG + struct.pack(">II", width, height) + b"\x08\x06\x00\x00\x00"


def jpeg(width: int, height: int) -> bytes:
    """Make the beginning of a photograph of this size."""
    return JPEG + struct.pack(">HH", height, width) + b"\x03"


def encoded(raw: bytes) -> str:
    """Write bytes as they travel."""
    return base64.b64encode(raw).decode()


@pytest.mark.parametrize(
    ("raw", "mime_type"),
    [
        (png(3, 4), "image/png"),
        (jpeg(3, 4), "image/jpeg"),
        (b"GIF89a\x03\x00\x04\x00", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8L\x00\x00\x00\x00/\x02\xc0\x00\x00", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8 " + b"\x00" * 10 + b"\x03\x00\x04\x00", "image/webp"),
        (b"RIFF\x00\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x03\x00\x00", "image/webp"),
    ],
)
def test_a_picture_is_known_by_its_bytes(raw: bytes, mime_type: str):
    """Format and size in pixels come from the header."""
    media = inspect_media(encoded(raw), mime_type)
    assert (media.mime_type, media.size, media.pixels) == (mime_type, len(raw), 12)


@pytest.mark.parametrize(
    ("raw", "declared"),
    [
        (b"RIFF\x00\x00\x00\x00WAVEfmt ", "audio/x-wav"),
        (b"ID3\x04\x00", "audio/mpeg"),
        (b"\xff\xfb\x90\x00", "audio/mp3"),
        (b"\xff\xf1\x50\x80", "audio/aac"),
        (b"OggS\x00", "audio/ogg; codecs=opus"),
        (b"fLaC\x00", "audio/flac"),
        (b"\x00\x00\x00\x20ftypM4A ", "audio/mp4"),
    ],
)
def test_sound_is_known_by_its_bytes(raw: bytes, declared: str):
    """The usual names for a format are all understood."""
    assert inspect_media(encoded(raw), declared).pixels == 0


@pytest.mark.parametrize(
    ("data", "declared", "problem"),
    [
        ("not base64!", "image/png", "not valid base64"),
        ("AAA", "image/png", "not valid base64"),
        (encoded(b"<svg onload=alert(1)>"), "image/svg+xml", "not in an accepted format"),
        (encoded(b"MZ\x90\x00"), "image/png", "not in an accepted format"),
        (encoded(png(1, 1)), "image/jpeg", "another type"),
        (encoded(png(30_000, 30_000)), "image/png", "pixels"),
        (encoded(jpeg(30_000, 30_000)), "image/jpeg", "pixels"),
        ("", "image/png", "not in an accepted format"),
    ],
)
def test_what_is_not_what_it_says_is_refused(data: str, declared: str, problem: str):
    """Wrong types, bombs and rubbish do not reach a provider."""
    with pytest.raises(ValueError, match=problem):
        inspect_media(data, declared)
