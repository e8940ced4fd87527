"""What a revision cannot carry without losing its meaning is refused, with the thing and the revision named."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from antiphon.errors import LocalProtocolError, NotInRevision
from antiphon.wire.content import (
    AudioContent,
    ImageContent,
    ResourceLink,
    TextContent,
    ToolResultContent,
    ToolUseContent,
)
from antiphon.wire.elicitation import ElicitRequestParams, ElicitResult
from antiphon.wire.lifecycle import CancelledNotificationParams
from antiphon.wire.prompts import GetPromptResult, PromptMessage
from antiphon.wire.revisions import REVISIONS, find_revision
from antiphon.wire.rounds import InputRequiredResult
from antiphon.wire.sampling import CreateMessageRequestParams, CreateMessageResult, SamplingMessage, ToolChoice
from antiphon.wire.tools import CallToolResult, Tool

NAMES = [each.name for each in REVISIONS]
HI = TextContent(text="hi")
SOUND = AudioContent.of(b"la", "audio/wav")
LINK = ResourceLink(uri="a:b", name="b")
FORM = {"type": "object", "properties": {}}
PAY = ElicitRequestParams.visit("Pay", "https://example.org", elicitation_id="1")


def asked(*content, **members):
    """Make a sampling request of one message."""
    message = SamplingMessage(role="user", content=content[0] if len(content) == 1 else list(content))
    return CreateMessageRequestParams(messages=[message], max_tokens=1, **members)


def multiple_choice():
    """Make a form with a multiple choice."""
    schema = {"type": "array", "items": {"type": "string", "enum": ["a"]}}
    return ElicitRequestParams.form("Which?", {"type": "object", "properties": {"which": schema}})


# What, the value, and the first revision that can carry it (or the only ones).
CASES = [
    ("Audio", CallToolResult(content=[HI, SOUND]), "2025-03-26"),
    ("Audio", asked(SOUND), "2025-03-26"),
    ("Audio", GetPromptResult(messages=[PromptMessage(role="user", content=SOUND)]), "2025-03-26"),
    ("A link to a resource", CallToolResult(content=[LINK]), "2025-06-18"),
    ("A link to a resource", GetPromptResult(messages=[PromptMessage(role="user", content=LINK)]), "2025-06-18"),
    ("Elicitation", ElicitRequestParams.form("Name?", FORM), "2025-06-18"),
    ("Elicitation", ElicitResult(action="decline"), "2025-06-18"),
    ("2 content blocks", asked(HI, HI), "2025-11-25"),
    ("2 content blocks", CreateMessageResult(role="assistant", model="m", content=[HI, HI]), "2025-11-25"),
    ("Sampling with tools", asked(HI, tools=[Tool(name="t", input_schema={"type": "object"})]), "2025-11-25"),
    ("Sampling with tools", asked(HI, tool_choice=ToolChoice(mode="none")), "2025-11-25"),
    ("The use of a tool", asked(ToolUseContent(id="1", name="t", input={})), "2025-11-25"),
    ("The result of a tool", asked(ToolResultContent(tool_use_id="1", content=[])), "2025-11-25"),
    ("URL", PAY, "2025-11-25"),
    ("multiple choices (`which`)", multiple_choice(), "2025-11-25"),
    ("several values (`which`)", ElicitResult(action="accept", content={"which": ["a"]}), "2025-11-25"),
    ("input", InputRequiredResult(request_state="s"), "2026-07-28"),
]


@pytest.mark.parametrize(("thing", "value", "since"), CASES)
def test_refused_before_and_carried_since(thing, value, since):
    """Every revision before the first that has it refuses; the later ones take it."""
    for name in NAMES:
        lower = find_revision(name).lower
        if name >= since:
            # The id of an address exists in one revision only.
            assert lower(value) == (replace(PAY, elicitation_id=None) if value is PAY and name > since else value)
            continue
        with pytest.raises(NotInRevision) as caught:
            lower(value)
        assert name in str(caught.value)
        # An older revision may lack what contains the thing: then that is what is named.
        assert thing in str(caught.value) or name < "2025-06-18"


def test_a_refusal_is_our_callers_error():
    """Nothing was sent, so it is a ``LocalProtocolError``."""
    with pytest.raises(LocalProtocolError, match="2024-11-05"):
        find_revision("2024-11-05").lower(SOUND)


def test_a_message_without_content_has_no_single_block():
    """An empty list cannot become one block."""
    with pytest.raises(NotInRevision, match="0 content blocks"):
        find_revision("2025-06-18").lower(SamplingMessage(role="user", content=[]))


def test_a_cancellation_of_nothing():
    """Only at 2025-11-25 may a cancellation come without an id."""
    empty = CancelledNotificationParams()
    assert find_revision("2025-11-25").lower(empty) is empty
    for name in ("2024-11-05", "2025-06-18", "2026-07-28"):
        with pytest.raises(NotInRevision, match="requestId"):
            find_revision(name).lower(empty)


def test_a_url_elicitation_needs_its_id_at_one_revision():
    """2025-11-25 requires an ``elicitationId``; 2026-07-28 has none and leaves it out."""
    visit = ElicitRequestParams.visit("Pay", "https://example.org")
    with pytest.raises(NotInRevision, match="elicitationId"):
        find_revision("2025-11-25").lower(visit)
    named = ElicitRequestParams.visit("Pay", "https://example.org", elicitation_id="1")
    assert find_revision("2026-07-28").lower(named) == visit


def test_pictures_are_as_old_as_the_protocol():
    """Images in sampling are carried everywhere."""
    params = asked(ImageContent.of(b"x", "image/png"))
    assert all(each.lower(params) is params for each in REVISIONS)
