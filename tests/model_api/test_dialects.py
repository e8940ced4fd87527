"""The vendors' requests, member by member: carried, noted or refused, as the table says."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import pytest

from antiphon.model_api.dialects.asked import CHAT, MESSAGES, RESPONSES, DialectMembers, Failure, anthropic_error
from antiphon.model_api.dialects.messages import Messages
from antiphon.model_api.dialects.openai import Chat, Responses

SAID = [{"role": "user", "content": "x"}]
REMOTE = {"type": "image", "source": {"type": "url", "url": "http://x/y.png"}}
BASE: dict[str, dict[str, Any]] = {
    "chat": {"model": "m", "messages": SAID},
    "messages": {"model": "m", "messages": SAID, "max_tokens": 5},
    "responses": {"model": "m", "input": "x"},
}
DIALECTS = {"chat": Chat(), "messages": Messages(), "responses": Responses()}
TABLES = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}


def read(vendor: str, **more: Any):
    """Read a request of a vendor."""
    return DIALECTS[vendor].read({**BASE[vendor], **more}, offers_tools=True)


@pytest.mark.parametrize(
    ("table", "theirs"),
    [
        (CHAT, "openai.types.chat.completion_create_params:CompletionCreateParamsBase"),
        (MESSAGES, "anthropic.types.message_create_params:MessageCreateParamsBase"),
        (RESPONSES, "openai.types.responses.response_create_params:ResponseCreateParamsBase"),
    ],
    ids=DIALECTS,
)
def test_table_has_every_member_that_the_vendors_client_can_send(table: DialectMembers, theirs: str):
    """A member that a new release of the client brings is decided about, not overlooked."""
    ours = {*table.carried, *table.noted, *table.refused}
    assert len(ours) == len(table.carried) + len(table.noted) + len(table.refused)
    sent = set(resolve_name(theirs).__annotations__) - {"stream"}
    assert sent - ours == set()


@pytest.mark.parametrize("vendor", DIALECTS)
def test_members_have_the_fate_that_the_table_says(vendor: str):
    """What is noted is named and no more; what is refused fails with its place, unless its value asks for nothing."""
    table = TABLES[vendor]
    assert table.harmless.keys() <= table.refused.keys()
    for name in table.noted:
        assert read(vendor, **{name: 1}).noted == (name,)
    for name in table.refused:
        with pytest.raises(Failure) as refused:
            read(vendor, **{name: {"some": "thing"}})
        assert (refused.value.status, refused.value.param) == (400, name)
        for harmless in (None, *table.harmless.get(name, ())):
            assert read(vendor, **{name: harmless}).noted == ()


def test_members_that_are_carried_reach_the_host():
    """Each of the plain members arrives in the request that the host sees."""
    chat = read("chat", max_completion_tokens=9, temperature=0.5, stop="END", stream=True).params
    assert (chat.max_tokens, chat.temperature, chat.stop_sequences) == (9, 0.5, ["END"])
    assert read("chat").params.max_tokens == 4096
    other = read("messages", system=[{"type": "text", "text": "Be brief."}], stop_sequences=["END"]).params
    assert (other.system_prompt, other.stop_sequences, other.max_tokens) == ("Be brief.", ["END"], 5)


@pytest.mark.parametrize(
    ("vendor", "given", "place"),
    [
        ("chat", {"messages": "x"}, "messages"),
        ("chat", {"messages": [{"role": "king", "content": "x"}]}, "messages[0].role"),
        ("chat", {"messages": [{"role": "user", "content": [{"type": "file"}]}]}, "messages[0].content[0].type"),
        (
            "chat",
            {
                "messages": [
                    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "http://x/y.png"}}]}
                ]
            },
            "messages[0].content[0].image_url.url",
        ),
        ("chat", {"max_tokens": True}, "max_tokens"),
        ("chat", {"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ("chat", {"response_format": {"type": "grammar"}}, "response_format.type"),
        ("messages", {"max_tokens": None}, "max_tokens"),
        ("messages", {"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type"),
        ("messages", {"messages": [{"role": "user", "content": [REMOTE]}]}, "messages[0].content[0]"),
    ],
)
def test_mistake_is_named_by_its_place(vendor: str, given: dict[str, Any], place: str):
    """A program learns which member is wrong, in the vendor's own names."""
    with pytest.raises(Failure) as refused:
        read(vendor, **given)
    assert (refused.value.status, refused.value.param) == (400, place)


TOOL = {"name": "f", "description": "d", "parameters": {"type": "object"}}
WHOLE: dict[str, dict[str, Any]] = {
    "chat": {
        **BASE["chat"],
        "messages": [
            {"role": "system", "content": "s"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t"},
                    {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
                ],
            },
            {
                "role": "assistant",
                "content": "c",
                "refusal": "r",
                "tool_calls": [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
            },
            {"role": "tool", "tool_call_id": "1", "content": "x"},
        ],
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object"}}},
        "stop": ["END"],
        "n": 2,
        "max_tokens": 5,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    },
    "messages": {
        **BASE["messages"],
        "system": [{"type": "text", "text": "s"}],
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "t"},
                    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}},
                    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "d"}},
                ],
            },
            {"role": "assistant", "content": [{"type": "tool_use", "id": "1", "name": "f", "input": {}}]},
            {
                "role": "user",
                "content": [{"type": "tool_result", "tool_use_id": "1", "is_error": False, "content": "x"}],
            },
        ],
        "tools": [{"type": "custom", "name": "f", "description": "d", "input_schema": {"type": "object"}}],
        "tool_choice": {"type": "any"},
        "output_config": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "stop_sequences": ["END"],
        "temperature": 0.5,
        "stream": True,
    },
    "responses": {
        **BASE["responses"],
        "instructions": "i",
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "t"}]},
            {"role": "user", "content": [{"type": "input_image", "image_url": "data:image/png;base64,AAAA"}]},
            {"type": "function_call", "call_id": "1", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "1", "output": "x"},
        ],
        "tools": [{"type": "function", **TOOL}],
        "tool_choice": {"type": "function", "name": "f"},
        "text": {"format": {"type": "json_schema", "schema": {"type": "object"}}},
        "max_output_tokens": 5,
        "temperature": 0.5,
        "stream": True,
    },
}
WRONG = (None, True, 0, -1, 2**70, 0.5, "", "wrong", [], [1], [[]], ["wrong"], {}, {"a": []}, {"type": ["x"]})


def broken(value: Any) -> Iterator[Any]:
    """Yield a value once for each place in it and each wrong thing there."""
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from ({**value, name: wrong} for wrong in (*broken(inner), *WRONG))
            yield {key: each for key, each in value.items() if key != name}
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from ([*value[:at], wrong, *value[at + 1 :]] for wrong in (*broken(inner), *WRONG))


@pytest.mark.parametrize("vendor", DIALECTS)
def test_anything_in_any_place_is_read_or_refused(vendor: str):
    """Whatever stands in the place of a value, the program gets the vendor's error, and never a failure of ours."""
    assert DIALECTS[vendor].read(WHOLE[vendor], offers_tools=True).form is not None
    refused: list[int] = []
    for body in broken(WHOLE[vendor]):
        try:
            DIALECTS[vendor].read(body, offers_tools=True)
        except Failure as failure:
            refused.append(failure.status)
    assert set(refused) == {400}
    assert len(refused) > 200


def test_place_of_a_mistake_is_written_once():
    """Anthropic's errors have no member for it."""
    with pytest.raises(Failure) as refused:
        read("messages", messages=[{"role": "king", "content": "x"}])
    assert anthropic_error(refused.value).count(b"messages[0].role") == 1


def test_single_tool_is_offered_alone():
    """A choice of one tool becomes the only tool, which must be used."""
    tools = [{"type": "function", "function": {"name": name}} for name in ("a", "b")]
    chosen = read("chat", tools=tools, tool_choice={"type": "function", "function": {"name": "b"}}).params
    assert ([tool.name for tool in chosen.tools], chosen.tool_choice.mode) == (["b"], "required")
    with pytest.raises(Failure):
        read("chat", tools=tools, tool_choice={"type": "function", "function": {"name": "c"}})


def list_rows(table: DialectMembers) -> Iterator[str]:
    """Write a table as the page has it."""
    yield from (f"| `{name}` | carried | {remark} |" for name, remark in table.carried.items())
    yield from (f"| `{name}` | noted |  |" for name in table.noted)
    yield from (f"| `{name}` | refused | {remark} |" for name, remark in table.refused.items())


def test_page_says_what_the_tables_say():
    """The documentation's tables, row by row."""
    page = Path(__file__).parents[2] / "docs" / "how-to" / "server-with-its-own-key.md"
    rows = [line for line in page.read_text(encoding="utf-8").splitlines() if line.startswith("| `")]
    assert rows == [row for table in (CHAT, RESPONSES, MESSAGES) for row in list_rows(table)]
