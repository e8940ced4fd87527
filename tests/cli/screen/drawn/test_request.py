"""One question as pieces, in the order of the page."""

from __future__ import annotations

import msgspec
from msgspec import structs

from antiphon.cli.screen.drawn.document import Document
from antiphon.cli.screen.drawn.request import changed, draw, heading, kept_only
from antiphon.cli.screen.words import words
from antiphon.host import ElicitItem, ToolItem
from antiphon.host.checks.risk import Risk
from antiphon.host.review.diff import Line
from antiphon.host.review.question import Question
from antiphon.host.review.shown import Shown
from antiphon.wire.common import Implementation
from antiphon.wire.content import ImageContent, ToolResultContent, ToolUseContent
from antiphon.wire.elicitation import ElicitRequestParams
from antiphon.wire.envelope import encode
from antiphon.wire.origin import Round
from antiphon.wire.sampling import SamplingMessage
from antiphon.wire.tools import CallToolRequestParams, Tool
from tests.cli.screen.reviewing import FORM, RESULT, sampling, show_of
from tests.host.asks import origin, request, says

EN = words("en")


def page(shown: Shown, *, raw: bool = False, language: str = "en", model: str | None = None) -> str:
    """Read a page of 100 columns."""
    document = Document(draw(shown, words(language), raw=raw, model=model), 100)
    return "\n".join(row.lead + row.text for row in map(document.row, range(len(document))))


def in_order(text: str, *parts: str) -> None:
    """Hold that these follow each other."""
    at = -1
    for part in parts:
        found = text.find(part, at + 1)
        assert found > at, f"{part!r} is not there, or not behind what it should be:\n{text}"
        at = found


def test_a_request_is_shown_whole_and_in_order():
    """Exactly what is sent first; then what was changed, tools, model, who asks, what to look at."""
    params = request(
        messages=[says("One\nTwo"), says("Three", "assistant"), says("Four")],
        system_prompt="Be brief",
        tools=[Tool(name="look", input_schema={"type": "object"})],
        temperature=0.5,
    )
    item = sampling(
        params=params,
        received=msgspec.structs.replace(params, max_tokens=500),
        origin=origin(round=Round(n=2, max=9), server=Implementation(name="Shop", version="1")),
        risks=(Risk(kind="tools", level="warning", text="the model may ask for 1 tool"),),
    )
    shown = page(show_of(item, "request"))
    in_order(shown, "Server", "python catalogue.py", '"Shop 1"', "tools/call describe", "round 2 of at most 9", '"sku"')
    in_order(shown, "System prompt", "│ Be brief", "Look closely", " ! the model may ask for 1 tool")
    in_order(shown, "Messages (3)", "1 · user", "│ One", "│ Two", "2 · assistant", "│ Three", "3 · user", "│ Four")
    in_order(shown, "What was changed", "│ - maxTokens: 500", "│ + maxTokens: 100", "Tools (1)", "▪ look", "Model")
    in_order(shown, "Tokens at most", "100", "Temperature", "0.5")
    assert "Raw JSON" not in shown


def test_parts_that_are_no_text_are_named():
    """Pictures and sounds by their type, uses of tools with their input, results with what is in them."""
    turns = [
        SamplingMessage(role="user", content=ImageContent(data="AAAA", mime_type="image/png")),
        SamplingMessage(role="assistant", content=ToolUseContent(id="u1", name="look", input={"at": 1})),
        SamplingMessage(
            role="user",
            content=ToolResultContent(tool_use_id="u1", content=[says("found").blocks[0]], structured_content={"n": 2}),
        ),
    ]
    params = request(messages=turns)
    shown = page(show_of(sampling(params=params, received=params), "request"))
    in_order(shown, "▪ Image image/png", "▪ Use of the tool look (u1)", '"at"', "▪ Result of the tool use u1")
    in_order(shown, "   │ found", "▪ Structured result", '"n"')


def test_an_answer_is_shown_before_what_it_answers():
    """With the model it is of."""
    shown = page(show_of(sampling(result=RESULT), "response"))
    in_order(shown, "Answer of m, stopped by -", "│ x", "Messages (1)", "│ Describe a sweater")


def test_a_form_is_shown_with_its_fields():
    """What is needed, what can be chosen, what is there at first."""
    shown = show_of(ElicitItem(origin=origin(), params=FORM), "elicitation")
    assert heading(shown, EN) == "A server asks you for information"
    in_order(
        page(shown),
        "Message",
        "│ Who?",
        "▪ name (required)",
        "▪ age",
        "The server suggests: 7",
        "▪ colour",
        "- red",
        "- blue",
    )


def test_an_address_is_text():
    """And one that is not a plain https is pointed out."""
    shown = show_of(
        ElicitItem(origin=origin(), params=ElicitRequestParams.visit("Go", "http://a.example")), "elicitation"
    )
    assert heading(shown, EN) == "A server asks you to open an address"
    in_order(page(shown), "Host", "a.example", "│ http://a.example", "not a plain https", "│ Go")
    plain = ElicitRequestParams.visit("Go", "https://a.example")
    assert "not a plain https" not in page(show_of(ElicitItem(origin=origin(), params=plain), "elicitation"))


def test_a_tool_is_shown_with_what_the_server_says_of_it():
    """Apart from what is sent."""
    who = origin(tool=Tool(name="pay", description="Pays", input_schema={}))
    item = ToolItem(origin=who, params=CallToolRequestParams.of("pay", {"n": 7}), choices=frozenset({"deny"}))
    shown = page(show_of(item, "tool"))
    in_order(shown, "What will be sent to the server", "pay", '"n"', "What the server says of the tool", "Pays")


def test_a_changed_definition_is_shown_with_what_has_changed():
    """Between what is sent and what the server says now; one that is too long to compare says so."""
    tool = Tool(name="pay", description="Pays\nanybody", input_schema={})
    params = CallToolRequestParams.of("pay", {"n": 7})
    for allowed, changes in (
        (encode(structs.replace(tool, description="Pays\nme")).decode(), "+     anybody"),
        ("", ""),
    ):
        item = ToolItem(origin=origin(tool=tool), params=params, choices=frozenset({"deny"}), allowed=allowed)
        shown = page(show_of(item, "tool"))
        said = ("-     me", changes) if allowed else ("Too long to be compared",)
        in_order(shown, '"n"', "What has changed since it was allowed", *said, "What the server says of the tool")


def test_raw_json_comes_last():
    """Where it is wanted."""
    in_order(page(show_of(sampling(), "request"), raw=True), "Messages", "Raw JSON", '│   "maxTokens": 100')


def test_a_request_nobody_waits_for_says_so():
    """First of all."""
    shown = msgspec.structs.replace(show_of(sampling(), "request"), waited_for=False)
    assert page(shown).startswith(" The program that asked has ended.")


def test_what_is_kept_of_one_that_is_over_is_little():
    """Who it was."""
    over = Question(
        id="77",
        kind="request",
        group="g",
        identity="command:ab",
        created=0,
        expires=None,
        state="done",
        waited_for=True,
    )
    assert [piece.text for piece in kept_only(over, EN)] == ["command:ab", "77"]


def test_what_cannot_be_compared_says_so():
    """As does what was not changed."""
    assert [piece.text for piece in changed([], EN)] == ["It is sent exactly as the server wrote it."]
    assert "Too long to be compared" in next(changed(None, EN)).text
    lines = list(changed([Line("+", "a\x1bb"), Line("-", "c"), Line(" ", "d")], EN))
    assert [(line.text, line.style) for line in lines] == [
        ("+ a\u27e6U+001B\u27e7b", "added"),
        ("- c", "removed"),
        ("  d", ""),
    ]


def test_it_is_shown_in_chinese():
    """All that is ours."""
    shown = page(show_of(sampling(), "request"), language="zh")
    for word in (
        "\u670d\u52a1\u5668",
        "\u987b\u7559\u610f",
        "\u6d88\u606f",
        "\u6240\u4f5c\u66f4\u6539",
        "\u6a21\u578b",
    ):
        assert word in shown
