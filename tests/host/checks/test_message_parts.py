"""Everything in a request is found, with its place."""

from __future__ import annotations

from antiphon.host.checks.message_parts import list_binaries, list_blocks, list_texts
from antiphon.wire.content import (
    AudioContent,
    EmbeddedResource,
    ImageContent,
    ResourceContents,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage
from antiphon.wire.tools import Tool
from tests.host.asks import request, says


def full() -> CreateMessageRequestParams:
    """Make a request with one of everything."""
    result = ToolResultContent(
        tool_use_id="1",
        content=[
            TextContent(text="inner"),
            ResourceLink(uri="file:///a", name="a"),
            EmbeddedResource(resource=ResourceContents(uri="file:///b", blob="AAAA")),
        ],
        structured_content={"secret": "structured"},
    )
    return request(
        messages=[
            says("hello"),
            SamplingMessage(role="user", content=[ImageContent(data="AA==", mime_type="image/png")]),
            SamplingMessage(role="assistant", content=ToolUseContent(id="1", name="f", input={"q": "asked"})),
            SamplingMessage(role="user", content=[result]),
            SamplingMessage(role="user", content=AudioContent(data="BB==", mime_type="audio/wav")),
        ],
        system_prompt="be kind",
        stop_sequences=["STOP"],
        tools=[Tool(name="f", input_schema={"title": "deep"})],
        metadata={"k": "meta"},
    )


def test_every_block_has_its_place():
    """A single block has no index; blocks in a tool result are found as well."""
    places = [place for place, _ in list_blocks(full())]
    assert places[0] == "messages[0].content"
    assert places[1] == "messages[1].content[0]"
    assert "messages[3].content[0].content[2]" in places


def test_every_text_is_found():
    """Nothing a model would read is missed."""
    found = "\n".join(text for _, text in list_texts(full()))
    for word in ("be kind", "hello", "asked", "inner", "structured", "STOP", "deep", "meta", "file:///a", "file:///b"):
        assert word in found, word


def test_every_piece_of_media_is_found():
    """Images, sound and blobs, each with what it claims to be."""
    found = [(binary.place, binary.playable) for binary in list_binaries(full())]
    assert found == [
        ("messages[1].content[0].data", True),
        ("messages[3].content[0].content[2].resource.blob", False),
        ("messages[4].content.data", True),
    ]


def test_an_answer_is_walked_like_a_message():
    """Places in an answer begin at its content."""
    answer = CreateMessageResult(role="assistant", content=[TextContent(text="hi")], model="m")
    assert [(text.place, text.text) for text in list_texts(answer)] == [("content[0].text", "hi")]
