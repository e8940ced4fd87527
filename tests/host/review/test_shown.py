"""What is shown of a question: all of it, in order."""

from __future__ import annotations

from typing import Any

import msgspec

from antiphon.host.checks.risk import assess_risks
from antiphon.host.review.review import ToolItem
from antiphon.host.review.shown import collect_shown, shape_of
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
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.sampling import CreateMessageResult, ModelHint, ModelPreferences, SamplingMessage, ToolChoice
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.host.asks import origin, request, says
from tests.host.review.questions import form, question

TOOL = Tool(name="look", input_schema={"type": "object"})


def test_every_member_of_a_request_is_shown():
    """Tokens, temperature, stops, choice of tools, hints, priorities, metadata."""
    params = request(
        temperature=0.5,
        stop_sequences=["END"],
        tools=[TOOL],
        tool_choice=ToolChoice(mode="auto"),
        model_preferences=ModelPreferences(hints=[ModelHint(name="fast")], cost_priority=1, speed_priority=0),
        metadata={"a": 1},
    )
    assert dict(collect_shown(question(params)).facts) == {
        "fact.max_tokens": "100",
        "fact.temperature": "0.5",
        "fact.stop": '["END"]',
        "fact.tool_choice": "auto",
        "fact.hints": '["fast"]',
        "fact.cost": "1",
        "fact.speed": "0",
        "fact.metadata": '{"a":1}',
    }


def test_an_answer_is_shown_with_its_own_digest():
    """What is approved then is the answer, not the request."""
    result = CreateMessageResult(role="assistant", content=TextContent(text="so"), model="m")
    shown = collect_shown(question(result=result))
    assert (shown.answer_text, shown.answer.parts[0].text) == ("so", "so")
    assert shown.digest != collect_shown(question()).digest


def test_a_call_of_a_tool_is_shown_with_what_the_server_says_of_it():
    """What will be sent, and the definition."""
    item = ToolItem(
        origin=origin(tool=TOOL),
        params=CallToolRequestParams(name="look", arguments=msgspec.Raw(b'{"at":"it"}')),
        choices=frozenset({"approve", "deny"}),
    )
    shown = collect_shown(msgspec.structs.replace(question(), kind="tool", item=item))
    assert '"at": "it"' in shown.arguments
    assert '"look"' in shown.tool


def table_of(arguments: bytes, schema: dict[str, Any]) -> list[tuple[str, str, str, str | None]]:
    """Return the rows of the table of a call's arguments."""
    item = ToolItem(
        origin=origin(tool=Tool(name="look", input_schema=schema)),
        params=CallToolRequestParams(name="look", arguments=msgspec.Raw(arguments)),
        choices=frozenset({"approve", "deny"}),
    )
    shown = collect_shown(msgspec.structs.replace(question(), kind="tool", item=item))
    return [(row.name, row.value, row.says, row.default) for row in shown.table]


def test_an_argument_is_described_by_what_its_reference_leads_to():
    """A description beside the reference prevails; a reference that leads nowhere or in a circle describes nothing."""
    schema = {
        "properties": {
            "to": {"$ref": "#/$defs/a~1b"},
            "by": {"$ref": "#/$defs/a~1b", "description": "The sender"},
            "of": {"$ref": "#/$defs/round"},
            "no": {"$ref": "https://elsewhere.example/schema"},
            "cc": {"allOf": [{"$ref": "#/$defs/Person"}], "default": "eve"},
        },
        "$defs": {
            "a/b": {"$ref": "#/$defs/Person"},
            "Person": {"type": "string", "description": "A person", "default": "ann"},
            "round": {"$ref": "#/$defs/round"},
        },
    }
    assert table_of(b'{"to":"bob","by":"ann","of":1,"no":2,"cc":"bob"}', schema) == [
        ("to", "bob", "A person", "ann"),
        ("cc", "bob", "A person", "eve"),
        ("by", "ann", "The sender", None),
        ("of", "1", "", None),
        ("no", "2", "", None),
    ]


def test_references_are_followed_up_to_a_size_that_counts_once_for_each_argument():
    """Each of them could refer to most of the schema."""
    filler = {"type": "string", "enum": ["x" * 100_000]}
    for most, said in ((10, "An A"), (11, "")):
        properties = {f"a{number}": {"$ref": "#/$defs/A"} for number in range(most)}
        schema = {"properties": properties, "$defs": {"A": {"description": "An A"}, "B": filler}}
        assert table_of(b'{"a1":1}', schema) == [("a1", "1", said, None)]


def test_arguments_with_a_name_that_stands_twice_are_in_no_table():
    """The server may take the value that a table would not show; the JSON shows both, and what is no object at all."""
    assert table_of(b'{"amount":1,"\\u0061mount":1000}', {}) == []
    assert table_of(b"[1]", {}) == table_of(b"null", {}) == []
    assert table_of(b'{"amount":{"a":1,"a":2}}', {}) == [("amount", '{\n  "a": 1,\n  "a": 2\n}', "", None)]


def test_a_number_is_shown_as_it_is_sent():
    """Also one that a decoder would round; a default of another type is another value."""
    numbers = b'{"a":9007199254740993.0,"b":-0,"c":0.10000000000000000000000001,"d":1}'
    assert table_of(numbers, {"properties": {"d": {"default": True}}}) == [
        ("d", "1", "", "true"),
        ("a", "9007199254740993.0", "", None),
        ("b", "-0", "", None),
        ("c", "0.10000000000000000000000001", "", None),
    ]


def test_a_text_that_looks_like_the_default_differs_from_it():
    """Else the table would hide that the call names another value; how a text is escaped makes no difference."""
    schema = {"properties": {"a": {"default": 1}, "b": {"default": "\u4f60"}}}
    assert table_of(b'{"a":"1","b":"\\u4f60"}', schema) == [("a", "1", "", "1"), ("b", "\u4f60", "", None)]


def test_only_a_plain_address_is_a_link():
    """Https, in letters that look like themselves, without a user name before the host."""
    opens = {
        url: collect_shown(form(ElicitRequestParams.visit("Go", url))).opens
        for url in (
            "https://example.com/a?b",
            "http://example.com/",
            "https://good.example@evil.example/",
            "https://ex\u0430mple.com/",
            "javascript:alert(1)",
            "https://a b/",
            "https://evil.example\\.good.example/",
        )
    }
    assert list(opens.values()) == [True, False, False, False, False, False, False]


def test_a_form_that_cannot_be_read_is_still_shown():
    """The host refuses it before; what was kept all the same is not a fault of the page."""
    broken = ElicitRequestParams.form("?", {"properties": {"a": {"type": "nothing"}}})
    assert collect_shown(form(broken)).fields == ()


def test_what_is_over_is_not_there():
    """Its content is gone with the decision."""
    assert collect_shown(msgspec.structs.replace(question(), item=None)) is None


def test_only_the_same_server_prompt_and_tools_are_alike():
    """Other texts and fewer tokens are alike; another system prompt, tool or server is not."""
    base = shape_of(question())
    assert base == shape_of(question(request("Another", max_tokens=5)))
    assert base != shape_of(question(request(system_prompt="Be rude")))
    assert base != shape_of(question(request(tools=[TOOL])))
    assert base != shape_of(question(who=origin(command=["other"])))
    assert shape_of(form(ElicitRequestParams.visit("Go", "https://example.com"))) is None


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
    turns = collect_shown(question(request(messages=messages))).turns
    assert [part.kind for part in turns[0].parts] == ["text", "image", "audio"]
    assert [part.kind for part in turns[1].parts] == ["json"]
    assert [part.label for part in turns[2].parts] == [
        "part.failure",
        "",
        "part.image",
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
    item = msgspec.structs.replace(asked.item, risks=tuple(assess_risks(params, origin())))
    shown = collect_shown(msgspec.structs.replace(asked, item=item))
    parts = [turn.parts[0] for turn in shown.turns]
    assert [part.spots for part in parts] == [(), ((11, 31),), ()]
    assert [part.remarkable for part in parts] == [False, False, True]
