"""The messages of a request: every piece of them, in order."""

from __future__ import annotations

import msgspec

from antiphon.host.checks.risk import assess
from antiphon.host.review.shown import show
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
from antiphon.wire.sampling import SamplingMessage
from tests.host.asks import origin, request, says
from tests.host.review.questions import question


def test_every_kind_of_content_is_shown_in_order():
    """Text, pictures, sound, uses of tools, results with what is inside them, and resources; media are numbered."""
    uses = [ToolUseContent(id="u", name="look", input={"at": "it"})]
    results = ToolResultContent(
        tool_use_id="u",
        is_error=True,
        content=[
            TextContent(text="nothing"),
            ImageContent.of(b"b", "image/png"),
            EmbeddedResource(resource=ResourceContents.of("a:b", b"x")),
            EmbeddedResource(resource=ResourceContents.of("a:c", "text")),
            ResourceLink(uri="a:d", name="d"),
        ],
        structured_content={"a": 1},
    )
    pieces = [TextContent(text="see"), ImageContent.of(b"a", "image/png"), AudioContent.of(b"c", "audio/wav")]
    messages = [
        SamplingMessage(role="user", content=pieces),
        SamplingMessage(role="assistant", content=uses),
        SamplingMessage(role="user", content=[results]),
        SamplingMessage(role="user", content=ImageContent.of(b"d", "image/png")),
    ]
    turns = show(question(request(messages=messages))).turns
    assert [part.kind for part in turns[0].parts] == ["text", "image", "audio"]
    assert [part.kind for part in turns[1].parts] == ["json"]
    assert [part.label for part in turns[2].parts] == [
        "part.failure",
        "",
        "",
        "part.blob",
        "part.resource",
        "part.link",
        "part.structured",
    ]
    media = [part.media for turn in turns for part in turn.parts if part.kind in ("image", "audio")]
    assert media == [0, 1, 2, 4]


def test_what_looks_like_a_secret_is_pointed_at():
    """In a text by its characters, in values that are drawn in another way as a whole; elsewhere not at all."""
    key = "AKIAIOSFODNN7EXAMPLE"
    use = ToolUseContent(id="u", name="look", input={"key": key})
    params = request(
        messages=[says("nothing"), says(f"the key is {key}."), SamplingMessage(role="assistant", content=(use,))]
    )
    asked = question(params)
    item = msgspec.structs.replace(asked.item, risks=tuple(assess(params, origin())))
    shown = show(msgspec.structs.replace(asked, item=item))
    parts = [turn.parts[0] for turn in shown.turns]
    assert [part.spots for part in parts] == [(), ((11, 31),), ()]
    assert [part.remarkable for part in parts] == [False, False, True]
